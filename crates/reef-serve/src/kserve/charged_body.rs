//! Bodies whose bytes are charged.
//!
//! A request's body is charged as it arrives, and must arrive in time. If a quota or the timeout is
//! exceeded, an error follows. A reader must keep nothing of it afterwards: the rest is not
//! charged, and may be read only to be discarded. An answer's body is charged, and keeps its
//! [`AnswerPermit`], until it has been sent.

use crate::error::Error;
use crate::net::quota::admission::AnswerPermit;
use crate::net::quota::charge::Charge;
use crate::net::quota::connection_pool::{OpenRequest, Stage};
use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderMap;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// Maximum length of a body that is not an inference or a load, in bytes.
pub(super) const MAX_CALL_BYTES: usize = 64 << 10;

/// Memory of a header without its name and its value, in bytes: an entry of the table, half of
/// which may be free, and two allocations.
const HEADER_BYTES: usize = 256;

pub(super) fn header_bytes(headers: &HeaderMap) -> usize {
    let each = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES);
    each.sum()
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Next<E> = Poll<Option<Result<Frame<Bytes>, E>>>;

/// Converts an error of a body to the protocol's.
pub(crate) type ConvertError = fn(Error) -> BoxError;

/// Body of a request.
#[derive(Debug)]
pub(crate) struct ChargedBody {
    body: Body,
    charge: Charge,
    /// Remaining number of bytes.
    left: usize,
    max: usize,
    time: Duration,
    /// Fires when the time since the message's first byte may be over.
    end: Pin<Box<Sleep>>,
    convert: ConvertError,
    /// Told when the body, or a message of a stream, has arrived.
    open: Option<Arc<OpenRequest>>,
    /// True once an error has been passed on: the rest is not charged.
    is_refused: bool,
}

impl ChargedBody {
    /// Wraps `body` of at most `max` bytes; each message may take `time` to arrive.
    pub(crate) fn new(
        body: Body,
        charge: Charge,
        max: usize,
        time: Duration,
        convert: ConvertError,
    ) -> Self {
        let end = Box::pin(sleep(time));
        let (left, open, is_refused) = (max, None, false);
        Self { body, charge, left, max, time, end, convert, open, is_refused }
    }

    /// Tells `open` of its progress.
    pub(crate) fn of(self, open: Option<Arc<OpenRequest>>) -> Self {
        let body = Self { open, ..self };
        if body.body.is_end_stream() {
            body.note_end();
        }
        body
    }

    /// Notes that the request has arrived.
    fn note_end(&self) {
        self.open.iter().for_each(|open| open.leave(Stage::Arriving, Stage::Working));
    }

    /// Notes bytes of a stream's next request.
    fn note_bytes(&self) {
        self.open.iter().for_each(|open| open.leave(Stage::Streaming, Stage::Arriving));
    }

    /// True if the message has taken too long. The time between two messages of a stream is not
    /// limited.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        while self.end.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let end = self.charge.since().map_or(now, Instant::from_std) + self.time;
            if end <= now {
                return true;
            }
            self.end.as_mut().reset(end);
        }
        false
    }

    fn take(&mut self, frame: &Frame<Bytes>) -> Result<(), Error> {
        if self.is_refused {
            return Ok(());
        }
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| too_large(self.max))?;
        let trailers = frame.trailers_ref().map_or(0, header_bytes);
        self.charge.add((bytes + trailers) as u64)
    }
}

fn too_large(max: usize) -> Error {
    let key = if max > MAX_CALL_BYTES { " (limits.message_mib)" } else { "" };
    Error::TooLarge(format!("body must have at most {max} bytes{key}"))
}

impl HttpBody for ChargedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Next<BoxError> {
        let next = match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending if self.is_late(cx) => {
                let time = self.time;
                Err((self.convert)(Error::Deadline(format!(
                    "the body must arrive within {time:?}"
                ))))
            }
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => {
                self.note_end();
                return Poll::Ready(None);
            }
            Poll::Ready(Some(Err(error))) => Err(error.into()),
            Poll::Ready(Some(Ok(frame))) => match self.take(&frame) {
                Ok(()) => {
                    self.note_bytes();
                    if self.body.is_end_stream() {
                        self.note_end();
                    }
                    Ok(frame)
                }
                Err(error) => {
                    self.is_refused = true;
                    Err((self.convert)(error))
                }
            },
        };
        Poll::Ready(Some(next))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Maximum length of a part of an answer that counts as progress of its reader.
const PART_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct AnswerBody {
    body: Body,
    charge: Charge,
    /// Rest of a frame that is passed on in parts.
    rest: Bytes,
    /// Told of its progress.
    open: Option<Arc<OpenRequest>>,
    permit: AnswerPermit,
    /// Charge for the request's head and its state.
    _head: Charge,
}

