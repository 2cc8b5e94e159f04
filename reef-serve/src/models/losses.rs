//! What becomes of models whose device is lost: each is made anew on another one, or refused with the reason.

use crate::error::{Error, Result};
use crate::models::loaded_model::LoadedModel;
use crate::models::model_spec::ModelSpec;
use crate::models::placement::replicas::Replicas;
use crate::models::registry::{Registry, say_loaded};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// A replica on a lost device, and those of the same version elsewhere.
struct Left {
    lost: Arc<LoadedModel>,
    kept: Vec<Arc<LoadedModel>>,
}

impl Registry {
    /// Starts the thread that moves models off each device that is lost, until the devices are dropped.
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
        let thread = std::thread::Builder::new().name("reef-losses".into()).spawn(follow);
        thread.map(drop).map_err(|e| Error::system("no thread for lost devices", e))
    }

    /// Takes all models off a device that is lost. Blocks.
    fn leave(&self, device: usize) {
        let _change = self.change.lock();
        for Left { lost, kept } in self.take_off(device) {
            self.move_away(&lost, &kept);
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
                left.push(Left { lost, kept });
                stays.is_some()
            });
        }
        loaded.retain(|_, versions| !versions.is_empty());
        left
    }

    /// Makes a replica elsewhere, if the model wants one there. Local clients are told when it is there, so that they
    /// connect to it.
    fn move_away(&self, lost: &LoadedModel, kept: &[Arc<LoadedModel>]) {
        let spec = &lost.spec;
        let place = || self.placer.place(spec, kept, &lost.stats);
        let mut made = place();
        if matches!(made, Err(Error::Exhausted(_))) {
            lost.retire(); // its memory may be what is missing
            made = place();
        }
        match made {
            Ok(made) => {
                made.iter().for_each(|served| say_loaded(served));
                self.settle(spec, made.iter().chain(kept).cloned().collect());
            }
            Err(error) => {
                tracing::warn!(model = %lost.title(), %error, "not moved");
                if kept.is_empty() {
                    self.away.note(spec, error.text().to_owned());
                }
            }
        }
        lost.retire();
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
