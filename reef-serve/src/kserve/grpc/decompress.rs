//! Compressed messages of gRPC, unpacked before the library reads them: it would not know what they
//! may become.
//!
//! One message at a time is read and unpacked, when the call asks for it, so that no more is held
//! than is charged for.

use crate::error::{Error, Result};
use crate::kserve::compressed::{Encoding, inflate};
use crate::kserve::failure::{of_body, refuse};
use crate::kserve::middleware::longest;
use crate::net::identity::client_id::Protocol;
use crate::net::identity::peer::Peer;
use crate::net::quota::charge::Charge;
use crate::server::Server;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use bytes::{Buf, BufMut, BytesMut};
use http_body_util::BodyExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio_stream::Stream;

/// How a call's messages are compressed, and what may be.
const ENCODING: &str = "grpc-encoding";
const ACCEPTED: &str = "grpc-accept-encoding";

/// Length of a message's prefix: whether it is compressed, and its length.
const PREFIX: usize = 5;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Item = Result<Bytes, BoxError>;
type Step = Pin<Box<dyn Future<Output = Option<(Item, Unpacker)>> + Send>>;

/// Lets a call have its messages as they were before they were compressed.
pub(super) async fn unpack(
    State(server): State<Arc<Server>>,
    mut request: Request,
    next: Next,
) -> Response {
    let encoding = match Encoding::of(request.headers(), ENCODING) {
        Ok(None) => return next.run(request).await,
        Ok(Some(encoding)) => encoding,
        Err(error) => return have(refuse(Protocol::Grpc, error)),
    };
    request.headers_mut().remove(ENCODING);
    let extensions = request.extensions();
    let peer = extensions.get().cloned().unwrap_or(Peer::UNKNOWN);
    let charge = extensions.get().cloned().unwrap_or_else(|| server.memory.charge(&peer));
    let message = server.config.get().limits.message_mib << 20;
    let max = longest(message, request.uri().path()).0.min(message);
    let request = request.map(|body| {
        let (arrived, content) = (BytesMut::new(), None);
        let unpacker = Unpacker { body, arrived, content, encoding, max, peer, charge, server };
        Body::from_stream(Unpacked { step: Some(Box::pin(unpacker.next())) })
    });
    next.run(request).await
}

/// A refusal that says what is there.
fn have(mut refusal: Response) -> Response {
    let all = HeaderValue::from_static("identity,deflate,gzip");
    refusal.headers_mut().insert(ACCEPTED, all);
    refusal
}

/// Bytes of a call with no message compressed.
struct Unpacked {
    /// What gives the next; `None` once all is there.
    step: Option<Step>,
}

impl Stream for Unpacked {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let Some(step) = &mut self.step else { return Poll::Ready(None) };
        let Poll::Ready(come) = step.as_mut().poll(cx) else { return Poll::Pending };
        let (item, rest) = come.map_or((None, None), |(item, rest)| (Some(item), Some(rest)));
        let goes_on = item.as_ref().is_some_and(Result::is_ok);
        self.step = rest.filter(|_| goes_on).map(|rest| -> Step { Box::pin(rest.next()) });
        Poll::Ready(item)
    }
}

struct Unpacker {
    body: Body,
    /// What has come of the next message.
    arrived: BytesMut,
    /// What follows the prefix that was passed on last.
    content: Option<Bytes>,
    encoding: Encoding,
    /// Most bytes of a message.
    max: usize,
    peer: Peer,
    charge: Charge,
    server: Arc<Server>,
}

impl Unpacker {
    /// The next bytes, and what gives those after them.
    async fn next(mut self) -> Option<(Item, Self)> {
        let item = self.step().await.transpose()?;
        Some((item, self))
    }

    async fn step(&mut self) -> Result<Option<Bytes>, BoxError> {
        if let Some(content) = self.content.take() {
            return Ok(Some(content));
        }
        let say = of_body(Protocol::Grpc);
        loop {
            if let Some((is_packed, message)) = self.message().map_err(say)? {
                let content = if is_packed { self.inflated(message).await } else { Ok(message) };
                let content = content.map_err(say)?;
                let mut prefix = BytesMut::with_capacity(PREFIX);
                prefix.put_u8(0);
                prefix.put_u32(u32::try_from(content.len()).unwrap_or(u32::MAX)); // tonic's limit is less
                self.content = Some(content).filter(|content| !content.is_empty());
                return Ok(Some(prefix.freeze()));
            }
            match self.body.frame().await {
                Some(frame) => {
                    frame?.data_ref().into_iter().for_each(|data| self.arrived.put(&**data))
                }
                None if self.arrived.is_empty() => return Ok(None),
                None => return Ok(Some(self.arrived.split().freeze())), // cut off, as the call will say
            }
        }
    }

    /// A message that has arrived whole, and whether it is compressed.
    fn message(&mut self) -> Result<Option<(bool, Bytes)>> {
        let Some((mut prefix, rest)) = self.arrived.split_at_checked(PREFIX) else {
            return Ok(None);
        };
        let is_packed = match prefix.get_u8() {
            0 => false,
            1 => true,
            other => {
                let text = format!("message: its first byte must be 0 or 1, got {other}");
                return Err(Error::Invalid(text));
            }
        };
        let (length, max) = (prefix.get_u32() as usize, self.max);
        if length > max {
            let text = format!("message of {length} bytes, at most {max} are read");
            return Err(Error::TooLarge(text));
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.arrived.advance(PREFIX);
        Ok(Some((is_packed, self.arrived.split_to(length).freeze())))
    }

    /// Unpacks it on a thread for that. What it becomes is charged for before it is there.
    fn inflated(&self, message: Bytes) -> impl Future<Output = Result<Bytes>> + Send + use<> {
        let Self { encoding, max, ref charge, ref peer, ref server, .. } = *self;
        let (charge, who, server) = (charge.clone(), peer.principal.clone(), server.clone());
        async move {
            let paying = charge.clone();
            let work = move || inflate(&message, encoding, max, &paying);
            server.parsers.aside(&who, charge, work).await
        }
    }
}