impl AnswerBody {
    pub(crate) fn new(
        body: Body,
        charge: Charge,
        head: Charge,
        open: Option<Arc<OpenRequest>>,
        permit: AnswerPermit,
    ) -> Self {
        open.iter().for_each(|open| open.leave(Stage::Working, Stage::Answering));
        Self { body, charge, rest: Bytes::new(), open, permit, _head: head }
    }

    /// Returns the next part of the rest.
    fn part(&mut self) -> Bytes {
        let part = self.rest.len().min(PART_BYTES);
        self.rest.split_to(part)
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Next<axum::Error> {
        if self.rest.is_empty() {
            let next = Pin::new(&mut self.body).poll_frame(cx);
            let permit = self.permit.pass_on(); // returned here if there is no part
            match next {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => {
                        let unread = self.open.as_ref().map(OpenRequest::pass_on);
                        self.rest = self.charge.hold(bytes, (permit, unread));
                    }
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                Poll::Pending => {
                    self.open.iter().for_each(|open| open.note_passed());
                    return Poll::Pending;
                }
                other => return other,
            }
        }
        self.open.iter().for_each(|open| open.enter(Stage::Answering)); // progress
        Poll::Ready(Some(Ok(Frame::data(self.part()))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, mut hint) = (self.rest.len() as u64, self.body.size_hint());
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::identity::peer::Peer;
    use crate::net::quota::admission::Admission;
    use crate::net::quota::charge::Memory;
    use axum::http::{HeaderName, HeaderValue};
    use http_body_util::BodyExt;
    use std::task::Waker;

    #[test]
    fn rest_of_a_refused_body_can_be_discarded() {
        let memory = Memory::new(u64::MAX, u64::MAX, u64::MAX, u64::MAX, 5);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let parts = ["one", "two", "three", "four"].map(Ok::<_, std::convert::Infallible>);
        let body = Body::from_stream(tokio_stream::iter(parts));
        let (charge, time) = (memory.charge(&Peer::UNKNOWN), Duration::from_secs(60));
        let mut body = ChargedBody::new(body, charge, 100, time, |error| error.into());
        let mut next = || runtime.block_on(body.frame());
        assert!(next().unwrap().is_ok());
        let said = next().unwrap().unwrap_err().to_string();
        assert!(said.ends_with("must be at most 5, got 3 + 3"), "{said}");
        assert!(next().unwrap().is_ok() && next().unwrap().is_ok());
        assert!(next().is_none());
        assert_eq!(memory.taken(), 3);
    }

    #[test]
    fn trailers_of_a_request_are_charged() {
        let memory = Memory::new(u64::MAX, u64::MAX, u64::MAX, u64::MAX, 10_000);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let taken = |count: usize| {
            let names = (0..count).map(|n| HeaderName::try_from(format!("x-{n}")).unwrap());
            let trailers = names.map(|name| (name, HeaderValue::from_static("v")));
            let trailers = HeaderMap::from_iter(trailers);
            let trailers = std::future::ready(Some(Ok(trailers)));
            let body = Body::new(Body::from("message").with_trailers(trailers));
            let charge = memory.charge(&Peer::UNKNOWN);
            let time = Duration::from_secs(60);
            let body = ChargedBody::new(body, charge.clone(), 7, time, |error| error.into());
            let all = runtime.block_on(body.collect());
            let taken = memory.taken();
            drop(charge);
            all.map(|_| taken)
        };
        assert_eq!(taken(0).unwrap(), 7);
        assert_eq!(taken(1).unwrap(), (7 + HEADER_BYTES + "x-0v".len()) as u64);
        let said = taken(100).unwrap_err().to_string();
        assert!(said.starts_with("bytes of requests of"), "{said}");
    }

    #[test]
    fn answer_keeps_its_permit_until_its_last_part_is_sent() {
        let unsent = Admission::new("unsent answers", usize::MAX);
        let memory = Memory::new(100, 100, 100, 100, 100);
        let charge = || memory.charge(&Peer::UNKNOWN);
        let permit = AnswerPermit::default();
        permit.begin(&unsent);
        let mut body = AnswerBody::new(Body::from("answer"), charge(), charge(), None, permit);
        let mut context = Context::from_waker(Waker::noop());
        let part = match Pin::new(&mut body).poll_frame(&mut context) {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().expect("bytes"),
            other => panic!("{other:?}"),
        };
        drop(body);
        assert_eq!((&*part, unsent.in_use()), (&b"answer"[..], 1), "it is not in the socket");
        drop(part);
        assert_eq!(unsent.in_use(), 0);
    }
}
