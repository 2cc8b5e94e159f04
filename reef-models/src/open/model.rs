//! The network that callers hold, whichever kernels it runs on.

use super::kind::ModelKind;
use super::weights::Weights;
use crate::errors::error::{Error, Result};
use crate::files::folder::Folder;
use crate::files::profile::Latencies;
use crate::graph::schedule::ScheduleGraph;
use crate::model::image_model::ImageModel;
use crate::model::ports::Ports;
use crate::model::seeded::Seeded;
use crate::model::tensors::Tensors;
#[cfg(feature = "onnx")]
use crate::onnx::{evaluate::execute::execute_with, images::Options};
use crate::program::model::ProgramModel;
use crate::quantize::plan::plan_for;
use crate::quantize::scales::Scales;
use crate::run::network::Network;
use crate::run::reference;
use crate::tensors::model::TensorModel;
use reef_op::Operators;
use reef_op::program::{Program, ProgramText};
use std::path::Path;
#[cfg(feature = "onnx")]
use std::path::PathBuf;
use std::sync::Arc;

/// A network with its constants, before it is on a device.
///
/// It is opened by a name, a folder, an ONNX file or a file of weights:
///
/// ```
/// use reef_models::{Model, Seeded};
///
/// let model = Model::open("resnet18").input_size(32).batch(2).read()?;
/// assert_eq!(model.inputs().get(0).unwrap().1.spec.dims, [2, 3, 32, 32]);
/// let images = Seeded(1).input(model.input_len());
/// let logits = model.expected(&images)?; // by plain loops on the host
/// assert_eq!(logits.len(), 2 * 1000);
/// # Ok::<(), reef_models::Error>(())
/// ```
///
/// On a device it becomes [`Weights`], which instances share, or a [`Network`] at once:
///
/// ```
/// use reef_op::Operators;
/// use reef_models::{Model, Network, Result};
///
/// fn load<D: Operators>(device: &D) -> Result<Network<D>> {
///     Model::open("resnet50.onnx").batch(4).memory_limit(4 << 30).load(device)
/// }
/// ```
///
/// Reading decides which kernels it runs on, and the device has them: fused operations for images
/// where all of the network can be expressed so, operations on tensors otherwise, or kernels that
/// the folder brings ([`kernels`](Self::kernels)).
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    kind: ModelKind,
    latencies: Option<Latencies>,
    scales: Option<Arc<Scales>>,
    /// The ONNX file that it was read from, to be executed as it stands.
    #[cfg(feature = "onnx")]
    origin: Option<Origin>,
}

/// An ONNX file, and what it was read with.
#[cfg(feature = "onnx")]
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Origin {
    pub(super) file: PathBuf,
    pub(super) options: Options,
}

impl Model {
    pub(super) fn of(kind: ModelKind) -> Self {
        Self {
            kind,
            latencies: None,
            scales: None,
            #[cfg(feature = "onnx")]
            origin: None,
        }
    }

    #[cfg(feature = "onnx")]
    pub(super) fn of_file(kind: ModelKind, origin: Option<Origin>) -> Self {
        Self { origin, ..Self::of(kind) }
    }

    /// A network for images with its tensors.
    #[doc(hidden)]
    pub fn of_image(model: ImageModel, tensors: Tensors) -> Self {
        Self::of(ModelKind::Image(Arc::new(model), tensors))
    }

    /// A network of ordinary tensors.
    #[doc(hidden)]
    pub fn of_tensors(model: TensorModel) -> Self {
        Self::of(ModelKind::Tensors(model))
    }

    /// A network that brings its kernels; weights that no file has are made up of `seed`.
    #[doc(hidden)]
    pub fn of_program(model: ProgramModel, seed: Seeded) -> Self {
        Self::of(ModelKind::Program(Arc::new(model), seed))
    }

    pub(super) fn kind(&self) -> &ModelKind {
        &self.kind
    }

    /// Name of the network.
    pub fn name(&self) -> &str {
        match &self.kind {
            ModelKind::Image(model, _) => &model.graph().name,
            ModelKind::Tensors(model) => &model.name,
            ModelKind::Program(model, _) => &model.graph().name,
        }
    }

