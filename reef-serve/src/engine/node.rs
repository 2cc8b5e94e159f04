//! A device of the daemon: its engine, its name, and how much it has to do.

use super::api::Engine;
use super::busy::Busy;
use super::device;
use super::instance_count::{Counted, Lanes};
use super::names::names;
use crate::error::{Error, Result};
use parking_lot::Mutex;
use reef::Stats;
use reef::cluster::{Prober, SILENCE_TIMEOUT};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A device of the daemon.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its place among the daemon's devices.
    pub(crate) index: usize,
    /// Such as `cuda:1`; no other device of the daemon has it.
    pub(crate) name: String,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) busy: Busy,
    /// Instances of models.
    pub(crate) lanes: Lanes,
    /// It is the daemon's only one.
    pub(crate) is_alone: bool,
    /// Requests that are to run there, and connections of the local path. Written by whoever brings
    /// or takes one away.
    load: AtomicUsize,
    /// Asks whether the device works.
    prober: Arc<Prober>,
    /// Why it is lost. Written once, by whoever finds out.
    lost: OnceLock<String>,
    /// Who is told then.
    tell: Sender<usize>,
    /// As the dispatcher said when it was asked last.
    stats: Mutex<Stats>,
}

/// The daemon's devices.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) all: Arc<[Arc<Node>]>,
    /// Tells of each that is lost, once.
    pub(crate) losses: Receiver<usize>,
}

impl Nodes {
    /// Opens the devices that `asked` names, as [`device::start`].
    ///
    /// # Errors
    ///
    /// As [`device::start`].
    pub(crate) fn open(asked: &str, scheduler: &str, reserve: f64) -> Result<Self> {
        Ok(Self::new(asked, device::start(asked, scheduler, reserve)?))
    }

    /// Those that `asked` names and that are open.
    pub(crate) fn new(asked: &str, engines: Vec<Arc<dyn Engine>>) -> Self {
        let names = names(asked, engines.len());
        let is_alone = engines.len() == 1;
        let (tell, losses) = channel();
        let node = |(index, (engine, name))| {
            let (busy, lanes, load, stats) = Default::default();
            let (lost, tell, prober) = (OnceLock::new(), tell.clone(), Arc::default());
            Arc::new(Node {
                index,
                name,
                engine,
                busy,
                lanes,
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
    /// Where something is, to be added to its name: nothing where there is one device.
    pub(crate) fn place(&self) -> String {
        if self.is_alone { String::new() } else { format!(" on {}", self.name) }
    }

    /// Its number among CUDA's devices, if it is one of those.
    pub(crate) fn cuda_ordinal(&self) -> Option<u64> {
        self.name.strip_prefix("cuda:")?.parse().ok()
    }

    /// The device's clock.
    pub(crate) fn clock(&self) -> Duration {
        self.engine.clock()
    }

    /// What its dispatcher has done; of a lost device what was known last, as that may never
    /// answer.
    pub(crate) fn stats(&self) -> Stats {
        if self.lost().is_none() {
            let stats = self.engine.stats(); // outside of the lock, as it may never come back
            *self.stats.lock() = stats;
        }
        *self.stats.lock()
    }

    /// Why it is lost; `None` while it isn't, as far as is known.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Whether it is lost, now that something on it has ended with `error`. May take a second.
    pub(crate) fn is_lost_after(self: &Arc<Self>, error: &Error) -> bool {
        if matches!(error, Error::Failed(_)) && self.lost.get().is_none() {
            let (engine, node) = (self.engine.clone(), self.clone());
            self.prober.ask(move || engine.check(), move |answer| node.judge(answer));
        }
        self.lost.get().is_some()
    }

    /// Whether it is lost, by what it answered, or that it did not.
    fn judge(&self, answer: Option<Result<()>>) -> bool {
        match answer {
            Some(Ok(())) => {}
            Some(Err(why)) => self.note_lost(why.text()),
            None => self.give_up(&format!("no answer for {SILENCE_TIMEOUT:?}")),
        }
        self.lost.get().is_some()
    }

    /// Takes it out: all of its work ends with an error that says `why`, and no other comes.
    pub(crate) fn give_up(&self, why: &str) {
        self.note_lost(why);
        self.engine.give_up(why);
    }

    fn note_lost(&self, why: &str) {
        if self.lost.set(why.to_owned()).is_ok() {
            tracing::error!(device = %self.name, %why, "lost");
            let _ = self.tell.send(self.index); // the daemon may be ending
        }
    }

    /// The error, or if it came of a lost device, one that says so. Asks no device.
    pub(crate) fn explained(&self, error: Error) -> Error {
        match (&error, self.lost()) {
            (Error::Failed(_) | Error::Unavailable(_), Some(why)) => {
                Error::Unavailable(format!("device {} is lost: {why}", self.name))
            }
            _ => error,
        }
    }

    /// What a request is told that ended with `error`. May take a second, if that can come of a
    /// lost device.
    pub(crate) fn told(self: &Arc<Self>, error: Error) -> Error {
        self.is_lost_after(&error);
        self.explained(error)
    }

    /// Counts instances of a model until the guard is dropped.
    pub(crate) fn count_lanes(&self, counts: [usize; 2]) -> Counted {
        self.lanes.add(counts)
    }

    /// Requests and connections that are there. Out of date when it is read.
    pub(crate) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Counts one more until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Entered {
        self.load.fetch_add(1, Ordering::Relaxed);
        Entered(self.clone())
    }
}

/// A request or a connection that counts as load of its device.
#[derive(Debug)]
pub(crate) struct Entered(Arc<Node>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.load.fetch_sub(1, Ordering::Relaxed);
    }
}
