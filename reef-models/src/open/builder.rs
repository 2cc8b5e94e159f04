//! Opens networks by whatever names them: a name, a folder, an ONNX file, a file of weights.

use super::kind::ModelKind;
use super::model::Model;
#[cfg(feature = "onnx")]
use super::model::Origin;
use crate::errors::error::{Error, Result};
use crate::files::folder::Folder;
use crate::files::kind::unread;
use crate::files::safetensors::read as safetensors;
use crate::memory::budget::Budget;
use crate::model::image_model::ImageModel;
use crate::model::params::Params;
#[cfg(feature = "onnx")]
use crate::model::ports::Port;
use crate::model::seeded::Seeded;
use crate::model::tensors::Tensors;
#[cfg(feature = "onnx")]
use crate::onnx::declared::{Declared, declared, declared_bytes};
#[cfg(feature = "onnx")]
use crate::onnx::read::{File, Imported, Kernels, ReadOptions, file_of, read, read_file};
use crate::program::folder::is_program;
use crate::program::model::ProgramModel;
use crate::quantize::scales::Scales;
use crate::run::network::Network;
#[cfg(feature = "onnx")]
use crate::tensors::model::TensorModel;
use crate::zoo::by_name::{NAMES, build};
use crate::zoo::tensors_by_name::{TENSOR_NAMES, build_tensors};
use reef_op::Operators;
#[cfg(feature = "onnx")]
use reef_op::tensor::Array;
#[cfg(feature = "onnx")]
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Choices before a network is read: [`Model::open`] begins.
///
/// Without a size or a batch they are those that the network has, or else its usual size and a
/// batch of 1.
///
/// ```
/// use reef_models::Model;
///
/// let model = Model::open("distilbert").input_size(16).seed(7).read()?; // 16 tokens
/// assert_eq!(model.inputs().len(), 2);
/// # Ok::<(), reef_models::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is read before `read` or `load`"]
pub struct ModelBuilder<'a> {
    place: Source<'a>,
    weights: Option<PathBuf>,
    size: Option<usize>,
    batch: Option<usize>,
    seed: Seeded,
    budget: Budget,
    scales: Option<Scales>,
    #[cfg(feature = "onnx")]
    onnx: ReadOptions,
}

/// Place of a network.
#[derive(Debug, Clone)]
enum Source<'a> {
    Path(PathBuf),
    #[cfg(feature = "onnx")]
    Onnx {
        bytes: &'a [u8],
        name: &'a str,
    },
    #[cfg(not(feature = "onnx"))]
    #[expect(dead_code, reason = "bytes are those of ONNX files")]
    Bytes(&'a [u8]),
}

impl Model {
    /// Begins to open `what`: a name of [`NAMES`](crate::NAMES) or
    /// [`TENSOR_NAMES`](crate::TENSOR_NAMES), a folder that [`save`](Self::save) wrote or REEF
    /// published, an ONNX file or a folder with a `model.onnx`, or a `.safetensors` file whose name
    /// begins with one of these names, as torchvision calls its own (`resnet18-f37072fd`).
    ///
    /// Nothing is read before [`read`](ModelBuilder::read) or [`load`](ModelBuilder::load).
    pub fn open<'a>(what: impl AsRef<Path>) -> ModelBuilder<'a> {
        ModelBuilder::of_path(what.as_ref())
    }

    /// Begins to open an ONNX file by its bytes, which have all weights in them; `name` names the
    /// network, and the file in errors.
    #[cfg(feature = "onnx")]
    pub fn from_onnx<'a>(bytes: &'a [u8], name: &'a str) -> ModelBuilder<'a> {
        ModelBuilder::of_onnx(bytes, name)
    }
}

impl<'a> ModelBuilder<'a> {
    fn of(place: Source<'a>) -> Self {
        Self {
            place,
            weights: None,
            size: None,
            batch: None,
            seed: Seeded(1),
            budget: Budget::default(),
            scales: None,
            #[cfg(feature = "onnx")]
            onnx: ReadOptions::default(),
        }
    }

    fn of_path(path: &Path) -> Self {
        Self::of(Source::Path(path.into()))
    }

