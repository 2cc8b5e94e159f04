//! Bodies whose bytes are charged for.
//!
//! A request's is charged as it arrives, and has to be there in time: bytes that may not be held
//! and those that come too late are not read, and the body ends with an error. An answer's are
//! charged for until they are sent.

use crate::error::Error;
use crate::net::quota::charge::Charge;
use crate::net::quota::connection_pool::{Arriving, InUse};
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Next<E> = Poll<Option<Result<Frame<Bytes>, E>>>;

/// How the error of a body is said in the protocol.
pub(crate) type Say = fn(Error) -> BoxError;

/// A request's body.
#[derive(Debug)]
pub(crate) struct ChargedBody {
    body: Body,
    charge: Charge,
    /// Bytes that may still come.
    left: usize,
    max: usize,
    time: Duration,
    /// Fires when the time since the message's first byte may be over.
    end: Pin<Box<Sleep>>,
    say: Say,
    /// Until it is there, or the first message of a stream.
    arriving: Option<Arriving>,
}

impl ChargedBody {
    /// `body`, of at most `max` bytes, a message of which may take `time` to arrive.
    pub(crate) fn new(body: Body, charge: Charge, max: usize, time: Duration, say: Say) -> Self {
        let end = Box::pin(sleep(time));
        Self { body, charge, left: max, max, time, end, say, arriving: None }
    }

    /// Keeps `arriving` until the message is there.
    pub(crate) fn until_there(self, arriving: Option<Arriving>) -> Self {
        Self { arriving, ..self }
    }

    /// Whether a message has come and has been dealt with.
    fn has_had_one(&self) -> bool {
        self.left < self.max && self.charge.since().is_none()
    }

    /// Whether the message has taken too long. Between two messages of a stream any time may pass.
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

    fn take(&mut self, bytes: usize) -> Result<(), Error> {
        let max = self.max;
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| Error::TooLarge(format!("body of at most {max} bytes")))?;
        self.charge.add(bytes as u64)
    }
}

impl HttpBody for ChargedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Next<BoxError> {
        if self.has_had_one() {
            self.arriving = None;
        }
        let next = match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending if self.is_late(cx) => {
                let time = self.time;
                Err((self.say)(Error::Deadline(format!("the body took longer than {time:?}"))))
            }
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => {
                self.arriving = None;
                return Poll::Ready(None);
            }
            Poll::Ready(Some(Err(error))) => Err(error.into()),
            Poll::Ready(Some(Ok(frame))) => match self.take(frame.data_ref().map_or(0, Bytes::len))
            {
                Ok(()) => {
                    if self.body.is_end_stream() {
                        self.arriving = None;
                    }
                    Ok(frame)
                }
                Err(error) => Err((self.say)(error)),
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

/// An answer's body.
#[derive(Debug)]
pub(crate) struct HeldBody {
    body: Body,
    charge: Charge,
    /// A stream of answers keeps its connection in use.
    _in_use: Option<Arc<InUse>>,
}

impl HeldBody {
    pub(crate) fn new(body: Body, charge: Charge, in_use: Option<Arc<InUse>>) -> Self {
        Self { body, charge, _in_use: in_use }
    }
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Next<axum::Error> {
        let next = Pin::new(&mut self.body).poll_frame(cx);
        next.map_ok(|frame| frame.map_data(|bytes| self.charge.hold(bytes)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
