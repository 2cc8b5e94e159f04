//! A connection that has to send a request in time, or is closed.
//!
//! The first request that is admitted counts. A client that sends none until then, speaks HTTP/2 without a
//! request, or doesn't know the token, is cut off. Afterwards it may be silent for as long as it likes, as
//! clients keep their channels: HTTP/2's own pings find out whether it is still there.

use crate::net::connection::Connection;
use crate::net::peer::Peer;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Who the client is, and whether it has sent a request; its requests carry this along.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Peer,
    asked: Arc<AtomicBool>,
}

impl ConnectionInfo {
    /// A request of the client was admitted.
    pub(crate) fn note_request(&self) {
        self.asked.store(true, Ordering::Relaxed); // read at the next poll of the connection
    }
}

/// A connection and the end of its time.
#[derive(Debug)]
pub(crate) struct FirstRequestTimeout {
    connection: Connection,
    info: ConnectionInfo,
    /// `None` once it has sent a request.
    end: Option<Pin<Box<Sleep>>>,
}

impl FirstRequestTimeout {
    /// Has to send a request within `time` from now on.
    pub(crate) fn new(connection: Connection, time: Duration) -> Self {
        let info = ConnectionInfo { peer: connection.peer.clone(), asked: Arc::default() };
        Self { connection, info, end: Some(Box::pin(tokio::time::sleep(time))) }
    }

    /// Who the client is; its requests carry this along.
    pub(crate) fn info(&self) -> ConnectionInfo {
        self.info.clone()
    }

    /// The connection while it has time; afterwards an error.
    fn in_time(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut Connection>> {
        if self.info.asked.load(Ordering::Relaxed) {
            self.end = None;
        }
        let over = self.end.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready());
        match over {
            true => Err(io::Error::new(io::ErrorKind::TimedOut, "no request in time")),
            false => Ok(Pin::new(&mut self.connection)),
        }
    }
}

impl AsyncRead for FirstRequestTimeout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.in_time(cx)?.poll_read(cx, buf)
    }
}

impl AsyncWrite for FirstRequestTimeout {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.in_time(cx)?.poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(cx)?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(cx)?.poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.in_time(cx)?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}
