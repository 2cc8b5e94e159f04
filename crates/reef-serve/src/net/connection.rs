//! One connection: its byte stream, its peer and its permit.

use crate::error::{Error, Result};
use crate::net::identity::peer::{ConnectionGuard, Peer};
use crate::net::quota::admission::Permit;
use crate::net::quota::connection_pool::{ConnectionSlot, SlotLoss};
use crate::net::tls::{self, Tls};
use parking_lot::Mutex;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Permit and slot of a new connection, and the event of losing the slot.
pub(super) type Reservation = (Permit, ConnectionSlot, SlotLoss);

#[derive(Debug)]
pub(crate) struct Connection {
    /// Locked by its task, and for a moment by the pool: see [`Self::watch`].
    stream: Arc<Mutex<Stream>>,
    /// True from a read that has found bytes until one that finds none.
    has_read: Arc<AtomicBool>,
    pub(crate) peer: Peer,
    pub(super) slot: Arc<ConnectionSlot>,
    /// `None` while the handshake waits for it.
    pub(super) lost: Option<SlotLoss>,
    _permit: Permit,
    _open: ConnectionGuard,
}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<tls::Stream>),
}

impl Stream {
    /// Returns whether bytes wait in the socket. A socket that its client has closed has none.
    fn has_input(&self) -> bool {
        let socket = match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.get_ref().0.as_fd(),
        };
        rustix::io::ioctl_fionread(socket).is_ok_and(|bytes| bytes > 0)
    }
}

impl Connection {
    pub(super) fn unix(stream: UnixStream, peer: Peer, slot: Reservation) -> Self {
        Self::new(Stream::Unix(stream), peer, slot)
    }

    pub(super) fn tcp(stream: TcpStream, peer: Peer, slot: Reservation) -> Self {
        Self::new(Stream::Tcp(stream), peer, slot)
    }

    fn new(stream: Stream, peer: Peer, reservation: Reservation) -> Self {
        let (permit, slot, lost) = reservation;
        let (life, open) = ConnectionGuard::new();
        let (peer, slot) = (Peer { life, ..peer }, Arc::new(slot));
        let stream = Arc::new(Mutex::new(stream));
        let has_read = Arc::default();
        Self { stream, has_read, peer, slot, lost: Some(lost), _permit: permit, _open: open }
    }

    /// Has the slot ask the socket before it goes to another connection. A stream that is in use at
    /// that moment is being read or written, so it counts as active, as does one whose last bytes
    /// are being processed.
    pub(super) fn watch(&self) {
        let (stream, has_read) = (Arc::downgrade(&self.stream), self.has_read.clone());
        self.slot.watch(move || {
            let Some(stream) = stream.upgrade() else { return false };
            let has_input = stream.try_lock().is_none_or(|stream| stream.has_input());
            has_input || has_read.load(Ordering::SeqCst)
        });
    }

    /// Completes the handshake of TLS, where TCP has one.
    ///
    /// # Errors
    ///
    /// Errors of [`Tls::accept`]; `Exhausted` if it loses its slot meanwhile.
    pub(super) async fn greet(mut self, tls: Option<Tls>) -> Result<Self> {
        let Some(mut lost) = self.lost.take() else { return Ok(self) };
        if tls.is_some() {
            self.slot.expect_handshake();
        }
        let greeted = tokio::select! {
            greeted = self.shake_hands(tls) => greeted?,
            _ = &mut lost => {
                return Err(Error::Exhausted("connection closed during its handshake: its slot was needed".into()));
            }
        };
        Ok(Self { lost: Some(lost), ..greeted })
    }

    async fn shake_hands(self, tls: Option<Tls>) -> Result<Self> {
        let Self { stream, has_read, mut peer, slot, lost, _permit, _open } = self;
        let stream = Arc::into_inner(stream).expect("it is watched after its handshake");
        let stream = match (stream.into_inner(), tls) {
            (Stream::Tcp(stream), Some(tls)) => {
                peer.may_share |= tls.mutual; // a certificate identifies it
                let stream = tls.accept(stream).await?;
                peer.principal = tls::principal(&stream)?.unwrap_or(peer.principal);
                Stream::Tls(Box::new(stream))
            }
            (stream, _) => stream,
        };
        let stream = Arc::new(Mutex::new(stream));
        Ok(Self { stream, has_read, peer, slot, lost, _permit, _open })
    }
}

/// Calls a method of the stream, of whatever kind.
macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match &mut *$self.get_mut().stream.lock() {
            Stream::Unix($stream) => $call,
            Stream::Tcp($stream) => $call,
            Stream::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.has_read.store(true, Ordering::SeqCst); // before the socket is empty
        let connection = self.as_mut();
        let read = either!(connection, stream => Pin::new(stream).poll_read(cx, buf));
        self.has_read.store(read.is_ready(), Ordering::SeqCst);
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match &*self.stream.lock() {
            Stream::Unix(stream) => stream.is_write_vectored(),
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::limits::Times;
    use crate::net::identity::principal::Principal;
    use crate::net::quota::admission::Admission;
    use crate::net::quota::connection_pool::ConnectionPool;
    use reef_guest::slots::SlotShares;
    use std::io::Write;
    use std::time::Duration;
    use tokio::io::AsyncReadExt;

    #[test]
    fn idle_connection_keeps_its_slot_until_a_read_finds_nothing() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let user = |uid: u32| Principal::User(uid + 1_000_000); // not the owner
        let shares = SlotShares { max: 1, each: 1, anonymous: 1, others: 1 };
        let pool = ConnectionPool::new(shares, &Times::default());
        let (slot, lost) = pool.enter(user(1), false).unwrap();
        let permit = Admission::new("connections", 1).try_acquire().unwrap();
        let (own, mut client) = std::os::unix::net::UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        let own = UnixStream::from_std(own).unwrap();
        let mut connection = Connection::unix(own, Peer::UNKNOWN, (permit, slot, lost));
        connection.watch();
        drop(connection.slot.begin(&user(1)).unwrap()); // a request that was answered
        client.write_all(b"GET").unwrap();
        std::thread::sleep(Duration::from_secs(1)); // sleep: its timeout, measured by the clock
        assert!(pool.enter(user(2), false).is_err(), "the bytes of its next request wait");
        let mut bytes = [0; 8];
        let read = runtime.block_on(connection.read(&mut bytes));
        assert_eq!(read.unwrap(), 3);
        assert!(pool.enter(user(2), false).is_err(), "its bytes are being processed");
        let nothing = async {
            let read = connection.read(&mut bytes);
            tokio::time::timeout(Duration::from_millis(1), read).await.is_err()
        };
        assert!(runtime.block_on(nothing));
        let _other = pool.enter(user(2), false).unwrap();
    }
}
