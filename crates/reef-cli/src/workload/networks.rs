//! The networks that clients run.

use super::program;
use super::tensors::shape;
use crate::report::progress::Progress;
use crate::report::usage::Usage;
use anyhow::{Context, Result};
use reef::models::image::Transform;
use reef::models::onnx::{self, Declared, DeclaredSize};
use reef::models::{self, Budget, Model, ModelBuilder, Network, Scales, Seeded, Weights, measured};
use reef::op::Operators;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Made-up weights of networks that are built, and what all look at without a photo: see
/// [`Seeded`].
pub(crate) const WEIGHTS: Seeded = Seeded(2022);

/// Sizes that networks leave open.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct Sizes {
    /// Rows and columns of images, where the model does not fix them.
    #[arg(long)]
    pub(crate) size: Option<usize>,
    /// Sizes that an ONNX file leaves open, by the name of an input or of a size; of several
    /// models, each that has the name.
    #[arg(long, value_name = "NAME=1,3,224,224", value_parser = shape)]
    pub(crate) shape: Vec<(String, Vec<usize>)>,
    /// Iterations after which loops of an ONNX file that data end have ended [default: the trip
    /// count or 64].
    #[arg(long, value_name = "N")]
    pub(crate) loop_bound: Option<usize>,
}

impl Sizes {
    /// Begins to open a network that all of them are for.
    pub(crate) fn opened<'a>(&self, network: impl AsRef<Path>) -> ModelBuilder<'a> {
        let model = Model::open(network).input_size(self.size).loop_bound(self.loop_bound);
        model.shapes(self.shape.iter().cloned())
    }

    pub(crate) fn is_given(&self) -> bool {
        self.size.is_some() || !self.shape.is_empty() || self.loop_bound.is_some()
    }

    /// Shapes by names that a network has.
    fn shapes_of(&self, network: &str) -> models::Result<Vec<(String, Vec<usize>)>> {
        if self.shape.is_empty() {
            return Ok(Vec::new());
        }
        let names = names_of(network)?;
        Ok(self.shape.iter().filter(|(name, _)| has(&names, name)).cloned().collect())
    }

    /// Refuses shapes by names that no network has, and a bound of loops for none that has loops.
    pub(crate) fn check(&self, networks: &[String]) -> Result<()> {
        let is_file = |network: &String| onnx::file_of(network).is_some();
        if self.loop_bound.is_some() && !networks.iter().any(is_file) {
            let have = networks.join(", ");
            return Err(Usage(format!("--loop-bound: must be of an ONNX file, got {have}")).into());
        }
        if self.shape.is_empty() {
            return Ok(());
        }
        let names: Vec<_> =
            networks.iter().map(|of| names_of(of)).collect::<models::Result<_>>()?;
        match self.shape.iter().find(|(name, _)| !names.iter().any(|names| has(names, name))) {
            None => Ok(()),
            Some((name, _)) => Err(Usage(format!(
                "--shape {name}: must be an input or a size of an ONNX file, got neither in {}",
                networks.join(", ")
            ))
            .into()),
        }
    }
}

/// Returns whether a name is one of these, or that of a tensor of a sequence, whose place follows.
fn has(names: &BTreeSet<String>, name: &str) -> bool {
    let sequence = name.trim_end_matches(|c: char| c.is_ascii_digit());
    names.contains(name) || sequence.len() < name.len() && names.contains(sequence)
}

/// Names of inputs and of open sizes, and those of sequences with a dot; none if the network isn't
/// an ONNX file.
fn names_of(network: &str) -> models::Result<BTreeSet<String>> {
    let Some(file) = onnx::file_of(network) else { return Ok(BTreeSet::new()) };
    let Declared { inputs, .. } = onnx::declared(file, &Budget::default())?;
    let mut names = BTreeSet::new();
    for input in inputs {
        names.extend(input.is_sequence.then(|| format!("{}.", input.name)));
        names.insert(input.name);
        let open = |size| match size {
            DeclaredSize::Open(name) if !name.is_empty() => Some(name),
            _ => None,
        };
        names.extend(input.sizes.into_iter().flatten().filter_map(open));
    }
    Ok(names)
}

/// Reads a network by its name, its folder or its ONNX file, for one image at a time.
pub(crate) fn open(network: &str, sizes: &Sizes) -> models::Result<Model> {
    let shapes = sizes.shapes_of(network)?;
    let bound = sizes.loop_bound.filter(|_| onnx::file_of(network).is_some());
    let model = Model::open(network).input_size(sizes.size).seed(WEIGHTS.0);
    model.shapes(shapes).loop_bound(bound).read_usual()
}

/// Reads files of `reef model calibrate`, each of another one of these networks.
pub(crate) fn read_scales(
    files: &[PathBuf],
    networks: &[String],
    sizes: &Sizes,
) -> Result<Vec<Scales>> {
    let all = files.iter().map(|file| Ok(Scales::load(file)?)).collect::<Result<Vec<_>>>()?;
    if all.is_empty() {
        return Ok(all);
    }
    let models =
        networks.iter().map(|name| open(name, sizes)).collect::<models::Result<Vec<_>>>()?;
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
pub(crate) fn check_all(networks: &[String], sizes: &Sizes) -> Result<()> {
    sizes.check(networks)?;
    networks.iter().try_for_each(|name| Ok(open(name, sizes).map(drop)?))
}

/// Input of networks.
#[derive(Clone, Copy)]
pub(crate) struct Image<'a> {
    pub(crate) file: Option<&'a Path>,
    pub(crate) sizes: &'a Sizes,
}

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
    check_all(&[&[rt.to_owned()], be].concat(), image.sizes)?;
    let Some(photo) = image.file else { return Ok(()) };
    transform(rt, &open(rt, image.sizes)?)?.read(photo)?;
    Ok(())
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
    let mut loader = Loader::new(device, image.sizes);
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
    sizes: &Sizes,
) -> models::Result<Network<D>> {
    LoadedModel::load(device, name, sizes, &[])?.instance()
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
    fn load(device: &D, name: &str, sizes: &Sizes, scales: &[Scales]) -> models::Result<Self> {
        let model = open(name, sizes)?;
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
    sizes: &'a Sizes,
    scales: Vec<Scales>,
    loaded: BTreeMap<String, LoadedModel<D>>,
}

impl<'a, D: Operators> Loader<'a, D> {
    /// Loader for these sizes, or else each network's own.
    pub(crate) fn new(device: &'a D, sizes: &'a Sizes) -> Self {
        Self { device, sizes, scales: Vec::new(), loaded: BTreeMap::new() }
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
            let loaded = LoadedModel::load(self.device, name, self.sizes, &self.scales)?;
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
