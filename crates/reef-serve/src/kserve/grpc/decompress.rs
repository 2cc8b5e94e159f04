//! Decompression of gRPC messages before the library reads them, because the library does not bound
//! the decompressed size.
//!
//! Messages are read and decompressed one at a time, when the call asks for the next one, so that
//! no uncharged bytes are held.

use crate::error::{Error, Result};
use crate::kserve::compressed::{Encoding, inflate};
use crate::kserve::failure::{body_error, refuse};
use crate::kserve::middleware::max_body;
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

/// Headers of the compression of a call's messages, and of the supported ones.
const ENCODING: &str = "grpc-encoding";
const ACCEPTED: &str = "grpc-accept-encoding";

/// Length of a message's prefix: the compression flag and the length.
const PREFIX_BYTES: usize = 5;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Item = Result<Bytes, BoxError>;
type Step = Pin<Box<dyn Future<Output = Option<(Item, Decoder)>> + Send>>;

/// Replaces the body of a call by its decompressed messages.
pub(super) async fn decompress(
    State(server): State<Arc<Server>>,
    mut request: Request,
    next: Next,
) -> Response {
    let encoding = match Encoding::of(request.headers(), ENCODING) {
        Ok(None) => return next.run(request).await,
        Ok(Some(encoding)) => encoding,
        Err(error) => return with_encodings(refuse(Protocol::Grpc, error)),
    };
    request.headers_mut().remove(ENCODING);
    let extensions = request.extensions();
    let peer = extensions.get().cloned().unwrap_or(Peer::UNKNOWN);
    let charge = extensions.get().cloned().unwrap_or_else(|| server.memory.charge(&peer));
    let message = server.config.get().limits.message_mib << 20;
    let max = max_body(Protocol::Grpc, message, request.uri().path()).0.min(message);
    let request = request.map(|body| {
        let (arrived, content) = (BytesMut::new(), None);
        let decoder = Decoder { body, arrived, content, encoding, max, peer, charge, server };
        Body::from_stream(DecompressedBody { step: Some(Box::pin(decoder.next())) })
    });
    next.run(request).await
}

/// Adds the supported encodings to a refusal.
fn with_encodings(mut refusal: Response) -> Response {
    let all = HeaderValue::from_static("identity,deflate,gzip");
    refusal.headers_mut().insert(ACCEPTED, all);
    refusal
}

/// Body of a call without compressed messages.
struct DecompressedBody {
    /// Future of the next bytes; `None` at the end.
    step: Option<Step>,
}

impl Stream for DecompressedBody {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let Some(step) = &mut self.step else { return Poll::Ready(None) };
        let Poll::Ready(next) = step.as_mut().poll(cx) else { return Poll::Pending };
        let (item, rest) = next.map_or((None, None), |(item, rest)| (Some(item), Some(rest)));
        let continues = item.as_ref().is_some_and(Result::is_ok);
        self.step = rest.filter(|_| continues).map(|rest| -> Step { Box::pin(rest.next()) });
        Poll::Ready(item)
    }
}

struct Decoder {
    body: Body,
    /// Received bytes of the next message.
    arrived: BytesMut,
    /// Content after the last returned prefix.
    content: Option<Bytes>,
    encoding: Encoding,
    /// Maximum number of bytes of a message.
    max: usize,
    peer: Peer,
    charge: Charge,
    server: Arc<Server>,
}

impl Decoder {
    /// Returns the next bytes, and the decoder for those after them.
    async fn next(mut self) -> Option<(Item, Self)> {
        let item = self.step().await.transpose()?;
        Some((item, self))
    }

    async fn step(&mut self) -> Result<Option<Bytes>, BoxError> {
        if let Some(content) = self.content.take() {
            return Ok(Some(content));
        }
        let convert = body_error(Protocol::Grpc);
        loop {
            if let Some((is_compressed, message)) = self.message().map_err(convert)? {
                let content = if is_compressed { self.inflate(message).await } else { Ok(message) };
                let content = content.map_err(convert)?;
                let mut prefix = BytesMut::with_capacity(PREFIX_BYTES);
                prefix.put_u8(0);
                // Tonic's limit is lower.
                prefix.put_u32(u32::try_from(content.len()).unwrap_or(u32::MAX));
                self.content = Some(content).filter(|content| !content.is_empty());
                return Ok(Some(prefix.freeze()));
            }
            match self.body.frame().await {
                Some(frame) => {
                    frame?.data_ref().into_iter().for_each(|data| self.arrived.put(&**data))
                }
                None if self.arrived.is_empty() => return Ok(None),
                // Truncated: the call reports it.
                None => return Ok(Some(self.arrived.split().freeze())),
            }
        }
    }

    /// Returns a message that has arrived completely, and whether it is compressed.
    fn message(&mut self) -> Result<Option<(bool, Bytes)>> {
        let Some((mut prefix, rest)) = self.arrived.split_at_checked(PREFIX_BYTES) else {
            return Ok(None);
        };
        let is_compressed = match prefix.get_u8() {
            0 => false,
            1 => true,
            other => {
                let text = format!("message: the first byte must be 0 or 1, got {other}");
                return Err(Error::Invalid(text));
            }
        };
        let (length, max) = (prefix.get_u32() as usize, self.max);
        if length > max {
            let text =
                format!("message must have at most {max} bytes (limits.message_mib), got {length}");
            return Err(Error::TooLarge(text));
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.arrived.advance(PREFIX_BYTES);
        Ok(Some((is_compressed, self.arrived.split_to(length).freeze())))
    }

    /// Decompresses a message on a worker thread. The result is charged before it is allocated.
    fn inflate(&self, message: Bytes) -> impl Future<Output = Result<Bytes>> + Send + use<> {
        let Self { encoding, max, ref charge, ref peer, ref server, .. } = *self;
        let (charge, principal, server) = (charge.clone(), peer.principal.clone(), server.clone());
        async move {
            let work_charge = charge.clone();
            let work = move || inflate(&message, encoding, max, &work_charge);
            server.workers.run_blocking(&principal, charge, work).await
        }
    }
}