    /// Tensors that go in.
    pub fn inputs(&self) -> Ports {
        match &self.kind {
            ModelKind::Image(model, _) => Ports::new([model.input_port()]),
            ModelKind::Tensors(model) => Ports::new(model.inputs.iter().cloned()),
            ModelKind::Program(model, _) => model.input_ports(),
        }
    }

    /// Tensors that come out.
    pub fn outputs(&self) -> Ports {
        match &self.kind {
            ModelKind::Image(model, _) => Ports::new([model.output_port()]),
            ModelKind::Tensors(model) => Ports::new(model.outputs.iter().cloned()),
            ModelKind::Program(model, _) => model.output_ports(),
        }
    }

    /// Values of all inputs.
    pub fn input_len(&self) -> usize {
        self.inputs().iter().map(|(_, port)| port.spec.elements()).sum()
    }

    /// Storages and steps in launch order; `None` for a network of ordinary tensors, whose steps
    /// the device chooses.
    pub fn graph(&self) -> Option<&ScheduleGraph> {
        match &self.kind {
            ModelKind::Image(model, _) => Some(model.graph()),
            ModelKind::Program(model, _) => Some(model.graph()),
            ModelKind::Tensors(_) => None,
        }
    }

    /// Times of launches, if the folder has some or [`with_latencies`](Self::with_latencies) did.
    pub fn latencies(&self) -> Option<&Latencies> {
        self.latencies.as_ref()
    }

    /// Returns the network with times of its launches.
    #[must_use]
    pub fn with_latencies(self, latencies: Option<Latencies>) -> Self {
        Self { latencies, ..self }
    }

    /// Scales of its numbers of 8 bits, if it has some.
    pub fn scales(&self) -> Option<&Scales> {
        self.scales.as_deref()
    }

    /// Returns the network with numbers of 8 bits between its steps, on devices with kernels that
    /// take them: convolutions and pools. Its input and its output are floats as before.
    ///
    /// On a device without such kernels [`weights`](Self::weights) is an error.
    ///
    /// # Errors
    ///
    /// `NotImage` or `Kind` for a network that isn't one for images, `Scales` if they are of
    /// another network.
    pub fn with_scales(self, scales: &Scales) -> Result<Self> {
        scales.check(self.image()?.0)?;
        Ok(Self { scales: Some(Arc::new(scales.clone())), ..self })
    }

    /// Bytes of all constants on a device, before any is brought to numbers of 8 bits.
    pub fn constant_bytes(&self) -> usize {
        self.kind.constant_bytes()
    }

    /// Bytes of the largest constant, or of all constants of a step, which come onto a device
    /// together.
    pub fn largest_constant_bytes(&self) -> usize {
        self.kind.largest_constant_bytes()
    }

    /// Bytes that each instance takes on `device` and, for inputs and outputs, on the host.
    pub fn instance_bytes<D: Operators>(&self, device: &D) -> usize {
        match (&self.kind, self.kind.activation_bytes(device, self.scales())) {
            (ModelKind::Program(model, _), _) => model.instance_bytes(),
            (_, activations) => {
                let ends = self.inputs().bytes() + self.outputs().bytes();
                activations.unwrap_or_default() + 2 * ends
            }
        }
    }

    /// Returns what the network gives for `input` by plain loops on the host.
    ///
    /// An ONNX file is executed node by node as it stands, before anything of it was rewritten, so
    /// that a fault of the reader shows too; anything else is executed step by step. All numbers
    /// are floats, whether the network has [scales](Self::scales) or not.
    ///
    /// # Errors
    ///
    /// `NotImage` for a network of tensors, `Length` if `input` is not as long as the network's
    /// input; those of both executors.
    pub fn expected(&self, input: &[f32]) -> Result<Vec<f32>> {
        let (model, tensors) = self.image()?;
        #[cfg(feature = "onnx")]
        if let Some(Origin { file, options }) = &self.origin {
            return execute_with(file, options, input);
        }
        reference::execute(model, tensors, input)
    }

