//! A device of the daemon: its engine, its name, and how much it has to do.

use super::api::Engine;
use super::busy::Busy;
use super::device;
use super::lanes::{Counted, Lanes};
use super::names::names;
use crate::error::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
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
    /// Requests that are to run there, and connections of the local path. Written by whoever brings or takes one away.
    load: AtomicUsize,
    /// Why it is lost. Written once, by whoever finds out.
    lost: OnceLock<String>,
}

/// Opens the devices that `asked` names, as [`device::start`].
///
/// # Errors
///
/// As [`device::start`].
pub(crate) fn open(asked: &str, scheduler: &str, reserve: f64) -> Result<Arc<[Arc<Node>]>> {
    let engines = device::start(asked, scheduler, reserve)?;
    let names = names(asked, engines.len());
    let is_alone = engines.len() == 1;
    let node = |(index, (engine, name))| {
        let (busy, lanes, load) = Default::default();
        let lost = OnceLock::new();
        Arc::new(Node { index, name, engine, busy, lanes, is_alone, load, lost })
    };
    Ok(engines.into_iter().zip(names).enumerate().map(node).collect())
}

impl Node {
    /// Where something is, to be added to its name: nothing where there is one device.
    pub(crate) fn place(&self) -> String {
        if self.is_alone { String::new() } else { format!(" on {}", self.name) }
    }

    /// The device's clock.
    pub(crate) fn clock(&self) -> Duration {
        self.engine.clock()
    }

    /// Why it is lost; `None` while it isn't, as far as is known.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Whether it is lost, now that something on it has ended with `error`. May take a second.
    pub(crate) fn is_lost_after(&self, error: &Error) -> bool {
        let may_mean_loss = matches!(error, Error::Failed(_) | Error::Unavailable(_));
        if may_mean_loss
            && self.lost.get().is_none()
            && let Err(why) = self.engine.check()
        {
            let _ = self.lost.set(why.text().to_owned()); // the first reason stays
        }
        self.lost.get().is_some()
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
