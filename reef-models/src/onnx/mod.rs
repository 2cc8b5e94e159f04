//! Reads networks from ONNX files.
//!
//! Operators are those that convolutional networks for pictures are made of, at operator sets 13 to 21
//! (see [`OPERATORS`]). Each is taken apart into convolutions, channel-wise affine maps, pools, activations, sums,
//! products and concatenations, and these are put together again as few operations of [`reef_core::op`]:
//! normalisations go into weights, sums and ReLU into convolutions, concatenations cost nothing.
//! What can't be expressed exactly is an error that names the node: means over windows of different sizes at
//! the edge, pools whose padding differs between the sides so that it matters, outputs with more than one row
//! and column.
//!
//! | ONNX | operation |
//! |---|---|
//! | `HardSwish`, `HardSigmoid` with torch's alpha = 1/6 and beta = 0.5, `Clip` from 0 to 6 (ReLU6) | `Activate`, a step of its own |
//! | `Mul` of two tensors of one shape, or with one value for each channel of each image (a gate) | `Multiply`, a step of its own |
//! | `Clip` to other bounds | steps of ReLU: `min(x, high) = high - relu(high - x)` |
//!
//! ```no_run
//! let network = reef_models::onnx::load("resnet18.onnx", &Default::default())?;
//! let logits = reef_models::reference::execute(&network.model, &network.params, &[0.0; 3 * 224 * 224])?;
//! # Ok::<(), reef_models::Error>(())
//! ```

mod constant;
mod external;
mod file;
mod graph;
mod node;
mod operators;
mod protobuf;
mod window;

use crate::model::Model;
use crate::param::Params;
use crate::{Error, Result};
use file::ModelFile;
use std::ops::RangeInclusive;
use std::path::Path;

pub use operators::OPERATORS;

/// Versions of the default operator set whose files are read.
pub const OPSETS: RangeInclusive<i64> = 13..=21;

/// What a file may leave open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Pictures at a time; 1 if neither this nor the file says.
    pub batch: Option<usize>,
    /// Rows and columns.
    pub size: Option<usize>,
}

/// A network with its weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// Its schedule.
    pub model: Model,
    /// All its constants, normalisations folded in.
    pub params: Params,
}

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    at: String,
    why: String,
}

impl Fault {
    fn at_node(name: &str, op: &str, why: String) -> Self {
        Self { at: format!("node {name:?} ({op})"), why }
    }

    fn of_graph(why: String) -> Self {
        Self { at: "graph".into(), why }
    }
}

/// Reads a file. Weights that another file keeps are read from it, if it is in the same folder or below.
/// The network is named after the file.
///
/// # Errors
///
/// `Io` if the file can't be read, `Onnx` if it is none or holds what can't be expressed.
pub fn load(path: impl AsRef<Path>, options: &Options) -> Result<Imported> {
    let path = path.as_ref();
    let file = path.display().to_string();
    let bytes = std::fs::read(path)
        .map_err(|error| Error::Io { file: file.clone(), why: error.to_string() })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or(Path::new("."));
    read(&bytes, &name, Some(folder), options).map_err(|fault| fault.of(file))
}

/// Reads the bytes of a file that has all its weights in it; `name` names the network and the file.
///
/// # Errors
///
/// `Onnx`.
pub fn from_bytes(bytes: &[u8], name: &str, options: &Options) -> Result<Imported> {
    read(bytes, name, None, options).map_err(|fault| fault.of(name.into()))
}

fn read(
    bytes: &[u8],
    name: &str,
    folder: Option<&Path>,
    options: &Options,
) -> Result<Imported, Fault> {
    let malformed = |protobuf::Malformed(why)| Fault { at: "no ONNX file".into(), why };
    let file = ModelFile::read(bytes).map_err(malformed)?;
    let graph =
        file.graph.ok_or(Fault { at: "no ONNX file".into(), why: "it has no graph".into() })?;
    let opset = file.opset.unwrap_or_default();
    if !OPSETS.contains(&opset) {
        let (least, most) = OPSETS.into_inner();
        return Err(Fault::of_graph(format!(
            "operator set {opset}, possible are {least} to {most}"
        )));
    }
    let (net, output) = graph::Reader::read(&graph, folder, options)?;
    let (net, output) = net.fuse(output);
    let (model, params) = net.emit(name, output);
    let unsound = |(at, problem): (String, crate::Problem)| {
        Fault::of_graph(format!("its schedule is unsound: {at}: {problem}"))
    };
    model.check().map_err(unsound)?;
    Ok(Imported { model, params })
}

impl Fault {
    fn of(self, file: String) -> Error {
        Error::Onnx { file, at: self.at, why: self.why }
    }
}
