//! How each request of the standard protocol ended: counted once, whatever refused it or served it.

use crate::net::identity::client_id::Protocol;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// By which way in, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    path: &'static str,
    outcome: &'static str,
}

/// Answers by outcome: `ok`, the [kind](crate::Error::kind) of an error, or [`GONE`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers(Family<AnswerLabels, Counter>);

/// The outcome of a request whose client went away before its answer.
pub(crate) const GONE: &str = "gone";

impl Answers {
    /// The numbers themselves, to be registered.
    pub(crate) fn counters(&self) -> impl prometheus_client::registry::Metric {
        self.0.clone()
    }

    /// A request has come; it counts when the answer is dropped.
    pub(crate) fn begin(&self, protocol: Protocol) -> Answer {
        Answer { answers: self.clone(), path: protocol.name(), outcome: GONE }
    }
}

/// The answer to one request, which counts when this is dropped.
#[derive(Debug)]
pub(crate) struct Answer {
    answers: Answers,
    path: &'static str,
    outcome: &'static str,
}

impl Answer {
    pub(crate) fn set(&mut self, outcome: &'static str) {
        self.outcome = outcome;
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let Self { path, outcome, .. } = *self;
        self.answers.0.get_or_create(&AnswerLabels { path, outcome }).inc();
    }
}
