//! Traces: what ran when, for Perfetto.

use crate::fault::{Fault, Result};
use parking_lot::Mutex;
use reef::perfetto::{self, Track};
use reef::{Class, Span};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Process numbers of the tracks of the device and of its requests.
const DEVICE: u32 = 1;
const REQUESTS: u32 = 2;

/// Upper bound of the requests in a trace; later ones are counted.
const MAX_REQUESTS: usize = 100_000;

/// A request that has ended; times are on the device's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedRequest {
    pub(crate) class: Class,
    pub(crate) submitted: Duration,
    /// Beginning on the device, as far as it is known.
    pub(crate) began: Duration,
    pub(crate) ended: Duration,
}

/// Requests of a trace in progress.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Written when a trace begins and ends, read by requests that have ended.
    is_on: AtomicBool,
    ended: Mutex<EndedRequests>,
}

/// Requests of a trace.
#[derive(Debug, Default)]
pub(crate) struct EndedRequests {
    /// The first ones.
    kept: Vec<EndedRequest>,
    /// Number of those after them.
    left_out: u64,
}

impl Requests {
    /// Begins a trace.
    ///
    /// # Errors
    ///
    /// `Busy` if another one is in progress.
    pub(crate) fn begin(&self) -> Result<()> {
        if self.is_on.swap(true, Ordering::Relaxed) {
            return Err(Fault::busy("another trace of the device is in progress"));
        }
        *self.ended.lock() = EndedRequests::default();
        Ok(())
    }

    /// Ends a trace; `None` if there is none.
    pub(crate) fn end(&self) -> Option<EndedRequests> {
        let was_on = self.is_on.swap(false, Ordering::Relaxed);
        was_on.then(|| std::mem::take(&mut *self.ended.lock()))
    }

    /// Notes a request, if there is a trace.
    pub(crate) fn note(&self, request: impl FnOnce() -> EndedRequest) {
        if self.is_on.load(Ordering::Relaxed) {
            let mut ended = self.ended.lock();
            if ended.kept.len() < MAX_REQUESTS {
                ended.kept.push(request());
            } else {
                ended.left_out += 1;
            }
        }
    }
}

/// Contents of a trace.
pub(crate) struct Recorded {
    pub(crate) device: String,
    /// Beginning of the trace, on the device's clock.
    pub(crate) begin: Duration,
    pub(crate) spans: Vec<Span>,
    pub(crate) preemptions: Vec<Duration>,
    pub(crate) requests: EndedRequests,
}

impl Recorded {
    /// Returns a file for Perfetto.
    pub(crate) fn file(&self) -> Vec<u8> {
        let since = |at: Duration| at.saturating_sub(self.begin);
        let preempted = Track { process: DEVICE, thread: u32::MAX };
        let track =
            |class| Track { process: REQUESTS, thread: u32::from(class == Class::BestEffort) };
        let names = [
            perfetto::process(DEVICE, &self.device),
            perfetto::thread(preempted, "preemptions"),
            perfetto::process(REQUESTS, "requests"),
            perfetto::thread(track(Class::RealTime), "real-time"),
            perfetto::thread(track(Class::BestEffort), "best-effort"),
        ];
        let preemptions = self.preemptions.iter();
        let preemptions =
            preemptions.map(|&at| perfetto::instant(preempted, "preemption", since(at)));
        let EndedRequests { kept, left_out } = &self.requests;
        let left_out = (*left_out > 0).then(|| {
            let at = kept.last().map_or(Duration::ZERO, |last| since(last.ended));
            perfetto::instant(
                track(Class::RealTime),
                &format!("{left_out} later requests left out"),
                at,
            )
        });
        let requests = kept.iter().enumerate().flat_map(|(id, request)| {
            let track = track(request.class);
            let [submitted, began, ended] =
                [request.submitted, request.began, request.ended].map(since);
            let queue = perfetto::overlapping(track, "queue", 2 * id, submitted, began);
            let runs = perfetto::overlapping(track, request.class.name(), 2 * id + 1, began, ended);
            queue.into_iter().chain(runs)
        });
        let blocks = perfetto::blocks(DEVICE, &self.spans, self.begin);
        let mut file = Vec::new();
        let events =
            names.into_iter().chain(preemptions).chain(requests).chain(left_out).chain(blocks);
        perfetto::write(&mut file, events).expect("a vector takes any bytes");
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_a_trace_leaves_out_are_counted() {
        let (requests, at) = (Requests::default(), Duration::from_millis(1));
        let request = EndedRequest { class: Class::RealTime, submitted: at, began: at, ended: at };
        requests.begin().unwrap();
        (0..MAX_REQUESTS + 2).for_each(|_| requests.note(|| request));
        let left_out = requests.end().expect("it has begun").left_out;
        assert_eq!(left_out, 2);
        let requests = EndedRequests { kept: vec![request], left_out };
        let (spans, preemptions) = Default::default();
        let recorded = Recorded { device: "cpu".into(), begin: at, spans, preemptions, requests };
        let file = String::from_utf8(recorded.file()).unwrap();
        assert!(file.contains("2 later requests left out"), "{file}");
    }
}
