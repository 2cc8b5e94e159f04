//! A stream of streams as one stream.

use super::infer::Answers;
use super::proto::ModelStreamInferResponse;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio_stream::Stream;
use tonic::Status;

/// Answers to the requests of a stream, one request after the other.
pub(super) struct Flat<S> {
    requests: Pin<Box<S>>,
    answers: Option<Answers>,
}

impl<S> Flat<S> {
    pub(super) fn new(requests: S) -> Self {
        Self { requests: Box::pin(requests), answers: None }
    }
}

impl<S: Stream<Item = Result<Answers, Status>>> Stream for Flat<S> {
    type Item = Result<ModelStreamInferResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(answers) = &mut this.answers {
                if let Some(answer) = ready!(answers.as_mut().poll_next(context)) {
                    return Poll::Ready(Some(answer));
                }
                this.answers = None;
            }
            match ready!(this.requests.as_mut().poll_next(context)) {
                Some(Ok(answers)) => this.answers = Some(answers),
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => return Poll::Ready(None),
            }
        }
    }
}
