//! Timeouts of a served connection: it keeps its slot by sending requests and by reading its
//! answers.
//!
//! | closed when | after |
//! |---|---|
//! | it has sent no admitted request | `times.idle_ms` |
//! | its first request was refused | a second, in which it can read the reason |
//! | it reads nothing of its answers | `times.write_ms` |
//! | another connection needed its slot | at once |
//!
//! After its first request it may be silent for as long as slots are free, because clients keep
//! their channels. HTTP/2's own pings detect a dead peer.

use crate::config::limits::Times;
use crate::net::connection::Connection;
use crate::net::identity::peer::Peer;
use crate::net::quota::connection_pool::{ConnectionSlot, SlotLoss};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Time that a refused client has to read the reason.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection's peer and slot, and the state of its requests. Each request carries this along.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Peer,
    pub(crate) slot: Arc<ConnectionSlot>,
    /// One of [`SILENT`], [`REFUSED_FIRST`], [`ADMITTED`]; it only grows.
    state: Arc<AtomicU8>,
}

/// No request has arrived.
const SILENT: u8 = 0;
/// Requests have arrived, and none was admitted.
const REFUSED_FIRST: u8 = 1;
/// A request was admitted.
const ADMITTED: u8 = 2;

impl ConnectionInfo {
    /// Notes that a request of the client was admitted or refused.
    pub(crate) fn note_request(&self, is_admitted: bool) {
        let state = if is_admitted { ADMITTED } else { REFUSED_FIRST };
        self.state.fetch_max(state, Ordering::Relaxed); // read at the next poll of the connection
    }
}

/// A connection with its timeouts.
#[derive(Debug)]
pub(crate) struct ServedConnection {
    connection: Connection,
    info: ConnectionInfo,
    /// `None` once it has fired: see [`Self::attend`].
    lost: Option<SlotLoss>,
    /// Runs until it has sent a request.
    end: Option<Pin<Box<Sleep>>>,
    /// Runs while it reads nothing of its answers.
    stalled: Option<Pin<Box<Sleep>>>,
    write: Duration,
}

impl ServedConnection {
    /// Starts the timeouts.
    pub(crate) fn new(mut connection: Connection, times: &Times) -> Self {
        let (peer, slot) = (connection.peer.clone(), connection.slot.clone());
        let lost = connection.lost.take();
        let info = ConnectionInfo { peer, slot, state: Arc::new(AtomicU8::new(SILENT)) };
        let end = Some(Box::pin(sleep(times.idle())));
        Self { connection, info, lost, end, stalled: None, write: times.write() }
    }

    /// Returns the information that each of its requests carries along.
    pub(crate) fn info(&self) -> ConnectionInfo {
        self.info.clone()
    }

    /// Returns the connection while it may stay, then an error.
    fn attend(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut Connection>> {
        if self.lost.as_mut().is_none_or(|lost| Pin::new(lost).poll(cx).is_ready()) {
            self.lost = None;
            return Err(io::Error::new(
                ErrorKind::ConnectionAborted,
                "another connection needed its slot",
            ));
        }
        match self.info.state.load(Ordering::Relaxed) {
            ADMITTED => self.end = None,
            REFUSED_FIRST => self.hurry(),
            _ => {}
        }
        if self.end.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready()) {
            return Err(io::Error::new(ErrorKind::TimedOut, "no request in time"));
        }
        Ok(Pin::new(&mut self.connection))
    }

    /// Shortens the timeout to [`REFUSAL_TIMEOUT`], if it is longer.
    fn hurry(&mut self) {
        let soon = Instant::now() + REFUSAL_TIMEOUT;
        if let Some(end) = self.end.as_mut().filter(|end| end.deadline() > soon) {
            end.as_mut().reset(soon);
        }
    }

    /// Returns the result of a write; an error once no write has succeeded for too long.
    fn check_write<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.stalled = None;
            return result;
        }
        let time = self.write;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(time)));
        let over = || Err(io::Error::new(ErrorKind::TimedOut, "the client reads no answer"));
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
        let result = self.attend(cx)?.poll_write(cx, buf);
        self.check_write(cx, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.attend(cx)?.poll_flush(cx) // sockets have no buffer here
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = self.attend(cx)?.poll_shutdown(cx);
        self.check_write(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = self.attend(cx)?.poll_write_vectored(cx, bufs);
        self.check_write(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}
