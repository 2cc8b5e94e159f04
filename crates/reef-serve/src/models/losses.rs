//! Models of lost devices: each is created again on another device, or refused with the reason.

use crate::error::{Error, Result};
use crate::models::loaded_model::LoadedModel;
use crate::models::model_spec::ModelSpec;
use crate::models::placement::replicas::Replicas;
use crate::models::registry::changes::log_loaded;
use crate::models::registry::state::Registry;
use crate::observe::stats::Stats;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

/// Time that models without room wait for the memory of the lost device's replicas. Sessions and
/// requests poll several times a second whether they must end.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which that memory is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A replica on a lost device, and its replacement.
struct LostReplica {
    lost: Arc<LoadedModel>,
    moving: PendingMove,
}

/// A version that needs a replica elsewhere. Holds nothing of the lost one, because its memory may
/// be needed.
struct PendingMove {
    spec: ModelSpec,
    stats: Arc<Stats>,
    /// Its replicas on other devices.
    kept: Vec<Arc<LoadedModel>>,
}

impl Registry {
    /// Starts the thread that moves models off each lost device, until the devices are dropped.
    ///
    /// # Errors
    ///
    /// `Failed` if the thread cannot be started.
    pub(crate) fn follow(self: &Arc<Self>, losses: Receiver<usize>) -> Result<()> {
        let registry = Arc::downgrade(self);
        let follow = move || {
            for device in losses {
                let Some(registry) = registry.upgrade() else { return };
                registry.evacuate(device);
            }
        };
        let thread = thread::Builder::new().name("reef-losses".into()).spawn(follow);
        thread.map(drop).map_err(|e| Error::system("cannot start the thread for lost devices", e))
    }

    /// Moves all models off a lost device. Blocks, but not for work on that device: a kernel there
    /// may never end. Once the daemon ends, no model is moved.
    fn evacuate(&self, device: usize) {
        let _change = self.changes.all.write();
        let mut refused = Vec::new();
        for LostReplica { lost, moving } in self.remove_replicas(device) {
            let moved = if self.is_closing() { Ok(()) } else { self.make_elsewhere(&moving) };
            match moved {
                Err(Error::Exhausted(_)) => refused.push(moving),
                Err(error) => self.note_unplaced(&moving, &error),
                Ok(()) => (),
            }
            drop(lost.start_retiring()); // local clients are told now, and find the new replica
        }
        if !refused.is_empty() {
            self.wait_for_memory_of(device);
        }
        for moving in refused.iter().take_while(|_| !self.is_closing()) {
            let _ =
                self.make_elsewhere(moving).inspect_err(|error| self.note_unplaced(moving, error));
        }
    }

    /// Waits until no memory of the device's models is reserved, for a bounded time.
    fn wait_for_memory_of(&self, device: usize) {
        let begin = Instant::now();
        let budget = &self.placer.factories[device].budget;
        while budget.used() > 0 && begin.elapsed() < MEMORY_TIMEOUT && !self.is_closing() {
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Removes the device's replicas, so that no request uses them from now on.
    fn remove_replicas(&self, device: usize) -> Vec<LostReplica> {
        let mut left = Vec::new();
        let mut loaded = self.loaded.write();
        for versions in loaded.values_mut() {
            versions.retain(|_, replicas| {
                let is_on = |replica: &Arc<LoadedModel>| replica.node().index == device;
                let Some(lost) = replicas.each().iter().find(|one| is_on(one)).cloned() else {
                    return true;
                };
                let others = replicas.each().iter().filter(|one| !is_on(one));
                let kept: Vec<_> = others.cloned().collect();
                let stays = Replicas::new(kept.clone()).map(|others| *replicas = Arc::new(others));
                if stays.is_none() {
                    self.unavailable.note(&lost.spec, moving_text(&lost));
                }
                let (spec, stats) = (lost.spec.clone(), lost.stats.clone());
                left.push(LostReplica { lost, moving: PendingMove { spec, stats, kept } });
                stays.is_some()
            });
        }
        loaded.retain(|_, versions| !versions.is_empty());
        left
    }

    /// Creates a replica elsewhere, if the model needs one.
    fn make_elsewhere(&self, PendingMove { spec, stats, kept }: &PendingMove) -> Result<()> {
        let made = self.placer.place(spec, kept, stats)?;
        made.iter().for_each(|served| log_loaded(served));
        self.set_replicas(spec, made.iter().chain(kept).cloned().collect());
        Ok(())
    }

    /// Notes that no device can take it.
    fn note_unplaced(&self, PendingMove { spec, kept, .. }: &PendingMove, error: &Error) {
        let (model, version) = (&spec.name, spec.version);
        tracing::warn!(%model, version, %error, "not moved");
        if kept.is_empty() {
            self.unavailable.note(spec, error.text().to_owned());
        }
    }

    /// Replaces the replicas of the version.
    fn set_replicas(&self, spec: &ModelSpec, replicas: Vec<Arc<LoadedModel>>) {
        let Some(replicas) = Replicas::new(replicas) else { return };
        let mut loaded = self.loaded.write();
        let versions = loaded.entry(spec.name.clone()).or_default();
        versions.insert(spec.version, Arc::new(replicas));
        self.unavailable.forget_version(spec);
    }
}

fn moving_text(lost: &LoadedModel) -> String {
    let (title, node) = (lost.title(), lost.node());
    let why = node.lost().unwrap_or_default();
    format!("model {title} is being loaded on another device, because {} is lost: {why}", node.name)
}
