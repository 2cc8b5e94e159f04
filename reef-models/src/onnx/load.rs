//! From the bytes of a file to a network and its weights.

use super::fault::Fault;
use super::file::{GraphFile, ModelFile};
use super::walk::{self, Options};
use crate::errors::error::Result;
use crate::files::whole;
use crate::memory::budget::{Budget, Exhausted};
use crate::memory::ledger::Ledger;
use crate::model::params::Params;
use crate::model::picture_model::Model;
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

/// Reads a file. Weights that another file keeps are read from it, if it is in the same folder or
/// below. The network is named after the file. At most [`Budget::USUAL`] bytes of memory are taken.
///
/// # Errors
///
/// `Io` if the file can't be read, `Onnx` if it is none or holds what can't be expressed, `Memory`.
pub fn load(path: impl AsRef<Path>, options: &Options) -> Result<Imported> {
    load_within(path, options, &Budget::default())
}

/// As [`load`], with memory of `budget`.
///
/// # Errors
///
/// As [`load`]; `Memory` if it would take more.
pub fn load_within(path: impl AsRef<Path>, options: &Options, budget: &Budget) -> Result<Imported> {
    let (path, ledger) = (path.as_ref(), Ledger::new(budget));
    let bytes = whole::read(path, &ledger)?;
    let made = read(&bytes, &stem(path), path.parent(), options, &ledger);
    made.map_err(|fault| fault.of(path.display().to_string(), &ledger))
}

/// What a network of this file is called.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Reads the bytes of a file that has all its weights in it; `name` names the network and the file.
///
/// # Errors
///
/// `Onnx`, `Memory`.
pub fn from_bytes(bytes: &[u8], name: &str, options: &Options) -> Result<Imported> {
    from_bytes_within(bytes, name, options, &Budget::default())
}

/// As [`from_bytes`], with memory of `budget`.
///
/// # Errors
///
/// As [`from_bytes`].
pub fn from_bytes_within(
    bytes: &[u8],
    name: &str,
    options: &Options,
    budget: &Budget,
) -> Result<Imported> {
    let ledger = Ledger::new(budget);
    let made = read(bytes, name, None, options, &ledger);
    made.map_err(|fault| fault.of(name.into(), &ledger))
}

fn read(
    bytes: &[u8],
    name: &str,
    folder: Option<&Path>,
    options: &Options,
    ledger: &Ledger,
) -> Result<Imported, Fault> {
    of_pictures(&ModelFile::read(bytes, ledger)?, name, folder, options, ledger)
}

/// The network for pictures that a file holds.
pub(super) fn of_pictures(
    file: &ModelFile<'_>,
    name: &str,
    folder: Option<&Path>,
    options: &Options,
    ledger: &Ledger,
) -> Result<Imported, Fault> {
    let (net, output) = walk::walk(graph_of(file)?, folder, options, ledger)?;
    let short = |why: Exhausted| Fault::of_graph(why.to_string());
    let (net, output) = net.fuse(output, ledger).map_err(short)?;
    let (model, params) = net.emit(name, output, ledger).map_err(short)?;
    let unsound = |(at, problem): (String, crate::graph::problem::Problem)| {
        Fault::of_graph(format!("its schedule is unsound: {at}: {problem}"))
    };
    model.check().map_err(unsound)?;
    Ok(Imported { model, params })
}

/// The graph of a file whose operators are known.
pub(super) fn graph_of<'f, 'a>(file: &'f ModelFile<'a>) -> Result<&'f GraphFile<'a>, Fault> {
    let graph = file.graph.as_ref().ok_or_else(|| Fault::no_file("it has no graph".into()))?;
    let opset = file.opset.unwrap_or_default();
    if !OPSETS.contains(&opset) {
        let (least, most) = OPSETS.into_inner();
        return Err(Fault::of_graph(format!(
            "operator set {opset}, possible are {least} to {most}"
        )));
    }
    Ok(graph)
}
