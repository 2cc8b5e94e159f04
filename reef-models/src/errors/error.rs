//! Errors of a file, a graph or a call. Each names the place and the value.

use super::param_problem;
use crate::graph::problem::Problem;
use crate::memory::budget::Exhausted;
use reef_core::did_you_mean;

/// Shorthand used by every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of this crate: its kind, its place and its cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system could not read or write the file.
    #[error("{file}: {why}")]
    Io {
        /// Path as given.
        file: String,
        /// The system's words.
        why: String,
    },
    /// Not JSON, cut short, or a value of the wrong type.
    #[error("{file}: {why}")]
    Json {
        /// Path or name as given.
        file: String,
        /// Place in the JSON, as `kernels[3].args[1]`, and the reader's message with line and
        /// column.
        why: String,
    },
    /// Well-formed JSON that is not a schedule graph.
    #[error("{file}: {at}: {problem}")]
    Graph {
        /// Path or name as given.
        file: String,
        /// Place in the JSON: `kernels[3].args[1]`.
        at: String,
        /// Fault at this place.
        problem: Problem,
    },
    /// A parameter file that is broken or belongs to another network.
    #[error("{file}: {problem}")]
    Param {
        /// Path or name as given.
        file: String,
        /// Fault of the file.
        problem: param_problem::Problem,
    },
    /// No ONNX file, or one that contradicts itself.
    #[error("{file}: {at}: {why}")]
    Onnx {
        /// Path or name as given.
        file: String,
        /// Place in the network: `node "conv1" (Conv)`, `input "x"`, `graph`.
        at: String,
        /// Fault at this place.
        why: String,
    },
    /// An ONNX file with something that isn't read, such as an unknown operator. Another engine may
    /// run it.
    #[error("{file}: {at}: {why}")]
    Unsupported {
        /// Path or name as given.
        file: String,
        /// Place in the network, as in [`Onnx`](Self::Onnx).
        at: String,
        /// Feature that isn't read.
        why: String,
    },
    /// A file whose reader would take more memory than it was given.
    #[error("{file}: {at}: {why}")]
    Memory {
        /// Path or name as given.
        file: String,
        /// Use of the memory.
        at: String,
        /// Bytes that were requested, and bytes that were left.
        why: Exhausted,
    },
    /// A file of a kind that isn't read.
    #[error("{file}: {why}")]
    Kind {
        /// Path as given.
        file: String,
        /// Kind of the file, and the remedy.
        why: String,
    },
    /// Kernels that come as source and are not understood, or not as their schedule calls them.
    #[error("{file}: {why}")]
    Program {
        /// Name of the file.
        file: String,
        /// Name of the kernel, and its fault.
        why: String,
    },
    /// A file of tensors that is broken.
    #[error("{file}: {why}")]
    Safetensors {
        /// Path or name as given.
        file: String,
        /// Fault of the file.
        why: String,
    },
    /// A file of numpy that is broken or of a kind that isn't read.
    #[error("{file}: {why}")]
    Npy {
        /// Path or name as given.
        file: String,
        /// Fault of the file.
        why: String,
    },
    /// A file that is not an image we can read.
    #[error("{file}: {why}")]
    Image {
        /// Path as given.
        file: String,
        /// The decoder's words, or the system's.
        why: String,
    },
    /// Scales of numbers of 8 bits that are broken, or don't fit a network or a device.
    #[error("{file}: {why}")]
    Scales {
        /// Path as given, or the network's name.
        file: String,
        /// Field and value, and the remedy.
        why: String,
    },
    /// A network that looks at something else than squares of three colours.
    #[error("{network} looks at {shape:?}, no square image")]
    NoImage {
        /// As it was named.
        network: String,
        /// Channels, rows and columns of its input.
        shape: [usize; 3],
    },
    /// A network of tensors in place of one for images.
    #[error("{network} takes tensors ({inputs}), no image")]
    NotImage {
        /// Its name.
        network: String,
        /// Names, types and sizes of its inputs.
        inputs: String,
    },
    /// No network of this name can be built.
    #[error("no network \"{asked}\" (have: {have}){}", did_you_mean(asked, have.split(", ")))]
    UnknownNetwork {
        /// The name asked for.
        asked: String,
        /// The names there are, joined by commas.
        have: String,
    },
    /// An image too small to reach the network's end, or a batch or image out of all reason.
    #[error("{network}: {what} {asked}, possible are {least} to {most}")]
    OutOfRange {
        /// Name of the network.
        network: String,
        /// `input size` or `batch`.
        what: &'static str,
        /// Number that was requested.
        asked: usize,
        /// The least that works.
        least: usize,
        /// The most that works.
        most: usize,
    },
    /// A source of weights has no tensor of this name.
    #[error("no tensor \"{name}\"")]
    MissingTensor {
        /// torchvision's name of it.
        name: String,
    },
    /// A slice of the wrong length.
    #[error("{what}: must have {want} values, got {given}")]
    Length {
        /// Name of the tensor.
        what: String,
        /// Values given.
        given: usize,
        /// Values wanted.
        want: usize,
    },
    /// Tensors that don't fit a network.
    #[error("{why}")]
    Tensor {
        /// Name of the tensor, the values that were given, and those that it must have.
        why: String,
    },
    /// The device has no kernel for what a node needs.
    #[error("node {node:?}: {why}")]
    Refused {
        /// The node.
        node: String,
        /// The device's words.
        why: reef_core::Error,
    },
    /// Shapes depend on the values of an input, which have to be given when the network is loaded.
    #[error(
        "{file}: {at}: the values of input {inputs:?} decide about shapes: give them when the file is \
         read (`reef run` takes NAME=FILE.npy), or run it by another engine"
    )]
    Unbound {
        /// Path or name as given.
        file: String,
        /// Node whose shapes depend on the inputs.
        at: String,
        /// The inputs.
        inputs: Vec<String>,
    },
    /// A loop that data end did not end within its bound, in an inference whose outputs are without
    /// meaning.
    #[error(
        "{at}: data have not ended the loop by then: read the file with a higher bound of its loops \
         (`loop_bound`)"
    )]
    Unended {
        /// Name of the loop, and the bound.
        at: String,
    },
    /// The device refused.
    #[error(transparent)]
    Device(#[from] reef_core::Error),
}

impl Error {
    /// True if the file is sound as far as it was read, and has something that isn't read or that
    /// the device has no kernel for: another engine may run it.
    pub fn is_unsupported(&self) -> bool {
        match self {
            Self::Unsupported { .. } | Self::Unbound { .. } => true,
            Self::Refused { why, .. } => matches!(why, reef_core::Error::Unsupported { .. }),
            _ => false,
        }
    }
}
