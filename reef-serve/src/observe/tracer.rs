//! Traces of requests, on demand: while nobody traces, a request costs one relaxed load for it.
//!
//! ```text
//! lanes ── note ──► Tracer ──┐
//! dispatcher, units ─────────┴─► Recording ──► trace events, see perfetto
//! ```
//!
//! There is one recording at a time. It notes no more when it is dropped, whoever wanted it.

use crate::class::Class;
use crate::error::{Error, Result};
use crate::net::clients::ClientId;
use crate::requests::job::Phases;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

/// Requests of one trace; later ones are dropped.
pub(super) const MOST: usize = 100_000;

/// Where requests are noted while somebody traces.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    /// Written by whoever records, read by lanes.
    on: AtomicBool,
    /// Whether somebody records.
    taken: AtomicBool,
    requests: Mutex<Vec<Request>>,
    lanes: AtomicU32,
}

/// A lane, as traces show it.
#[derive(Debug, Clone)]
pub(crate) struct LaneId {
    pub(crate) number: u32,
    pub(crate) name: Arc<str>,
}

/// A request that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) lane: LaneId,
    pub(crate) model: Arc<str>,
    pub(crate) class: Class,
    pub(crate) client: ClientId,
    pub(crate) phases: Phases,
    /// `ok`, or the error's kind.
    pub(crate) outcome: &'static str,
    pub(crate) end: Instant,
}

impl Tracer {
    /// A number and a name for a lane.
    pub(crate) fn lane(&self, name: &str) -> LaneId {
        LaneId { number: self.lanes.fetch_add(1, Ordering::Relaxed), name: name.into() }
    }

    /// Notes a request if somebody records.
    pub(crate) fn note(&self, request: impl FnOnce() -> Request) {
        if self.on.load(Ordering::Relaxed) {
            self.push(request());
        }
    }

    #[cold]
    fn push(&self, request: Request) {
        let mut requests = self.requests.lock();
        if requests.len() < MOST {
            requests.push(request);
        }
    }

    /// Begins to note requests.
    ///
    /// # Errors
    ///
    /// `Exists` if somebody records already.
    pub(super) fn begin(&self) -> Result<()> {
        if self.taken.swap(true, Ordering::Acquire) {
            return Err(Error::Exists("a trace is being taken already: one at a time".into()));
        }
        self.requests.lock().clear();
        self.on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// What was noted so far; nothing is noted any more.
    pub(super) fn stop(&self) -> Vec<Request> {
        self.on.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.requests.lock())
    }

    /// Somebody else may record.
    pub(super) fn end(&self) {
        self.stop();
        self.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
