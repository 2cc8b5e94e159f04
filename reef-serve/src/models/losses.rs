//! What becomes of models whose device is lost: each is made anew on another one, or refused with
//! the reason.

use crate::error::{Error, Result};
use crate::models::loaded_model::LoadedModel;
use crate::models::model_spec::ModelSpec;
use crate::models::placement::replicas::Replicas;
use crate::models::registry::changes::say_loaded;
use crate::models::registry::state::Registry;
use crate::observe::stats::Stats;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

/// How long models that found no room wait for the memory of the lost device's replicas: sessions
/// and requests look several times a second whether they are to end.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(5);

/// How often it is looked whether that memory is free.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A replica on a lost device, and what is to come in its place.
struct Left {
    lost: Arc<LoadedModel>,
    moving: Moving,
}

/// A version that wants a replica elsewhere. Holds nothing of the one that is lost, whose memory
/// may be what is missing.
struct Moving {
    spec: ModelSpec,
    stats: Arc<Stats>,
    /// Its replicas on other devices.
    kept: Vec<Arc<LoadedModel>>,
}

impl Registry {
    /// Starts the thread that moves models off each device that is lost, until the devices are
    /// dropped.
    ///
    /// # Errors
    ///
    /// `Failed`: there is no thread.
    pub(crate) fn follow(self: &Arc<Self>, losses: Receiver<usize>) -> Result<()> {
        let registry = Arc::downgrade(self);
        let follow = move || {
            for device in losses {
                let Some(registry) = registry.upgrade() else { return };
                registry.leave(device);
            }
        };
        let thread = thread::Builder::new().name("reef-losses".into()).spawn(follow);
        thread.map(drop).map_err(|e| Error::system("no thread for lost devices", e))
    }

    /// Takes all models off a device that is lost. Blocks, but for nothing on that device: a kernel
    /// there may never end. Once the daemon ends, none is moved any more.
    fn leave(&self, device: usize) {
        let _change = self.change.lock();
        let mut refused = Vec::new();
        for Left { lost, moving } in self.take_off(device) {
            let moved = if self.is_closing() { Ok(()) } else { self.move_away(&moving) };
            match moved {
                Err(Error::Exhausted(_)) => refused.push(moving),
                Err(error) => self.stays_away(&moving, &error),
                Ok(()) => (),
            }
            drop(lost.begin_to_retire()); // local clients, who are told now, find what there is
        }
        if !refused.is_empty() {
            self.wait_for_memory_of(device);
        }
        for moving in refused.iter().take_while(|_| !self.is_closing()) {
            let _ = self.move_away(moving).inspect_err(|error| self.stays_away(moving, error));
        }
    }

    /// Waits until nothing of the device's models is reserved, for a while.
    fn wait_for_memory_of(&self, device: usize) {
        let begin = Instant::now();
        let budget = &self.placer.makers[device].budget;
        while budget.used() > 0 && begin.elapsed() < MEMORY_TIMEOUT && !self.is_closing() {
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// No request goes to the device's replicas from now on.
    fn take_off(&self, device: usize) -> Vec<Left> {
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
                    self.away.note(&lost.spec, being_moved(&lost));
                }
                let (spec, stats) = (lost.spec.clone(), lost.stats.clone());
                left.push(Left { lost, moving: Moving { spec, stats, kept } });
                stays.is_some()
            });
        }
        loaded.retain(|_, versions| !versions.is_empty());
        left
    }

    /// Makes a replica elsewhere, if the model wants one there.
    fn move_away(&self, Moving { spec, stats, kept }: &Moving) -> Result<()> {
        let made = self.placer.place(spec, kept, stats)?;
        made.iter().for_each(|served| say_loaded(served));
        self.settle(spec, made.iter().chain(kept).cloned().collect());
        Ok(())
    }

    /// No device takes it.
    fn stays_away(&self, Moving { spec, kept, .. }: &Moving, error: &Error) {
        let (model, version) = (&spec.name, spec.version);
        tracing::warn!(%model, version, %error, "not moved");
        if kept.is_empty() {
            self.away.note(spec, error.text().to_owned());
        }
    }

    /// The version has these replicas.
    fn settle(&self, spec: &ModelSpec, replicas: Vec<Arc<LoadedModel>>) {
        let Some(replicas) = Replicas::new(replicas) else { return };
        let mut loaded = self.loaded.write();
        let versions = loaded.entry(spec.name.clone()).or_default();
        versions.insert(spec.version, Arc::new(replicas));
        self.away.forget_version(spec);
    }
}

fn being_moved(lost: &LoadedModel) -> String {
    let (title, node) = (lost.title(), lost.node());
    let why = node.lost().unwrap_or_default();
    format!("model {title} is being loaded on another device, as {} is lost: {why}", node.name)
}
