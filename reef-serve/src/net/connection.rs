//! One connection: bytes either way, who is at the other end, and its permit.

use crate::error::Result;
use crate::net::clients::ConnectionPermit;
use crate::net::peer::Peer;
use crate::net::tls::{self, Tls};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    pub(crate) peer: Peer,
    _ticket: ConnectionPermit,
}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<tls::Stream>),
}

impl Connection {
    pub(super) fn unix(stream: UnixStream, peer: Peer, permit: ConnectionPermit) -> Self {
        Self { stream: Stream::Unix(stream), peer, _ticket: permit }
    }

    pub(super) fn tcp(stream: TcpStream, peer: Peer, permit: ConnectionPermit) -> Self {
        Self { stream: Stream::Tcp(stream), peer, _ticket: permit }
    }

    /// Completes the handshake of TLS, where TCP has one.
    ///
    /// # Errors
    ///
    /// As [`Tls::accept`].
    pub(super) async fn greet(self, tls: Option<Tls>) -> Result<Self> {
        let Self { stream, mut peer, _ticket } = self;
        let stream = match (stream, tls) {
            (Stream::Tcp(stream), Some(tls)) => {
                peer.may_share |= tls.mutual; // it shows who it is
                let stream = tls.accept(stream).await?;
                peer.principal = tls::principal(&stream)?.unwrap_or(peer.principal);
                Stream::Tls(Box::new(stream))
            }
            (stream, _) => stream,
        };
        Ok(Self { stream, peer, _ticket })
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