    #[cfg(feature = "onnx")]
    fn of_onnx(bytes: &'a [u8], name: &'a str) -> Self {
        Self::of(Source::Onnx { bytes, name })
    }

    /// Images, texts or rows at a time. A network of tensors takes it as the first size of inputs
    /// that leave that open.
    pub fn batch(self, batch: impl Into<Option<usize>>) -> Self {
        Self { batch: batch.into(), ..self }
    }

    /// Rows and columns of the image, or tokens of a text. A network of tensors takes it as rows
    /// and columns of inputs of four dimensions that leave those open.
    pub fn input_size(self, size: impl Into<Option<usize>>) -> Self {
        Self { size: size.into(), ..self }
    }

    /// A `.param` or a `.safetensors` file with the weights of a network that is built by name. Any
    /// other network has its own, and reading it with this is an error.
    pub fn weights(self, file: impl AsRef<Path>) -> Self {
        Self { weights: Some(file.as_ref().into()), ..self }
    }

    /// Seed of weights that are made up, because no file has them; 1 unless it is said.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Seeded(seed), ..self }
    }

    /// Numbers of 8 bits between the steps of the network: see [`Model::with_scales`].
    pub fn scales<'s>(self, scales: impl Into<Option<&'s Scales>>) -> Self {
        Self { scales: scales.into().cloned(), ..self }
    }

    /// Bytes of memory that reading takes at most; [`Budget::USUAL`] unless it is said.
    pub fn memory_limit(self, bytes: u64) -> Self {
        self.budget(&Budget::new(bytes))
    }

    /// The budget that reading charges, which others may charge too. What the network keeps stays
    /// charged until the budget is dropped.
    pub fn budget(self, budget: &Budget) -> Self {
        Self { budget: budget.clone(), ..self }
    }

    /// Reads the network.
    ///
    /// # Errors
    ///
    /// `UnknownNetwork` if it is nothing that can be opened, `Kind` if it is of a kind that isn't
    /// read, `OutOfRange` for a size or a batch that the network can't have; `MissingTensor` or
    /// `Length` if weights are of another network; `Onnx` and `Unsupported` with the node,
    /// `Unbound` if values of inputs have to be given; `Io`, `Json`, `Graph`, `Param`,
    /// `Safetensors` for the file that is wrong; `Memory` if it would take more than it may; the
    /// errors of [`Model::with_scales`].
    pub fn read(self) -> Result<Model> {
        let model = self.read_place()?;
        #[cfg(feature = "onnx")]
        if self.onnx.kernels == Kernels::Images {
            model.image()?;
        }
        match &self.scales {
            Some(scales) => model.with_scales(scales),
            None => Ok(model),
        }
    }

    fn read_place(&self) -> Result<Model> {
        match &self.place {
            Source::Path(path) => self.read_path(path),
            #[cfg(feature = "onnx")]
            Source::Onnx { bytes, name } => {
                if let Some(weights) = &self.weights {
                    let why = format!("an ONNX file has its weights, got {}", weights.display());
                    return Err(Error::Kind { file: (*name).into(), why });
                }
                let file = File { bytes, name, shown: name, folder: None };
                self.of_imported(read(&file, &self.options(), &self.budget)?, None)
            }
            #[cfg(not(feature = "onnx"))]
            Source::Bytes(_) => unreachable!("nothing makes it"),
        }
    }

    /// Reads the network and makes an instance of it on a device.
    ///
    /// # Errors
    ///
    /// Errors of [`read`](Self::read) and of [`Model::load`].
    pub fn load<D: Operators>(self, device: &D) -> Result<Network<D>> {
        self.read()?.load(device)
    }

    fn read_path(&self, path: &Path) -> Result<Model> {
        let what = path.to_string_lossy();
        let what = what.as_ref();
        if let Some(file) = &self.weights {
            self.check_takes_no_shapes(what)?;
            return self.with_weights(what, file);
        }
        let is_built = NAMES.contains(&what) || TENSOR_NAMES.contains(&what);
        #[cfg(feature = "onnx")]
        {
            let is_asked = self.onnx.kernels == Kernels::Tensors;
            let file = file_of(path).or_else(|| is_asked.then(|| path.into()));
            if let Some(file) = file.filter(|_| is_asked || !is_built) {
                return self.read_onnx(path, &file);
            }
        }
        self.check_takes_no_shapes(what)?;
        if is_built {
            return self.built(what, || Ok(Tensors::Seeded(self.seed)));
        }
        if path.is_dir() && is_program(path) {
            self.check_takes_no_sizes(what)?;
            let model = ProgramModel::load(path, &self.budget)?;
            return Ok(Model::of_program(model, self.seed));
        }
        if path.is_dir() {
            let Folder { model, params, latencies } = Folder::load(path, &self.budget)?;
            self.check_fits(what, &model)?;
            return Ok(Model::of_image(model, Tensors::Read(params)).with_latencies(latencies));
        }
        if let Some(network) = weights_of(path) {
            return self.with_weights(network, path);
        }
        if let Some(error) = unread(path) {
            return Err(error);
        }
        let names = [NAMES, TENSOR_NAMES].concat().join(", ");
        let have = format!("{names}, folders of networks, .onnx files, NETWORK.safetensors");
        Err(Error::UnknownNetwork { asked: what.into(), have })
    }

    /// A network that is built, with weights of a file.
    fn with_weights(&self, network: &str, file: &Path) -> Result<Model> {
        if let Some(error) = unread(file) {
            return Err(error);
        }
        let is_safetensors = file.extension().is_some_and(|extension| extension == "safetensors");
        let read = || {
            if is_safetensors {
                return safetensors::load(file, &self.budget);
            }
            Params::load(file, &self.budget)
        };
        self.built(network, || read().map(Tensors::Read))
    }

    /// A network that is built; `tensors` are asked for once it is known that there is one.
    fn built(&self, network: &str, tensors: impl FnOnce() -> Result<Tensors>) -> Result<Model> {
        let batch = self.batch.unwrap_or(1);
        if TENSOR_NAMES.contains(&network) {
            let model = build_tensors(network, self.size, batch, tensors()?)?;
            return Ok(Model::of(ModelKind::Tensors(model)));
        }
        let model = build(network, self.size, batch)?;
        let tensors = match tensors()? {
            Tensors::Read(params) => Tensors::Read(model.keep_of(params)?),
            seeded @ Tensors::Seeded(_) => seeded,
        };
        Ok(Model::of_image(model, tensors))
    }

    #[cfg(not(feature = "onnx"))]
    fn check_takes_no_shapes(&self, _: &str) -> Result<()> {
        Ok(())
    }

    /// Refuses a size and a batch for kernels that come as source.
    fn check_takes_no_sizes(&self, what: &str) -> Result<()> {
        let asked = [("size", self.size), ("batch", self.batch)];
        match asked.into_iter().find_map(|(name, asked)| Some((name, asked?))) {
            None => Ok(()),
            Some((name, asked)) => {
                let why = format!("its schedule has its sizes, got {name} {asked}");
                Err(Error::Kind { file: what.into(), why })
            }
        }
    }

    /// Refuses another size or batch than the network has, whose sizes are known.
    fn check_fits(&self, network: &str, model: &ImageModel) -> Result<()> {
        let input = model.input();
        let sizes = [
            ("input size", self.size, input.height),
            ("input size", self.size, input.width),
            ("batch", self.batch, input.batch),
        ];
        for (what, asked, have) in sizes {
            if let Some(asked) = asked.filter(|&asked| asked != have) {
                let network = network.into();
                return Err(Error::OutOfRange { network, what, asked, least: have, most: have });
            }
        }
        Ok(())
    }
}

