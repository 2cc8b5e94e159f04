//! Creation of replicas on the chosen devices.

use super::choice::{Candidate, best, candidates};
use super::load_thread::run_on_thread;
use crate::config::limits::Limits;
use crate::engine::instance_count::CountGuard;
use crate::error::{Error, Result};
use crate::models::loaded_model::LoadedModel;
use crate::models::model_spec::ModelSpec;
use crate::models::shaped::factory::VariantFactory;
use crate::models::shaped::variants::Variants;
use crate::observe::stats::Stats;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time that a load has to end once its device is lost.
const LOAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Creates replicas of models.
#[derive(Debug)]
pub(crate) struct Placer {
    /// One for each device.
    pub(crate) factories: Vec<Arc<VariantFactory>>,
    pub(crate) limits: Limits,
    /// Number of devices of a model whose description does not set it; 0 is all.
    pub(crate) usual: usize,
    /// Held while a device is chosen.
    pub(crate) choice: Mutex<()>,
}

impl Placer {
    /// Creates the replicas that `spec` requires in addition to `kept`, as far as enough devices
    /// work. All of them count in `stats`. Blocks.
    ///
    /// # Errors
    ///
    /// Errors of its files or its devices; `Exhausted` if no device has room for one; `Unavailable`
    /// if all of its devices are lost.
    pub(crate) fn place(
        &self,
        spec: &ModelSpec,
        kept: &[Arc<LoadedModel>],
        stats: &Arc<Stats>,
    ) -> Result<Vec<Arc<LoadedModel>>> {
        let mut made = Vec::new();
        match self.fill(spec, kept, stats, &mut made) {
            Ok(()) => Ok(made),
            Err(error) => {
                made.iter().for_each(|replica| replica.retire());
                Err(error)
            }
        }
    }

    fn fill(
        &self,
        spec: &ModelSpec,
        kept: &[Arc<LoadedModel>],
        stats: &Arc<Stats>,
        made: &mut Vec<Arc<LoadedModel>>,
    ) -> Result<()> {
        let (devices, replicas) = self.candidates(spec)?;
        let works = |at: &usize| self.factories[*at].node.lost().is_none();
        // A device that is lost meanwhile no longer counts.
        let count = || replicas.min(devices.iter().copied().filter(works).count()).max(1);
        let mut refused: Vec<(usize, Error)> = Vec::new();
        while kept.len() + made.len() < count() {
            let has = |at: &usize| {
                kept.iter().chain(&*made).any(|replica| replica.node().index == *at)
                    || refused.iter().any(|(index, _)| index == at)
            };
            let free = devices.iter().copied().filter(|at| works(at) && !has(at));
            let Some((at, counted)) = self.choose(spec, free) else {
                return Err(self.placement_error(spec, &devices, refused));
            };
            let loaded = match kept.iter().chain(&*made).next() {
                // All replicas have the engine of the first one.
                Some(first) => self.load(first.spec.clone(), at, stats),
                None => self.load_first(spec, at, stats),
            };
            drop(counted); // a loaded one counts itself
            match loaded {
                Ok(replica) => made.push(replica),
                Err(error @ Error::Exhausted(_)) => refused.push((at, error)),
                Err(error) if self.factories[at].node.is_lost_after(&error) => {
                    refused.push((at, error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn candidates(&self, spec: &ModelSpec) -> Result<(Vec<usize>, usize)> {
        let names: Vec<&str> = self.factories.iter().map(|factory| &*factory.node.name).collect();
        let of = |text: &str| format!("model {}/{}: {text}", spec.name, spec.version);
        candidates(&spec.placing, self.usual, &names).map_err(|error| error.map_text(of))
    }

    /// Chooses one of these devices. Its instances count there while it is loaded, so that models
    /// that are loaded at the same time choose others.
    fn choose(
        &self,
        spec: &ModelSpec,
        devices: impl Iterator<Item = usize>,
    ) -> Option<(usize, CountGuard)> {
        let _alone = self.choice.lock();
        let at = best(devices.map(|at| self.candidate(at)))?;
        let instances = [spec.instances.rt, spec.instances.be];
        Some((at, self.factories[at].node.count_instances(instances)))
    }

    fn candidate(&self, index: usize) -> Candidate {
        let VariantFactory { node, budget, .. } = &*self.factories[index];
        Candidate {
            index,
            instances: node.instance_counts.counts(),
            load: node.load(),
            left: budget.remaining(),
        }
    }

    /// Loads the first replica; by the program that its description names for a file that is not
    /// read.
    fn load_first(
        &self,
        spec: &ModelSpec,
        at: usize,
        stats: &Arc<Stats>,
    ) -> Result<Arc<LoadedModel>> {
        match self.load(spec.clone(), at, stats) {
            Err(Error::Unsupported(why)) => self.load(spec.fall_back(why)?, at, stats),
            loaded => loaded,
        }
    }

    /// Creates a replica on a device. A device that is lost may never end that. Changes of other
    /// models do not wait for it, nor does the end of the daemon, which asks whether it works.
    fn load(&self, spec: ModelSpec, at: usize, stats: &Arc<Stats>) -> Result<Arc<LoadedModel>> {
        let part = self.limits.part(self.limits.shapes as u64) as usize;
        let variants = Variants::new(self.limits.shapes, part);
        let (factory, queue) = (self.factories[at].clone(), self.limits.queue);
        let stats = stats.clone();
        let (node, closing) = (factory.node.clone(), factory.closing.clone());
        let load = move || LoadedModel::load(spec, factory, variants, stats, queue);
        let discard = |late: Arc<LoadedModel>| late.retire();
        let mut lost_since = None;
        let abandons = || {
            let error = Error::Failed("the load does not end".into());
            if closing.load(Ordering::SeqCst) {
                node.is_lost_after(&error); // no request asks whether the device works any more
            }
            node.lost()?;
            let since: Instant = *lost_since.get_or_insert_with(Instant::now);
            (since.elapsed() >= LOAD_TIMEOUT).then(|| node.explain(error))
        };
        run_on_thread("reef-load", load, discard, abandons)
    }

    /// Returns the error for a model that none of `devices` takes.
    fn placement_error(
        &self,
        spec: &ModelSpec,
        devices: &[usize],
        mut refused: Vec<(usize, Error)>,
    ) -> Error {
        if self.factories.len() == 1 && refused.len() == 1 {
            return refused.remove(0).1;
        }
        let why = |&at: &usize| {
            let node = &self.factories[at].node;
            let refusal = refused.iter().find(|(index, _)| *index == at);
            let refusal = refusal.map(|(_, error)| format!("{}: {error}", node.name));
            node.lost().map(|why| format!("{} is lost: {why}", node.name)).or(refusal)
        };
        let all: Vec<_> = devices.iter().filter_map(why).collect();
        let text = format!(
            "model {}/{}: no device can take it: {}",
            spec.name,
            spec.version,
            all.join("; ")
        );
        if refused.iter().any(|(_, error)| matches!(error, Error::Exhausted(_))) {
            Error::Exhausted(text)
        } else {
            Error::Unavailable(text)
        }
    }
}