    /// Brings the constants onto a device.
    ///
    /// # Errors
    ///
    /// `MissingTensor`, `Length`; `Kind` for kernels that come as source, which
    /// [`load_kernels`](Self::load_kernels) takes; `Scales` if the network has some, and no step of
    /// it can have numbers of 8 bits; `Device` with `Unsupported` if the device has no kernels for
    /// these, and the device's other errors.
    pub fn weights<D: Operators>(&self, device: &D) -> Result<Weights<D>> {
        Weights::load(device, &self.kind, self.scales())
    }

    /// As [`weights`](Self::weights), on the device of `base`, for the same network at other sizes:
    /// constants that are the same are not brought there again.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`weights`](Self::weights).
    pub fn weights_sharing<D: Operators>(&self, base: &Weights<D>) -> Result<Weights<D>> {
        Weights::load_sharing(base, &self.kind, self.scales())
    }

    /// Makes an instance on a device, with constants of its own.
    ///
    /// # Errors
    ///
    /// Errors of [`weights`](Self::weights) and of [`Weights::network`].
    pub fn load<D: Operators>(&self, device: &D) -> Result<Network<D>> {
        self.weights(device)?.network()
    }

    /// Kernels that the network brings as source, for [`Program::trusted`]; `None` if it runs on
    /// the device's own.
    pub fn kernels(&self) -> Option<ProgramText> {
        Some(self.program()?.text())
    }

    /// Compiles kernels that the caller has trusted, and brings the constants onto a device.
    ///
    /// # Errors
    ///
    /// `Program` if they are not the [kernels](Self::kernels) of this network; an error of the
    /// device, among them that it compiles nothing.
    pub fn load_kernels<D: Operators>(&self, device: &D, program: Program) -> Result<Weights<D>> {
        match &self.kind {
            ModelKind::Program(model, seed) => Weights::load_kernels(device, model, program, *seed),
            _ => {
                let why = "it brings no kernels of its own".into();
                Err(Error::Program { file: self.name().into(), why })
            }
        }
    }

    /// Writes the network to a folder, which is made if it isn't there, with its weights and the
    /// times of its launches if it has some. [Scales](Self::scales) are left out: they have a file
    /// of their own.
    ///
    /// # Errors
    ///
    /// `NotImage` for a network of tensors, which stays in its ONNX file; `Param` if the file of
    /// weights can't hold a tensor, `Io`.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<()> {
        let (model, tensors) = self.image()?;
        let folder = folder.as_ref();
        match tensors {
            Tensors::Read(params) => Folder::save(folder, model, params, self.latencies()),
            Tensors::Seeded(seed) => {
                Folder::save(folder, model, &model.params(seed)?, self.latencies())
            }
        }
    }
}

impl Model {
    /// The network for images that it is, with its tensors.
    ///
    /// # Errors
    ///
    /// `NotImage` with what it takes, for one of ordinary tensors; `Kind` for kernels as source.
    #[doc(hidden)]
    pub fn image(&self) -> Result<(&ImageModel, &Tensors)> {
        match &self.kind {
            ModelKind::Image(model, tensors) => Ok((model, tensors)),
            other => Err(other.not_image()),
        }
    }

    /// The network for images as it runs on `device`: with its [scales](Self::scales), if it has
    /// some.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`image`](Self::image); `Device` with `Unsupported` if the device has
    /// no kernels for them.
    #[doc(hidden)]
    pub fn image_on<D: Operators>(&self, device: &D) -> Result<Arc<ImageModel>> {
        match &self.kind {
            ModelKind::Image(model, _) => plan_for(device, model, self.scales()),
            other => Err(other.not_image()),
        }
    }

    /// The network of ordinary tensors that it is.
    #[doc(hidden)]
    pub fn tensors(&self) -> Option<&TensorModel> {
        match &self.kind {
            ModelKind::Tensors(model) => Some(model),
            _ => None,
        }
    }

    /// The network with kernels of its own that it is.
    #[doc(hidden)]
    pub fn program(&self) -> Option<&ProgramModel> {
        match &self.kind {
            ModelKind::Program(model, _) => Some(model),
            _ => None,
        }
    }
}
