//! Outcomes of requests of the standard protocol: each is counted once, whether it was refused or
//! served.

use crate::net::identity::client_id::Protocol;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// Labels: protocol and outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    path: &'static str,
    outcome: &'static str,
}

/// Counters of answers by outcome: `ok`, the [kind](crate::Error::kind) of an error, or [`GONE`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers(Family<AnswerLabels, Counter>);

/// Outcome of a request whose client disconnected before its answer.
pub(crate) const GONE: &str = "gone";

impl Answers {
    /// Returns the counters, to be registered.
    pub(crate) fn counters(&self) -> impl prometheus_client::registry::Metric {
        self.0.clone()
    }

    /// Starts the answer to a new request; it is counted when it is dropped.
    pub(crate) fn begin(&self, protocol: Protocol) -> Answer {
        Answer { answers: self.clone(), path: protocol.name(), outcome: GONE }
    }
}

/// Answer to one request, counted when it is dropped.
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
