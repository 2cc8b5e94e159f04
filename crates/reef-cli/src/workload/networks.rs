//! The networks that clients run.

use super::program;
use crate::report::progress::Progress;
use crate::report::usage::Usage;
use anyhow::{Context, Result};
use reef::models::image::Transform;
use reef::models::{self, Model, ModelBuilder, Network, Scales, Seeded, Weights, measured};
use reef::op::Operators;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Made-up weights of networks that are built, and what all look at without a photo: see
/// [`Seeded`].
pub(crate) const WEIGHTS: Seeded = Seeded(2022);

/// Reads a network by its name, its folder or its ONNX file, for one image at a time.
pub(crate) fn open(network: &str, size: Option<usize>) -> models::Result<Model> {
    opened(network, size).read()
}

/// As [`open`], before it is read.
pub(crate) fn opened<'a>(network: &str, size: Option<usize>) -> ModelBuilder<'a> {
    Model::open(network).input_size(size).seed(WEIGHTS.0)
}

/// Reads files of `reef model calibrate`, each of another one of these networks.
pub(crate) fn read_scales(
    files: &[PathBuf],
    networks: &[String],
    size: Option<usize>,
) -> Result<Vec<Scales>> {
    let all = files.iter().map(|file| Ok(Scales::load(file)?)).collect::<Result<Vec<_>>>()?;
    if all.is_empty() {
        return Ok(all);
    }
    let models =
        networks.iter().map(|name| open(name, size)).collect::<models::Result<Vec<_>>>()?;
    for (at, (scales, file)) in all.iter().zip(files).enumerate() {
        let network = scales.network();
        let wrong = |why| Err(Usage(format!("--scales {}: {why}", file.display())).into());
        if !models.iter().any(|model| model.name() == network) {
            return wrong(format!("no model is {network}"));
        }
        if all[..at].iter().any(|other| other.network() == network) {
            return wrong(format!("must be of a network of its own, got {network} twice"));
        }
    }
    Ok(all)
}

/// Refuses networks and sizes that there are not, before anything long begins.
pub(crate) fn check_all(networks: &[String], size: Option<usize>) -> Result<()> {
    networks.iter().try_for_each(|name| Ok(open(name, size).map(drop)?))
}

/// Input of networks.
#[derive(Clone, Copy)]
pub(crate) struct Image<'a> {
    pub(crate) file: Option<&'a Path>,
    pub(crate) size: Option<usize>,
}

/// A network with its name.
pub(crate) struct NamedNetwork<D: Operators> {
    pub(crate) name: String,
    pub(crate) network: Network<D>,
}

/// One real-time network and some best-effort ones.
pub(crate) struct Networks<D: Operators> {
    pub(crate) rt: NamedNetwork<D>,
    pub(crate) be: Vec<NamedNetwork<D>>,
}

impl<D: Operators> Networks<D> {
    /// Measures the kernels of each, so that they can be padded and serve as padding.
    pub(crate) fn profiled(self, device: &D) -> Result<Self> {
        let profiled = |named: NamedNetwork<D>| -> Result<NamedNetwork<D>> {
            let profiles = measured(device, &named.network)?;
            Ok(NamedNetwork { network: named.network.with_profiles(&profiles), ..named })
        };
        let be = self.be.into_iter().map(profiled).collect::<Result<_>>()?;
        Ok(Self { rt: profiled(self.rt)?, be })
    }
}

/// Refuses networks, sizes and photos that there are not, before anything long begins.
pub(crate) fn check(rt: &str, be: &[String], image: Image<'_>) -> Result<()> {
    match image.file {
        Some(photo) => drop(transform(rt, &open(rt, image.size)?)?.read(photo)?),
        None => check_all(&[rt.to_owned()], image.size)?,
    }
    check_all(be, image.size)
}

/// Transform of photos for a network.
fn transform(network: &str, model: &Model) -> Result<Transform> {
    Transform::of_model(network, model).context("--image")
}

/// Builds and loads them, a step of `progress` for each.
pub(crate) fn networks<D: Operators>(
    device: &D,
    rt: &str,
    be: &[String],
    image: Image<'_>,
    progress: &Progress,
) -> Result<Networks<D>> {
    let mut loader = Loader::new(device, image.size);
    let mut load = |name: &str, photo| {
        progress.begin(&format!("loading {name}"));
        loader.network(name, photo)
    };
    let rt = load(rt, image.file)?;
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
    LoadedModel::load(device, name, size, &[])?.instance()
}

/// A network on a device, of which instances can be made.
struct LoadedModel<D: Operators> {
    weights: Weights<D>,
    /// Transform of photos, if it takes images.
    transform: Option<Transform>,
    /// True if its own kernels read the inputs.
    is_program: bool,
}

impl<D: Operators> LoadedModel<D> {
    fn load(
        device: &D,
        name: &str,
        size: Option<usize>,
        scales: &[Scales],
    ) -> models::Result<Self> {
        let model = open(name, size)?;
        let model = match scales.iter().find(|scales| scales.network() == model.name()) {
            Some(scales) => model.with_scales(scales)?,
            None => model,
        };
        let transform = Transform::of_model(name, &model).ok();
        let is_program = model.kernels().is_some();
        Ok(Self { weights: program::weights(device, &model)?, transform, is_program })
    }

    /// An instance that looks at noise. Integers are zeros for kernels of its own, which may take
    /// them as indices.
    fn instance(&self) -> models::Result<Network<D>> {
        let network = self.weights.network()?;
        if self.is_program {
            program::stage_floats(&network, WEIGHTS)?;
        } else {
            network.stage_made_up(WEIGHTS)?;
        }
        Ok(network)
    }
}

/// Instances of the same network share its weights.
pub(crate) struct Loader<'a, D: Operators> {
    device: &'a D,
    size: Option<usize>,
    scales: Vec<Scales>,
    loaded: BTreeMap<String, LoadedModel<D>>,
}

impl<'a, D: Operators> Loader<'a, D> {
    /// Loader for images of `size`, or else of each network's own size.
    pub(crate) fn new(device: &'a D, size: Option<usize>) -> Self {
        Self { device, size, scales: Vec::new(), loaded: BTreeMap::new() }
    }

    /// With numbers of 8 bits in the networks that these are of.
    pub(crate) fn scales(self, scales: impl IntoIterator<Item = Scales>) -> Self {
        Self { scales: scales.into_iter().collect(), ..self }
    }

    /// Input of a network without a photo, as bytes.
    #[cfg(feature = "bench")]
    pub(crate) fn noise(&self, network: &Network<D>) -> Vec<u8> {
        WEIGHTS.inputs(network.inputs())
    }

    /// Makes an instance that looks at `photo`, or else at noise.
    pub(crate) fn network(&mut self, name: &str, photo: Option<&Path>) -> Result<NamedNetwork<D>> {
        if !self.loaded.contains_key(name) {
            let loaded = LoadedModel::load(self.device, name, self.size, &self.scales)?;
            self.loaded.insert(name.into(), loaded);
        }
        let loaded = &self.loaded[name];
        let network = loaded.instance().with_context(|| name.to_string())?;
        match (photo, &loaded.transform) {
            (None, _) => {}
            (Some(file), Some(transform)) => network.stage_input(&transform.read(file)?)?,
            (Some(_), None) => {
                return Err(Usage(format!("--image: {name} sees no images")).into());
            }
        }
        Ok(NamedNetwork { name: name.into(), network })
    }
}
