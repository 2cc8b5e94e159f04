//! Retirement of a model: its requests end first, but a lost device on which they never end delays
//! no caller. When the daemon ends, the device is asked whether it works.

use crate::engine::node::Node;
use crate::error::Error;
use crate::models::loaded_model::LoadedModel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time that the work of a lost device has to end while a caller waits.
const RETIRE_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval at which the loss of the device is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A model that refuses new requests and finishes the queued ones, on a thread of its own.
#[must_use = "it continues by itself; wait for its memory"]
pub(crate) struct Retiring {
    done: Receiver<()>,
    node: Arc<Node>,
    /// Set when the daemon ends.
    closing: Arc<AtomicBool>,
    begun: Instant,
}

impl LoadedModel {
    /// Refuses new requests, and waits for the queued ones: at most [`RETIRE_TIMEOUT`] if its
    /// device is lost.
    pub(crate) fn retire(self: &Arc<Self>) {
        self.start_retiring().wait();
    }

    /// Refuses new requests, without waiting for the queued ones.
    pub(crate) fn start_retiring(self: &Arc<Self>) -> Retiring {
        self.close();
        let (sender, done) = sync_channel(1);
        let model = self.clone();
        let finish = move || {
            model.finish();
            drop(model); // its memory is free before the waiter is woken
            let _ = sender.send(()); // the waiter may be gone
        };
        if thread::Builder::new().name("reef-retire".into()).spawn(finish).is_err() {
            self.finish(); // without a thread: here
        }
        let (node, closing) = (self.node().clone(), self.factory.closing.clone());
        Retiring { done, node, closing, begun: Instant::now() }
    }
}

impl Retiring {
    /// Waits until its requests have ended: at most [`RETIRE_TIMEOUT`] if its device is lost.
    pub(crate) fn wait(self) {
        while let Err(RecvTimeoutError::Timeout) = self.done.recv_timeout(POLL_INTERVAL) {
            if self.closing.load(Ordering::SeqCst) {
                // No request asks whether the device works any more.
                self.node.is_lost_after(&Error::Failed("work on it does not end".into()));
            }
            if self.node.lost().is_some() && self.begun.elapsed() >= RETIRE_TIMEOUT {
                let (device, text) = (&self.node.name, "work on it does not end");
                return tracing::warn!(%device, "{text}");
            }
        }
    }
}
