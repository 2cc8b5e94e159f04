//! A served connection: it ends when it loses its slot, by the rule of
//! [`ConnectionPool`](crate::net::quota::connection_pool::ConnectionPool), which it tells when its
//! socket takes no bytes. The daemon's end waits until it has taken them. HTTP/2's own pings detect
//! a dead peer.

use crate::net::connection::Connection;
use crate::net::identity::peer::Peer;
use crate::net::quota::admission::{Admission, Permit};
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
    /// One permit is used while the socket takes no bytes.
    unsent: Arc<Admission>,
    blocked: Option<Permit>,
    /// True once a read has found nothing.
    is_awaited: bool,
}

impl ServedConnection {
    /// Serves `connection`, which takes a permit of `unsent` while its socket takes no bytes.
    pub(crate) fn new(mut connection: Connection, unsent: Arc<Admission>) -> Self {
        let (peer, slot) = (connection.peer.clone(), connection.slot.clone());
        connection.watch();
        let lost = connection.lost.take();
        Self {
            connection,
            info: ConnectionInfo { peer, slot },
            lost,
            unsent,
            blocked: None,
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
        let is_blocked = result.is_pending();
        if is_blocked != self.blocked.is_some() {
            self.blocked = if is_blocked { self.unsent.try_acquire().ok() } else { None };
            self.info.slot.set_blocked(is_blocked);
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
        let result = self.attend(cx)?.poll_flush(cx); // TLS has a buffer
        self.note_write(result)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::limits::Times;
    use crate::net::identity::principal::Principal;
    use crate::net::quota::connection_pool::ConnectionPool;
    use reef_guest::slots::SlotShares;
    use std::future::poll_fn;
    use std::io::Read;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    #[test]
    fn connection_is_unsent_while_its_socket_takes_no_bytes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let shares = SlotShares { max: 1, each: 1, anonymous: 1, others: 1 };
        let pool = ConnectionPool::new(shares, &Times::default());
        let (slot, lost) = pool.enter(Principal::User(0), false).unwrap();
        let permit = Admission::new("connections", 1).try_acquire().unwrap();
        let (own, mut client) = std::os::unix::net::UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        let own = UnixStream::from_std(own).unwrap();
        let unsent = Admission::new("unsent answers", usize::MAX);
        let connection = Connection::unix(own, Peer::UNKNOWN, (permit, slot, lost));
        let mut connection = ServedConnection::new(connection, unsent.clone());
        let bytes = vec![0_u8; 64 << 10];
        let mut sent = 0;
        let fill = poll_fn(|cx| {
            loop {
                match Pin::new(&mut connection).poll_write(cx, &bytes) {
                    Poll::Ready(written) => sent += written.unwrap(),
                    Poll::Pending => return Poll::Ready(()),
                }
            }
        });
        runtime.block_on(fill);
        assert_eq!(unsent.in_use(), 1, "after {sent} bytes");
        client.read_exact(&mut vec![0; sent]).unwrap();
        let written = runtime.block_on(connection.write(&bytes)).unwrap();
        assert_eq!((written > 0, unsent.in_use()), (true, 0));
    }
}
