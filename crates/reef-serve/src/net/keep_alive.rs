//! A served connection: it ends when it loses its slot, by the rule of
//! [`ConnectionPool`](crate::net::quota::connection_pool::ConnectionPool), which it tells when its
//! socket takes no bytes. HTTP/2's own pings detect a dead peer.

use crate::net::connection::Connection;
use crate::net::identity::peer::Peer;
use crate::net::quota::connection_pool::{ConnectionSlot, SlotLoss};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection's peer and slot. Each request carries this along.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Peer,
    pub(crate) slot: Arc<ConnectionSlot>,
}

/// A connection that ends with its slot.
#[derive(Debug)]
pub(crate) struct ServedConnection {
    connection: Connection,
    info: ConnectionInfo,
    /// `None` once it has fired: see [`Self::attend`].
    lost: Option<SlotLoss>,
    is_blocked: bool,
    /// True once a read has found nothing.
    is_awaited: bool,
}

impl ServedConnection {
    pub(crate) fn new(mut connection: Connection) -> Self {
        let (peer, slot) = (connection.peer.clone(), connection.slot.clone());
        connection.watch();
        let lost = connection.lost.take();
        Self {
            connection,
            info: ConnectionInfo { peer, slot },
            lost,
            is_blocked: false,
            is_awaited: false,
        }
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
                "it made no progress in time, or another connection needed its slot",
            ));
        }
        Ok(Pin::new(&mut self.connection))
    }

    /// Returns the result of a write, after noting whether the socket took bytes.
    fn note_write<T>(&mut self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_pending() != self.is_blocked {
            self.is_blocked = result.is_pending();
            self.info.slot.set_blocked(self.is_blocked);
        }
        result
    }
}

impl AsyncRead for ServedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.attend(cx)?.poll_read(cx, buf);
        if read.is_pending() && !self.is_awaited {
            self.is_awaited = true;
            self.info.slot.expect();
        }
        read
    }
}

impl AsyncWrite for ServedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = self.attend(cx)?.poll_write(cx, buf);
        self.note_write(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.attend(cx)?.poll_flush(cx) // sockets have no buffer here
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = self.attend(cx)?.poll_shutdown(cx);
        self.note_write(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = self.attend(cx)?.poll_write_vectored(cx, bufs);
        self.note_write(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}
