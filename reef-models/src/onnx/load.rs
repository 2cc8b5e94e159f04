//! From the bytes of a file to a network and its weights.

use super::fault::Fault;
use super::file::{GraphFile, ModelFile};
use super::protobuf;
use super::walk::{self, Options};
use crate::errors::error::{Error, Result};
use crate::model::network_model::Model;
use crate::model::params::Params;
use std::ops::RangeInclusive;
use std::path::Path;

/// Versions of the default operator set whose files are read.
pub const OPSETS: RangeInclusive<i64> = 13..=21;

/// A network with its weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// Its schedule.
    pub model: Model,
    /// All its constants, normalisations folded in.
    pub params: Params,
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
    let graph = graph_of(bytes)?;
    let (net, output) = walk::walk(&graph, folder, options)?;
    let (net, output) = net.fuse(output);
    let (model, params) = net.emit(name, output);
    let unsound = |(at, problem): (String, crate::graph::problem::Problem)| {
        Fault::of_graph(format!("its schedule is unsound: {at}: {problem}"))
    };
    model.check().map_err(unsound)?;
    Ok(Imported { model, params })
}

/// The graph of a file whose operators are known.
pub(super) fn graph_of(bytes: &[u8]) -> Result<GraphFile<'_>, Fault> {
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
    Ok(graph)
}
