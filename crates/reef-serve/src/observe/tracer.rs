//! Traces of requests, on demand: while no trace is recorded, tracing costs a request one relaxed
//! load.
//!
//! ```text
//! instances ── note ──► Tracer ──┐
//! dispatcher, units ─────────┴─► Recording ──► trace events, see perfetto
//! ```
//!
//! There is one recording at a time. It records nothing more once it is dropped.

use crate::class::Class;
use crate::error::{Error, Result};
use crate::net::identity::client_id::ClientId;
use crate::requests::job::Phases;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

/// Maximum number of requests in one trace; later ones are dropped.
pub(super) const MAX_REQUESTS: usize = 100_000;

/// Requests of the trace in progress.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    /// Written by the recording, read by instances.
    on: AtomicBool,
    /// True if there is a recording.
    taken: AtomicBool,
    requests: Mutex<Vec<Request>>,
    instances: AtomicU32,
}

/// An instance in traces.
#[derive(Debug, Clone)]
pub(crate) struct InstanceId {
    pub(crate) number: u32,
    pub(crate) name: Arc<str>,
}

/// A request that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) instance: InstanceId,
    pub(crate) model: Arc<str>,
    pub(crate) class: Class,
    pub(crate) client: ClientId,
    pub(crate) phases: Phases,
    /// `ok`, or the error's kind.
    pub(crate) outcome: &'static str,
    pub(crate) end: Instant,
}

impl Tracer {
    /// Returns a number and a name for an instance.
    pub(crate) fn instance(&self, name: &str) -> InstanceId {
        InstanceId { number: self.instances.fetch_add(1, Ordering::Relaxed), name: name.into() }
    }

    /// Records a request if a trace is in progress.
    pub(crate) fn note(&self, request: impl FnOnce() -> Request) {
        if self.on.load(Ordering::Relaxed) {
            self.push(request());
        }
    }

    #[cold]
    fn push(&self, request: Request) {
        let mut requests = self.requests.lock();
        if requests.len() < MAX_REQUESTS {
            requests.push(request);
        }
    }

    /// Starts recording requests.
    ///
    /// # Errors
    ///
    /// `Exists` if a trace is in progress.
    pub(super) fn begin(&self) -> Result<()> {
        if self.taken.swap(true, Ordering::Acquire) {
            return Err(Error::Exists(
                "another trace is in progress: there can be one at a time".into(),
            ));
        }
        self.requests.lock().clear();
        self.on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// True if a trace is in progress.
    pub(crate) fn is_recording(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// Stops recording, and returns the requests so far.
    pub(super) fn stop(&self) -> Vec<Request> {
        self.on.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.requests.lock())
    }

    /// Ends the recording, so that the next one may begin.
    pub(super) fn end(&self) {
        self.stop();
        self.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
