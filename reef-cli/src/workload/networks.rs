//! The networks that clients run.

use crate::report::progress::Progress;
use anyhow::{Context, Result};
use reef::models::picture::Transform;
use reef::models::{self, Model, Network, Opened, Seeded, Weights, measured};
use reef::op::Operators;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Made-up weights of networks that are built, and what all look at without a photo: see [`Seeded`].
const WEIGHTS: Seeded = Seeded(2022);

/// Opens a network by its name, its folder or its ONNX file, for one picture at a time.
pub(crate) fn open(network: &str, size: Option<usize>) -> models::Result<Opened> {
    models::open(network, size, Some(1), WEIGHTS)
}

/// Refuses networks and sizes that there are not, before anything long begins.
pub(crate) fn check_all(networks: &[String], size: Option<usize>) -> Result<()> {
    networks.iter().try_for_each(|name| Ok(open(name, size).map(drop)?))
}

/// What networks look at.
#[derive(Clone, Copy)]
pub(crate) struct Picture<'a> {
    pub(crate) file: Option<&'a Path>,
    pub(crate) size: Option<usize>,
}

/// A network with its name.
pub(crate) struct Named<D: Operators> {
    pub(crate) name: String,
    pub(crate) network: Network<D>,
}

/// One real-time network and some best-effort ones.
pub(crate) struct Networks<D: Operators> {
    pub(crate) rt: Named<D>,
    pub(crate) be: Vec<Named<D>>,
}

impl<D: Operators> Networks<D> {
    /// Measures the kernels of each, so that they can be padded and serve as padding.
    pub(crate) fn profiled(self, device: &D) -> Result<Self> {
        let profiled = |named: Named<D>| -> Result<Named<D>> {
            let profiles = measured(device, &named.network)?;
            Ok(Named { network: named.network.with_profiles(&profiles), ..named })
        };
        let be = self.be.into_iter().map(profiled).collect::<Result<_>>()?;
        Ok(Self { rt: profiled(self.rt)?, be })
    }
}

/// Refuses networks, sizes and photos that there are not, before anything long begins.
pub(crate) fn check(rt: &str, be: &[String], picture: Picture<'_>) -> Result<()> {
    let model = open(rt, picture.size)?.model;
    if let Some(photo) = picture.file {
        look_at(rt, photo, &model)?;
    }
    check_all(be, picture.size)
}

/// A photo as the network wants it.
fn look_at(network: &str, photo: &Path, model: &Model) -> Result<Vec<f32>> {
    Ok(Transform::of_model(network, model).context("--image")?.read(photo)?)
}

/// Builds and loads them, a step of `progress` for each.
pub(crate) fn networks<D: Operators>(
    device: &D,
    rt: &str,
    be: &[String],
    picture: Picture<'_>,
    progress: &Progress,
) -> Result<Networks<D>> {
    let mut loader = Loader::new(device, picture.size);
    let mut load = |name: &str, photo| {
        progress.begin(&format!("loading {name}"));
        loader.network(name, photo)
    };
    let rt = load(rt, picture.file)?;
    let be = be.iter().map(|name| load(name, None)).collect::<Result<_>>()?;
    Ok(Networks { rt, be })
}

/// An instance that looks at noise, with weights of its own.
#[cfg(feature = "bench")]
pub(crate) fn instance<D: Operators>(
    device: &D,
    name: &str,
    size: Option<usize>,
) -> models::Result<Network<D>> {
    let Opened { model, tensors, .. } = open(name, size)?;
    let weights = Weights::pack(device, &model, &tensors)?;
    let network = Network::new(device, &model, &weights)?;
    network.stage_input(&WEIGHTS.input(model.input().elements()))?;
    Ok(network)
}

/// Instances of the same network share its weights.
pub(crate) struct Loader<'a, D: Operators> {
    device: &'a D,
    size: Option<usize>,
    loaded: BTreeMap<String, (Model, Arc<Weights<D>>)>,
}

impl<'a, D: Operators> Loader<'a, D> {
    /// With pictures of `size`, or else of each network's own.
    pub(crate) fn new(device: &'a D, size: Option<usize>) -> Self {
        Self { device, size, loaded: BTreeMap::new() }
    }

    /// What networks look at without a photo.
    #[cfg(feature = "bench")]
    pub(crate) fn noise(&self, values: usize) -> Vec<f32> {
        WEIGHTS.input(values)
    }

    /// Makes an instance that looks at `photo`, or else at noise.
    pub(crate) fn network(&mut self, name: &str, photo: Option<&Path>) -> Result<Named<D>> {
        if !self.loaded.contains_key(name) {
            let Opened { model, tensors, .. } = open(name, self.size)?;
            let weights = Weights::pack(self.device, &model, &tensors)?;
            self.loaded.insert(name.into(), (model, weights));
        }
        let (model, weights) = &self.loaded[name];
        let network = Network::new(self.device, model, weights)?;
        let input = match photo {
            Some(file) => look_at(name, file, model)?,
            None => WEIGHTS.input(model.input().elements()),
        };
        network.stage_input(&input).with_context(|| name.to_string())?;
        Ok(Named { name: name.into(), network })
    }
}
