//! A connection that is served: it keeps its place by asking for something, and by reading what it
//! is answered.
//!
//! | closed when | after |
//! |---|---|
//! | it has sent no request that was admitted | `times.idle_ms` |
//! | its first request was refused | a second, in which it can read that |
//! | it takes nothing of what is sent to it | `times.write_ms` |
//! | its place was needed for another | at once |
//!
//! After its first request it may be silent for as long as there are places, as clients keep their
//! channels: HTTP/2's own pings find out whether it is still there.

use crate::config::limits::Times;
use crate::net::connection::Connection;
use crate::net::identity::peer::Peer;
use crate::net::quota::connection_pool::{Lost, Place};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long a client that was refused may read why.
const REFUSED: Duration = Duration::from_secs(1);

/// Who the client is, its place, and what came of its requests; its requests carry this along.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Peer,
    pub(crate) place: Arc<Place>,
    /// One of [`SILENT`], [`REFUSED_FIRST`], [`ADMITTED`], which only grows.
    state: Arc<AtomicU8>,
}

/// No request has come.
const SILENT: u8 = 0;
/// Some have, and none was admitted.
const REFUSED_FIRST: u8 = 1;
/// One was admitted.
const ADMITTED: u8 = 2;

impl ConnectionInfo {
    /// A request of the client was admitted, or not.
    pub(crate) fn note_request(&self, is_admitted: bool) {
        let state = if is_admitted { ADMITTED } else { REFUSED_FIRST };
        self.state.fetch_max(state, Ordering::Relaxed); // read at the next poll of the connection
    }
}

/// A connection and the ends of its times.
#[derive(Debug)]
pub(crate) struct ServedConnection {
    connection: Connection,
    info: ConnectionInfo,
    /// Pending for ever once it is complete: see [`Self::attend`].
    lost: Option<Lost>,
    /// Until it has sent a request.
    end: Option<Pin<Box<Sleep>>>,
    /// While it takes nothing of what is sent to it.
    stalled: Option<Pin<Box<Sleep>>>,
    write: Duration,
}

impl ServedConnection {
    /// Has its times from now on.
    pub(crate) fn new(mut connection: Connection, times: &Times) -> Self {
        let (peer, place) = (connection.peer.clone(), connection.place.clone());
        let lost = connection.lost.take();
        let info = ConnectionInfo { peer, place, state: Arc::new(AtomicU8::new(SILENT)) };
        let end = Some(Box::pin(sleep(times.idle())));
        Self { connection, info, lost, end, stalled: None, write: times.write() }
    }

    /// Who the client is; its requests carry this along.
    pub(crate) fn info(&self) -> ConnectionInfo {
        self.info.clone()
    }

    /// The connection while it may stay; afterwards an error.
    fn attend(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut Connection>> {
        if self.lost.as_mut().is_none_or(|lost| Pin::new(lost).poll(cx).is_ready()) {
            self.lost = None;
            return Err(io::Error::new(ErrorKind::ConnectionAborted, "its place was needed"));
        }
        match self.info.state.load(Ordering::Relaxed) {
            ADMITTED => self.end = None,
            REFUSED_FIRST => self.hurry(),
            _ => {}
        }
        match self.end.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready()) {
            true => Err(io::Error::new(ErrorKind::TimedOut, "no request in time")),
            false => Ok(Pin::new(&mut self.connection)),
        }
    }

    /// Lets the time end soon, if it doesn't already.
    fn hurry(&mut self) {
        let soon = Instant::now() + REFUSED;
        if let Some(end) = self.end.as_mut().filter(|end| end.deadline() > soon) {
            end.as_mut().reset(soon);
        }
    }

    /// What came of a write; an error once none came through for too long.
    fn written<T>(
        &mut self,
        cx: &mut Context<'_>,
        how: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if how.is_ready() {
            self.stalled = None;
            return how;
        }
        let time = self.write;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(time)));
        let over = || Err(io::Error::new(ErrorKind::TimedOut, "it takes no answer"));
        stalled.as_mut().poll(cx).map(|()| over())
    }
}

impl AsyncRead for ServedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.attend(cx)?.poll_read(cx, buf)
    }
}

impl AsyncWrite for ServedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let how = self.attend(cx)?.poll_write(cx, buf);
        self.written(cx, how)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.attend(cx)?.poll_flush(cx) // sockets have no buffer of ours, and writes have their time
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let how = self.attend(cx)?.poll_shutdown(cx);
        self.written(cx, how)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let how = self.attend(cx)?.poll_write_vectored(cx, bufs);
        self.written(cx, how)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}
