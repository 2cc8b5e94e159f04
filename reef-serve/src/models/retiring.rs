//! How a model goes: its requests end first, but a lost device on which they never do holds nobody
//! up.

use crate::engine::node::Node;
use crate::models::loaded_model::LoadedModel;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long the work of a lost device may take to end while somebody waits for it.
const GRACE: Duration = Duration::from_secs(1);

/// How often it is looked whether the device is lost meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A model that takes no more requests and finishes those that it has, on a thread of its own.
#[must_use = "it goes on by itself; who wants its memory waits"]
pub(crate) struct Retiring {
    done: Receiver<()>,
    node: Arc<Node>,
    begun: Instant,
}

impl LoadedModel {
    /// Takes no more requests, and waits for those that it has: no longer than [`GRACE`] if its
    /// device is lost.
    pub(crate) fn retire(self: &Arc<Self>) {
        self.begin_to_retire().wait();
    }

    /// The same without waiting.
    pub(crate) fn begin_to_retire(self: &Arc<Self>) -> Retiring {
        self.close();
        let (sender, done) = sync_channel(1);
        let model = self.clone();
        let finish = move || {
            model.finish();
            drop(model); // who waits finds its memory free
            let _ = sender.send(()); // nobody may wait any more
        };
        if thread::Builder::new().name("reef-retire".into()).spawn(finish).is_err() {
            self.finish(); // without a thread: here
        }
        Retiring { done, node: self.node().clone(), begun: Instant::now() }
    }
}

impl Retiring {
    /// Waits until its requests have ended: no longer than [`GRACE`] if its device is lost.
    pub(crate) fn wait(self) {
        while let Err(RecvTimeoutError::Timeout) = self.done.recv_timeout(POLL_INTERVAL) {
            if self.node.lost().is_some() && self.begun.elapsed() >= GRACE {
                let (device, text) = (&self.node.name, "work on it does not end");
                return tracing::warn!(%device, "{text}");
            }
        }
    }
}
