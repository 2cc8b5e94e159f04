//! The networks of the demo.

use crate::picture;
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use reef::models::{Model, Network, Seeded, Weights, build};
use reef::op::Operators;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Weights are made up: see [`Seeded`].
const WEIGHTS: Seeded = Seeded(2022);

/// What networks look at.
#[derive(Clone, Copy)]
pub(super) struct Picture<'a> {
    pub(super) file: Option<&'a Path>,
    pub(super) size: Option<usize>,
}

/// A network with its name.
pub(super) struct Named<D: Operators> {
    pub(super) name: String,
    pub(super) network: Network<D>,
}

/// One real-time network and some best-effort ones.
pub(super) struct Networks<D: Operators> {
    pub(super) rt: Named<D>,
    pub(super) be: Vec<Named<D>>,
}

/// Builds and loads them. Clients of the same network share its weights.
pub(super) fn networks<D: Operators>(
    device: &D,
    rt: &str,
    be: &[String],
    picture: Picture<'_>,
    bar: &ProgressBar,
) -> Result<Networks<D>> {
    let mut loader = Loader { device, picture, bar, loaded: BTreeMap::new() };
    let rt = loader.network(rt, picture.file)?;
    let be = be.iter().map(|name| loader.network(name, None)).collect::<Result<_>>()?;
    bar.inc(1);
    Ok(Networks { rt, be })
}

struct Loader<'a, D: Operators> {
    device: &'a D,
    picture: Picture<'a>,
    bar: &'a ProgressBar,
    loaded: BTreeMap<String, (Model, Arc<Weights<D>>)>,
}

impl<D: Operators> Loader<'_, D> {
    fn network(&mut self, name: &str, photo: Option<&Path>) -> Result<Named<D>> {
        if !self.loaded.contains_key(name) {
            self.bar.set_message(format!("loading {name}"));
            let model = build(name, self.picture.size, 1)?;
            let weights = Weights::pack(self.device, &model, &WEIGHTS)?;
            self.loaded.insert(name.into(), (model, weights));
        }
        let (model, weights) = &self.loaded[name];
        let network = Network::new(self.device, model, weights)?;
        let input = match photo {
            Some(file) => picture::load(file, model.input().height)?,
            None => WEIGHTS.input(model.input().elements()),
        };
        network.stage_input(&input).with_context(|| name.to_string())?;
        Ok(Named { name: name.into(), network })
    }
}