#[cfg(feature = "onnx")]
impl ModelBuilder<'_> {
    /// Sizes of an input of an ONNX file, by its name; or one size, by the name that the file gives
    /// to it. A size that is left open otherwise is 1, or the first of some that the network can
    /// have.
    pub fn shape(mut self, name: impl Into<String>, sizes: &[usize]) -> Self {
        self.onnx.shapes.insert(name.into(), sizes.into());
        self
    }

    /// As [`shape`](Self::shape), of several inputs.
    pub fn shapes(mut self, shapes: impl IntoIterator<Item = (String, Vec<usize>)>) -> Self {
        self.onnx.shapes.extend(shapes);
        self
    }

    /// Values of inputs of an ONNX file with their sizes: those are the network's, and values that
    /// decide about shapes are constants of it.
    pub fn values(mut self, values: &BTreeMap<String, (Vec<usize>, Array)>) -> Self {
        self.onnx.values.extend(values.clone());
        self
    }

    /// As [`values`](Self::values). But inputs whose values have become constants stay inputs of
    /// the network, which reads nothing of them: it has all inputs of the file, in its order.
    pub fn kept_values(self, values: &BTreeMap<String, (Vec<usize>, Array)>) -> Self {
        let mut kept = self.values(values);
        kept.onnx.keeps_inputs = true;
        kept
    }

    /// Iterations after which a `Loop` of an ONNX file has ended, if data end it. Unless it is
    /// said, this is the loop's trip count, or the most that it can be, if that is known and at
    /// most 16,384, and 64 otherwise. All of them are computed. A request that needs more has no
    /// outputs: [`Error::Unended`].
    pub fn loop_bound(mut self, iterations: impl Into<Option<usize>>) -> Self {
        self.onnx.loop_bound = iterations.into();
        self
    }

    /// As [`read`](Self::read). If values of inputs decide about shapes and were not given, those
    /// of up to 16 numbers (int32, int64, float32) or truth values are 0, or 1 if the network can't
    /// have 0. These inputs stay inputs, as with [`kept_values`](Self::kept_values).
    ///
    /// # Errors
    ///
    /// Errors of [`read`](Self::read).
    pub fn read_usual(self) -> Result<Model> {
        let first = self.clone().read();
        if !matches!(first, Err(Error::Unbound { .. })) {
            return first;
        }
        let declared = self.declared()?;
        for value in [0, 1] {
            let mut values = BTreeMap::new();
            loop {
                match self.clone().kept_values(&values).read() {
                    Err(Error::Unbound { inputs, .. }) => {
                        let more = inputs.iter().map(|name| declared.filled(name, value));
                        let Some(more) = more.collect::<Option<Vec<_>>>() else { break };
                        if more.is_empty() || more.iter().any(|(name, _)| values.contains_key(name))
                        {
                            break;
                        }
                        values.extend(more);
                    }
                    Err(_) => break,
                    read => return read,
                }
            }
        }
        first
    }

    /// Reads an ONNX file as a network of ordinary tensors, though it may be one for images.
    pub fn tensors_only(mut self) -> Self {
        self.onnx.kernels = Kernels::Tensors;
        self
    }

    /// Refuses a network that isn't one for images; of an ONNX file the error names the node that
    /// can't be expressed so.
    pub fn images_only(mut self) -> Self {
        self.onnx.kernels = Kernels::Images;
        self
    }

    /// Inputs and outputs that an ONNX file declares, with the sizes that were chosen so far. A
    /// request chooses the others: see [`variants`](Self::variants). Other networks declare none.
    ///
    /// # Errors
    ///
    /// `Io` if the file can't be read, `Onnx` if it is none, `Memory`.
    pub fn declared(&self) -> Result<Declared> {
        let found = match &self.place {
            Source::Onnx { bytes, name } => declared_bytes(bytes, name, &self.budget)?,
            Source::Path(path) => match file_of(path).filter(|_| self.weights.is_none()) {
                Some(file) => declared(file, &self.budget)?,
                None => Declared::default(),
            },
        };
        Ok(found.chosen(&self.options()))
    }

    /// Refuses shapes, values and a bound of loops for what isn't an ONNX file.
    fn check_takes_no_shapes(&self, what: &str) -> Result<()> {
        let why = if !self.onnx.shapes.is_empty() {
            "no ONNX file, so its sizes are its own"
        } else if self.onnx.loop_bound.is_some() {
            "no ONNX file, so it has no loops to bound"
        } else if !self.onnx.values.is_empty() {
            "no ONNX file, so values of inputs decide about no shapes"
        } else {
            return Ok(());
        };
        Err(Error::Kind { file: what.into(), why: why.into() })
    }

    fn options(&self) -> ReadOptions {
        ReadOptions { size: self.size, batch: self.batch, ..self.onnx.clone() }
    }

    /// Reads an ONNX file; a network of tensors is named after `place`.
    fn read_onnx(&self, place: &Path, file: &Path) -> Result<Model> {
        let imported = read_file(file, &self.options(), &self.budget)?;
        let options = self.options().images();
        let origin = options.map(|options| Origin { file: file.into(), options });
        let imported = match imported {
            Imported::Tensors(mut model) => {
                model.name = place.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                Imported::Tensors(model)
            }
            image @ Imported::Image(..) => image,
        };
        self.of_imported(imported, origin)
    }

    fn of_imported(&self, imported: Imported, origin: Option<Origin>) -> Result<Model> {
        match imported {
            Imported::Image(model, params) => {
                self.check_fits(&model.graph().name, &model)?;
                let kind = ModelKind::Image(model.into(), Tensors::Read(params));
                Ok(Model::of_file(kind, origin))
            }
            Imported::Tensors(model) => {
                self.check_takes_size(&model)?;
                self.check_takes_batch(&model)?;
                Ok(Model::of(ModelKind::Tensors(model)))
            }
        }
    }

    /// Refuses a batch that no input of a network of tensors has.
    fn check_takes_batch(&self, model: &TensorModel) -> Result<()> {
        let Some(batch) = self.batch else { return Ok(()) };
        if model.inputs.iter().any(|port| port.spec.dims.first() == Some(&batch)) {
            return Ok(());
        }
        let shapes = model.inputs.iter().map(|port| format!("{}: {}", port.name, port.spec));
        let (name, shapes) = (&model.name, shapes.collect::<Vec<_>>().join(", "));
        let why =
            format!("{name}: no input leaves its first size open for batch {batch}: {shapes}");
        Err(Error::Tensor { why })
    }

    /// Refuses a size that no input of a network of tensors takes.
    fn check_takes_size(&self, model: &TensorModel) -> Result<()> {
        let Some(size) = self.size else { return Ok(()) };
        let sides = |port: &Port| (port.spec.dims.len() == 4).then(|| port.spec.dims[2..].to_vec());
        if model.inputs.iter().filter_map(sides).any(|sides| sides == [size; 2]) {
            return Ok(());
        }
        let name = &model.name;
        let why = format!("{name}: no input leaves rows and columns open for size {size}");
        Err(Error::Tensor { why })
    }
}

