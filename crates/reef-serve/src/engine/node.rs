//! A device of the daemon: its engine, its name, its load and its loss.

use super::api::Engine;
use super::busy::Busy;
use super::device;
use super::instance_count::{CountGuard, InstanceCounts};
use super::last_answer::LastAnswer;
use super::names::names;
use crate::error::{Error, Result};
use reef::Stats;
use reef::cluster::{Prober, SILENCE_TIMEOUT};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Time for which a caller waits for the dispatcher's counters. They take microseconds; this bears
/// a busy machine.
const STATS_TIMEOUT: Duration = Duration::from_secs(2);

/// A device of the daemon.
#[derive(Debug)]
pub(crate) struct Node {
    /// Index among the daemon's devices.
    pub(crate) index: usize,
    /// Unique name, such as `cuda:1`.
    pub(crate) name: String,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) busy: Busy,
    /// Counts of model instances.
    pub(crate) instance_counts: InstanceCounts,
    /// True if it is the daemon's only device.
    pub(crate) is_alone: bool,
    /// Requests that are to run there, and connections of the local path. Written by the thread
    /// that adds or removes one.
    load: AtomicUsize,
    /// Checks whether the device works.
    prober: Arc<Prober>,
    /// Reason for its loss. Written once, by the thread that detects it.
    lost: OnceLock<String>,
    /// Receiver of losses.
    tell: Sender<usize>,
    /// Last counters of the dispatcher.
    stats: Arc<LastAnswer<Stats>>,
}

/// The daemon's devices.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) all: Arc<[Arc<Node>]>,
    /// Receives the index of each lost device, once.
    pub(crate) losses: Receiver<usize>,
}

impl Nodes {
    /// Opens the devices that `asked` names, with [`device::start`].
    ///
    /// # Errors
    ///
    /// Errors of [`device::start`].
    pub(crate) fn open(asked: &str, scheduler: &str, reserve: f64) -> Result<Self> {
        Ok(Self::new(asked, device::start(asked, scheduler, reserve)?))
    }

    /// Wraps open devices that `asked` names.
    pub(crate) fn new(asked: &str, engines: Vec<Arc<dyn Engine>>) -> Self {
        let names = names(asked, engines.len());
        let is_alone = engines.len() == 1;
        let (tell, losses) = channel();
        let node = |(index, (engine, name))| {
            let (busy, instance_counts, load, stats) = Default::default();
            let (lost, tell, prober) = (OnceLock::new(), tell.clone(), Arc::default());
            Arc::new(Node {
                index,
                name,
                engine,
                busy,
                instance_counts,
                is_alone,
                load,
                prober,
                lost,
                tell,
                stats,
            })
        };
        Self { all: engines.into_iter().zip(names).enumerate().map(node).collect(), losses }
    }
}

impl Node {
    /// Returns a suffix that names the device; empty if there is only one.
    pub(crate) fn place(&self) -> String {
        if self.is_alone { String::new() } else { format!(" on {}", self.name) }
    }

    /// Returns its number among CUDA's devices, if it is one.
    pub(crate) fn cuda_ordinal(&self) -> Option<u64> {
        self.name.strip_prefix("cuda:")?.parse().ok()
    }

    /// Returns the time of the device's clock.
    pub(crate) fn clock(&self) -> Duration {
        self.engine.clock()
    }

    /// Returns the dispatcher's counters; the last known ones of a device that is lost, or that
    /// hangs. Waits for two seconds at most, or four if another caller asks at the same time.
    pub(crate) fn stats(&self) -> Stats {
        if self.lost().is_some() {
            return self.stats.get();
        }
        let engine = self.engine.clone();
        self.stats.ask(STATS_TIMEOUT, move || engine.stats())
    }

    /// Waits until the dispatcher answers, unless the device is lost. May never return.
    pub(crate) fn wait_for_answer(&self) {
        if self.lost().is_none() {
            self.engine.stats();
        }
    }

    /// Returns the reason for its loss; `None` while no loss is known.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// True if it is lost, after work on it has ended with `error`. May take a second.
    pub(crate) fn is_lost_after(self: &Arc<Self>, error: &Error) -> bool {
        if matches!(error, Error::Failed(_)) && self.lost.get().is_none() {
            let (engine, node) = (self.engine.clone(), self.clone());
            self.prober.ask(move || engine.check(), move |answer| node.judge(answer));
        }
        self.lost.get().is_some()
    }

    /// Decides from its answer, or from its silence, whether it is lost.
    fn judge(&self, answer: Option<Result<()>>) -> bool {
        match answer {
            Some(Ok(())) => {}
            Some(Err(why)) => self.note_lost(why.text()),
            None => self.mark_lost(&format!("no answer for {SILENCE_TIMEOUT:?}")),
        }
        self.lost.get().is_some()
    }

    /// Removes it: all of its work ends with an error that states `why`, and no more is admitted.
    pub(crate) fn mark_lost(&self, why: &str) {
        self.note_lost(why);
        self.engine.mark_lost(why);
    }

    fn note_lost(&self, why: &str) {
        if self.lost.set(why.to_owned()).is_ok() {
            tracing::error!(device = %self.name, %why, "lost");
            let _ = self.tell.send(self.index); // the receiver is gone if the daemon ends
        }
    }

    /// Returns the error, or one that names the loss if it came from a lost device. Does not access
    /// the device.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match (&error, self.lost()) {
            (Error::Failed(_) | Error::Unavailable(_), Some(why)) => {
                Error::Unavailable(format!("device {} is lost: {why}", self.name))
            }
            _ => error,
        }
    }

    /// Returns the error for a request that ended with `error`. May take a second, if a lost device
    /// can be the cause.
    pub(crate) fn diagnose(self: &Arc<Self>, error: Error) -> Error {
        self.is_lost_after(&error);
        self.explain(error)
    }

    /// Counts instances of a model until the guard is dropped.
    pub(crate) fn count_instances(&self, counts: [usize; 2]) -> CountGuard {
        self.instance_counts.add(counts)
    }

    /// Number of requests and connections. It may be out of date when it is read.
    pub(crate) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Counts a request or connection until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> LoadGuard {
        self.load.fetch_add(1, Ordering::Relaxed);
        LoadGuard(self.clone())
    }
}

/// A request or a connection that counts as load of its device.
#[derive(Debug)]
pub(crate) struct LoadGuard(Arc<Node>);

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.load.fetch_sub(1, Ordering::Relaxed);
    }
}
