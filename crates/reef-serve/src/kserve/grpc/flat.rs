//! A stream of streams as one stream.

use super::infer::Answers;
use super::proto::ModelStreamInferResponse;
use crate::net::quota::admission::AnswerPermit;
use crate::net::quota::charge::Charge;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio_stream::Stream;
use tonic::Status;

/// Answers to the requests of a stream, one request after the other. A request and its answers stay
/// charged until the next request is read, which is after the client has read the answers.
pub(super) struct Flat<S> {
    requests: Pin<Box<S>>,
    answers: Option<Answers>,
    charge: Option<Charge>,
    permit: AnswerPermit,
}

impl<S> Flat<S> {
    pub(super) fn new(requests: S, charge: Option<Charge>, permit: AnswerPermit) -> Self {
        Self { requests: Box::pin(requests), answers: None, charge, permit }
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
                this.charge.iter().for_each(Charge::clear);
                this.permit.end();
            }
            match ready!(this.requests.as_mut().poll_next(context)) {
                Some(Ok(answers)) => this.answers = Some(answers),
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::identity::peer::Peer;
    use crate::net::quota::charge::Memory;
    use std::task::Waker;

    #[test]
    fn answer_is_charged_until_the_next_one_is_wanted() {
        let memory = Memory::new(100, 100, 100, 100, 100);
        let charge = memory.charge(&Peer::UNKNOWN);
        charge.add(60).unwrap();
        let answer = || -> Result<Answers, Status> {
            let one = Ok(ModelStreamInferResponse::default());
            Ok(Box::pin(tokio_stream::once(one)))
        };
        let requests = tokio_stream::iter([answer(), answer()]);
        let mut answers = Box::pin(Flat::new(requests, Some(charge), AnswerPermit::default()));
        let mut context = Context::from_waker(Waker::noop());
        let first = answers.as_mut().poll_next(&mut context);
        assert!(matches!(first, Poll::Ready(Some(Ok(_)))));
        assert_eq!(memory.taken(), 60, "its client has not read it");
        let second = answers.as_mut().poll_next(&mut context);
        assert!(matches!(second, Poll::Ready(Some(Ok(_)))));
        assert_eq!(memory.taken(), 0);
    }
}
