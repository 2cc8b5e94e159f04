//! Bodies whose bytes are charged.
//!
//! A request's body is charged as it arrives, and must arrive in time. If a quota or the timeout is
//! exceeded, it is not read on, and ends with an error. An answer's body is charged until it has
//! been sent.

use crate::error::Error;
use crate::net::quota::charge::Charge;
use crate::net::quota::connection_pool::{ArrivingRequest, OpenRequest};
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

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
    /// Kept until the body, or the first message of a stream, has arrived.
    arriving: Option<ArrivingRequest>,
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
        Self { body, charge, left: max, max, time, end, convert, arriving: None }
    }

    /// Keeps `arriving` until the message has arrived.
    pub(crate) fn keep_until_arrival(self, arriving: Option<ArrivingRequest>) -> Self {
        Self { arriving, ..self }
    }

    /// True if a message has arrived and has been processed.
    fn is_between_messages(&self) -> bool {
        self.left < self.max && self.charge.since().is_none()
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

    fn take(&mut self, bytes: usize) -> Result<(), Error> {
        let max = self.max;
        let left = self.left.checked_sub(bytes);
        self.left =
            left.ok_or_else(|| Error::TooLarge(format!("body must have at most {max} bytes")))?;
        self.charge.add(bytes as u64)
    }
}

impl HttpBody for ChargedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Next<BoxError> {
        if self.is_between_messages() {
            self.arriving = None;
        }
        let next = match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending if self.is_late(cx) => {
                let time = self.time;
                Err((self.convert)(Error::Deadline(format!(
                    "the body must arrive within {time:?}"
                ))))
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
                Err(error) => Err((self.convert)(error)),
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

/// Body of an answer.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    body: Body,
    charge: Charge,
    /// Keeps the connection of a stream in use.
    _in_use: Option<Arc<OpenRequest>>,
}

impl AnswerBody {
    pub(crate) fn new(body: Body, charge: Charge, in_use: Option<Arc<OpenRequest>>) -> Self {
        Self { body, charge, _in_use: in_use }
    }
}

impl HttpBody for AnswerBody {
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
