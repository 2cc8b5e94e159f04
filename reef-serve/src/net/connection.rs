//! One connection: bytes either way, who is at the other end, and its permit.

use crate::error::{Error, Result};
use crate::net::identity::peer::{Connected, Peer};
use crate::net::quota::admission::Permit;
use crate::net::quota::connection_pool::{Lost, Place};
use crate::net::tls::{self, Tls};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// What a connection is given when it comes in.
pub(super) type Entered = (Permit, Place, Lost);

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    pub(crate) peer: Peer,
    pub(super) place: Arc<Place>,
    /// Until a thread waits for it.
    pub(super) lost: Option<Lost>,
    _permit: Permit,
    _open: Connected,
}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<tls::Stream>),
}

impl Connection {
    pub(super) fn unix(stream: UnixStream, peer: Peer, place: Entered) -> Self {
        Self::new(Stream::Unix(stream), peer, place)
    }

    pub(super) fn tcp(stream: TcpStream, peer: Peer, place: Entered) -> Self {
        Self::new(Stream::Tcp(stream), peer, place)
    }

    fn new(stream: Stream, peer: Peer, (permit, place, lost): Entered) -> Self {
        let (life, open) = Connected::new();
        let (peer, place) = (Peer { life, ..peer }, Arc::new(place));
        Self { stream, peer, place, lost: Some(lost), _permit: permit, _open: open }
    }

    /// Completes the handshake of TLS, where TCP has one.
    ///
    /// # Errors
    ///
    /// As [`Tls::accept`]; `Exhausted` if it loses its place meanwhile.
    pub(super) async fn greet(mut self, tls: Option<Tls>) -> Result<Self> {
        let Some(mut lost) = self.lost.take() else { return Ok(self) };
        let greeted = tokio::select! {
            greeted = self.shake_hands(tls) => greeted?,
            _ = &mut lost => {
                return Err(Error::Exhausted("no handshake until its place was needed".into()));
            }
        };
        Ok(Self { lost: Some(lost), ..greeted })
    }

    async fn shake_hands(self, tls: Option<Tls>) -> Result<Self> {
        let Self { stream, mut peer, place, lost, _permit, _open } = self;
        let stream = match (stream, tls) {
            (Stream::Tcp(stream), Some(tls)) => {
                peer.may_share |= tls.mutual; // it shows who it is
                let stream = tls.accept(stream).await?;
                peer.principal = tls::principal(&stream)?.unwrap_or(peer.principal);
                Stream::Tls(Box::new(stream))
            }
            (stream, _) => stream,
        };
        Ok(Self { stream, peer, place, lost, _permit, _open })
    }
}

/// Calls a method of whichever stream it is.
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
