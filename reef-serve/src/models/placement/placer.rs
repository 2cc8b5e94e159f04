//! Makes replicas of a model on the devices that it is to be on.

use super::choice::{Candidate, best, wanted};
use super::load_thread::aside;
use crate::config::limits::Limits;
use crate::error::{Error, Result};
use crate::models::loaded_model::LoadedModel;
use crate::models::model_spec::ModelSpec;
use crate::models::shaped::factory::Maker;
use crate::models::shaped::variants::Variants;
use crate::observe::stats::Stats;
use std::sync::Arc;

/// Makes replicas of models.
#[derive(Debug)]
pub(crate) struct Placer {
    /// One for each device.
    pub(crate) makers: Vec<Arc<Maker>>,
    pub(crate) limits: Limits,
    /// Devices that a model is on whose description doesn't say it; 0: all.
    pub(crate) usual: usize,
}

impl Placer {
    /// The replicas that `spec` wants beside those that are `kept`, as far as enough devices work;
    /// all count in `stats`. Blocks.
    ///
    /// # Errors
    ///
    /// What is wrong with its files, or with the devices that it wants; `Exhausted` if no device
    /// has room for one; `Unavailable` if all of its devices are lost.
    pub(crate) fn place(
        &self,
        spec: &ModelSpec,
        kept: &[Arc<LoadedModel>],
        stats: &Arc<Stats>,
    ) -> Result<Vec<Arc<LoadedModel>>> {
        let mut made = Vec::new();
        match aside("reef-load", || self.fill(spec, kept, stats, &mut made)) {
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
        let (devices, wanted) = self.wanted(spec)?;
        let works = |at: &usize| self.makers[*at].node.lost().is_none();
        // One that is lost meanwhile counts no more.
        let count = || wanted.min(devices.iter().copied().filter(works).count()).max(1);
        let mut refused: Vec<(usize, Error)> = Vec::new();
        while kept.len() + made.len() < count() {
            let has = |at: &usize| {
                kept.iter().chain(&*made).any(|replica| replica.node().index == *at)
                    || refused.iter().any(|(index, _)| index == at)
            };
            let free = devices.iter().filter(|at| works(at) && !has(at));
            let Some(at) = best(free.map(|&at| self.candidate(at))) else {
                return Err(self.unplaced(spec, &devices, refused));
            };
            match self.load(spec, at, stats.clone()) {
                Ok(replica) => made.push(replica),
                Err(error @ Error::Exhausted(_)) => refused.push((at, error)),
                Err(error) if self.makers[at].node.is_lost_after(&error) => {
                    refused.push((at, error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn wanted(&self, spec: &ModelSpec) -> Result<(Vec<usize>, usize)> {
        let names: Vec<&str> = self.makers.iter().map(|maker| &*maker.node.name).collect();
        let of = |text: &str| format!("model {}/{}: {text}", spec.name, spec.version);
        wanted(&spec.placing, self.usual, &names).map_err(|error| error.map(of))
    }

    fn candidate(&self, index: usize) -> Candidate {
        let Maker { node, budget, .. } = &*self.makers[index];
        Candidate { index, instances: node.lanes.counts(), load: node.load(), left: budget.left() }
    }

    fn load(&self, spec: &ModelSpec, at: usize, stats: Arc<Stats>) -> Result<Arc<LoadedModel>> {
        let part = self.limits.part(self.limits.shapes as u64) as usize;
        let variants = Variants::new(self.limits.shapes, part);
        let maker = self.makers[at].clone();
        LoadedModel::load(spec.clone(), maker, variants, stats, self.limits.queue)
    }

    /// Why none of `devices` takes it.
    fn unplaced(
        &self,
        spec: &ModelSpec,
        devices: &[usize],
        mut refused: Vec<(usize, Error)>,
    ) -> Error {
        if self.makers.len() == 1 && refused.len() == 1 {
            return refused.remove(0).1;
        }
        let why = |&at: &usize| {
            let node = &self.makers[at].node;
            let refusal = refused.iter().find(|(index, _)| *index == at);
            let refusal = refusal.map(|(_, error)| format!("{}: {error}", node.name));
            node.lost().map(|why| format!("{} is lost: {why}", node.name)).or(refusal)
        };
        let all: Vec<_> = devices.iter().filter_map(why).collect();
        let text =
            format!("model {}/{}: no device takes it: {}", spec.name, spec.version, all.join("; "));
        match refused.iter().any(|(_, error)| matches!(error, Error::Exhausted(_))) {
            true => Error::Exhausted(text),
            false => Error::Unavailable(text),
        }
    }
}
