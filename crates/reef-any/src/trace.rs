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

/// Upper bound of the requests in a trace; later ones are dropped.
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
    ended: Mutex<Vec<EndedRequest>>,
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
        self.ended.lock().clear();
        Ok(())
    }

    /// Ends a trace; `None` if there is none.
    pub(crate) fn end(&self) -> Option<Vec<EndedRequest>> {
        let was_on = self.is_on.swap(false, Ordering::Relaxed);
        was_on.then(|| std::mem::take(&mut *self.ended.lock()))
    }

    /// Notes a request, if there is a trace.
    pub(crate) fn note(&self, request: impl FnOnce() -> EndedRequest) {
        if self.is_on.load(Ordering::Relaxed) {
            let mut ended = self.ended.lock();
            if ended.len() < MAX_REQUESTS {
                ended.push(request());
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
    pub(crate) requests: Vec<EndedRequest>,
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
        let requests = self.requests.iter().enumerate().flat_map(|(id, request)| {
            let track = track(request.class);
            let [submitted, began, ended] =
                [request.submitted, request.began, request.ended].map(since);
            let queue = perfetto::overlapping(track, "queue", 2 * id, submitted, began);
            let runs = perfetto::overlapping(track, request.class.name(), 2 * id + 1, began, ended);
            queue.into_iter().chain(runs)
        });
        let blocks = perfetto::blocks(DEVICE, &self.spans, self.begin);
        let mut file = Vec::new();
        let events = names.into_iter().chain(preemptions).chain(requests).chain(blocks);
        perfetto::write(&mut file, events).expect("a vector takes any bytes");
        file
    }
}
