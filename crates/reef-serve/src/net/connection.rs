//! One connection: its byte stream, its peer and its permit.

use crate::error::{Error, Result};
use crate::net::identity::peer::{ConnectionGuard, Peer};
use crate::net::quota::admission::Permit;
use crate::net::quota::connection_pool::{ConnectionSlot, SlotLoss};
use crate::net::tls::{self, Tls};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Permit and slot of a new connection, and the event of losing the slot.
pub(super) type Reservation = (Permit, ConnectionSlot, SlotLoss);

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
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
        Self { stream, peer, slot, lost: Some(lost), _permit: permit, _open: open }
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
        let Self { stream, mut peer, slot, lost, _permit, _open } = self;
        let stream = match (stream, tls) {
            (Stream::Tcp(stream), Some(tls)) => {
                peer.may_share |= tls.mutual; // a certificate identifies it
                let stream = tls.accept(stream).await?;
                peer.principal = tls::principal(&stream)?.unwrap_or(peer.principal);
                Stream::Tls(Box::new(stream))
            }
            (stream, _) => stream,
        };
        Ok(Self { stream, peer, slot, lost, _permit, _open })
    }
}

/// Calls a method of the stream, of whatever kind.
macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match &mut $self.get_mut().stream {
            Stream::Unix($stream) => $call,
            Stream::Tcp($stream) => $call,
            Stream::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_read(cx, buf))
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
        match &self.stream {
            Stream::Unix(stream) => stream.is_write_vectored(),
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