/// The network whose weights a `.safetensors` file says in its name to have.
pub fn weights_of(path: impl AsRef<Path>) -> Option<&'static str> {
    let path = path.as_ref();
    path.extension().filter(|extension| *extension == "safetensors")?;
    let stem = path.file_stem()?.to_str()?;
    let begins = |name: &&str| {
        let rest = stem.strip_prefix(*name);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    NAMES.iter().chain(TENSOR_NAMES).copied().find(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_say_their_network_in_the_file_name() {
        assert_eq!(weights_of("/models/resnet18.safetensors"), Some("resnet18"));
        assert_eq!(weights_of("resnet50-11ad3fa6.safetensors"), Some("resnet50"));
        assert_eq!(weights_of("inception_v3_google-0cc3c7bd.safetensors"), Some("inception_v3"));
        for other in ["resnet18.param", "resnet180.safetensors", "my.safetensors", "resnet18"] {
            assert_eq!(weights_of(other), None, "{other}");
        }
    }

    #[test]
    fn unknown_network_is_named_with_known_ones() {
        let said = Model::open("lenet.safetensors").read().unwrap_err().to_string();
        assert!(said.starts_with("no network \"lenet.safetensors\" (have: resnet18, "), "{said}");
    }

    #[test]
    fn sizes_of_kernels_as_source_are_their_own() {
        let folder = std::env::temp_dir().join(format!("reef-sizes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("n.cu"), "").unwrap();
        let said = |model: ModelBuilder<'_>| model.read().unwrap_err().to_string();
        let batch = said(Model::open(&folder).batch(4));
        let size = said(Model::open(&folder).input_size(8));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(batch.ends_with("its schedule has its sizes, got batch 4"), "{batch}");
        assert!(size.ends_with("its schedule has its sizes, got size 8"), "{size}");
    }
}
