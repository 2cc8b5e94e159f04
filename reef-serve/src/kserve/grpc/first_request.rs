//! A connection that has to ask for something in time, or loses its place.
//!
//! The first request that is let in counts. Whoever says nothing until then, speaks HTTP/2 without asking for
//! anything, or doesn't know the token, is sent away. Afterwards it may be silent for as long as it likes, as
//! clients keep their channels: whether it is still there, HTTP/2's own pings find out.

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
use tonic::Request;

/// Who it is, and whether it has asked for something; its requests carry this along.
#[derive(Debug, Clone)]
pub(super) struct Card {
    pub(super) peer: Peer,
    asked: Arc<AtomicBool>,
}

impl Card {
    /// It has asked for something, and may.
    pub(super) fn note_request(&self) {
        self.asked.store(true, Ordering::Relaxed); // read when the connection is looked at next
    }
}

/// A connection and the end of its time.
#[derive(Debug)]
pub(super) struct Guest {
    connection: Connection,
    card: Card,
    /// `None` once it has asked for something.
    end: Option<Pin<Box<Sleep>>>,
}

impl Guest {
    /// Has to ask for something within `time` from now on.
    pub(super) fn new(connection: Connection, time: Duration) -> Self {
        let card = Card { peer: connection.peer, asked: Arc::default() };
        Self { connection, card, end: Some(Box::pin(tokio::time::sleep(time))) }
    }

    /// The connection, as long as it has time; if it has not, whatever is tried with it is an error.
    fn in_time(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut Connection>> {
        if self.card.asked.load(Ordering::Relaxed) {
            self.end = None;
        }
        let over = self.end.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready());
        match over {
            true => Err(io::Error::new(io::ErrorKind::TimedOut, "no request in time")),
            false => Ok(Pin::new(&mut self.connection)),
        }
    }
}

/// Who sent a request.
pub(super) fn peer<T>(request: &Request<T>) -> Peer {
    request.extensions().get::<Card>().map_or(Peer::STRANGER, |card| card.peer)
}

impl AsyncRead for Guest {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.in_time(cx)?.poll_read(cx, buf)
    }
}

impl AsyncWrite for Guest {
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

impl tonic::transport::server::Connected for Guest {
    type ConnectInfo = Card;

    fn connect_info(&self) -> Card {
        self.card.clone()
    }
}
