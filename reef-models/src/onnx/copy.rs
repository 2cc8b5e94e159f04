//! A file, and those that keep its weights, in a folder of their own.

use super::external::External;
use super::fault::Fault;
use super::file::{AttributeFile, GraphFile, ModelFile, NodeFile, TensorFile};
use crate::errors::error::{Error, Result};
use crate::files::whole;
use crate::memory::budget::{Budget, Charge};
use crate::memory::ledger::Ledger;
use reef_files::Created;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The network's name in its folder.
const MODEL: &str = "model.onnx";

/// Names that mean something in a model's folder: no file of weights may have them.
const TAKEN: [&str; 7] = [
    MODEL,
    "model.json",
    "model.param",
    "model.profile.json",
    "model.toml",
    "config.pbtxt",
    "profile.json",
];

/// Copies a file to `folder`, as `model.onnx`, with the files that its tensors name.
///
/// All files are new. They stay if `check` says so; after an error the folder is as it was.
///
/// # Errors
///
/// `Io` if one of them can't be read, is there already or can't be written; `Onnx` if it is not an
/// ONNX file or names a file outside of its folder, or one that a model's folder has a meaning for;
/// `Memory` if one of them, or the files of weights together, are larger than the budget; errors of
/// `check`.
pub fn copy(
    path: impl AsRef<Path>,
    folder: impl AsRef<Path>,
    budget: &Budget,
    check: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let (path, to) = (path.as_ref(), folder.as_ref());
    let ledger = Ledger::new(budget);
    let bytes = whole::read(path, &ledger)?;
    let from = path.parent().unwrap_or(Path::new("."));
    let others = others(&bytes, from, &ledger);
    let others = others.map_err(|fault| fault.of(path.display().to_string(), &ledger))?;
    let mut made = Created::default();
    write(&mut made, &to.join(MODEL), |file| file.write_all(&bytes))?;
    drop(bytes);
    let charges: Vec<_> =
        others.iter().map(|(_, real)| charge(real, &ledger)).collect::<Result<_>>()?;
    for ((place, real), (length, _)) in others.iter().zip(&charges) {
        write(&mut made, &to.join(place), |file| copy_regular(real, *length, file))?;
    }
    drop(charges); // `check` may read the copy within the same budget
    check()?;
    made.keep();
    Ok(())
}

/// Places of the files that tensors name, and where those really are.
fn others(
    bytes: &[u8],
    folder: &Path,
    ledger: &Ledger,
) -> Result<BTreeSet<(PathBuf, PathBuf)>, Fault> {
    let file = ModelFile::read(bytes, ledger)?;
    let mut tensors = Vec::new();
    file.graph.iter().for_each(|graph| of_graph(graph, &mut tensors));
    file.functions.iter().for_each(|function| {
        of_nodes(&function.nodes, &mut tensors);
        of_attributes(&function.defaults, &mut tensors);
    });
    let named = tensors.into_iter().filter(|tensor| !tensor.external.is_empty());
    let place = |tensor: &TensorFile<'_>| {
        let place = External::of(tensor).and_then(|external| external.place(folder));
        place.and_then(free).map_err(Fault::of_graph)
    };
    named.map(place).collect()
}

/// Appends the tensors of a graph, and of those within it.
fn of_graph<'f, 'a>(graph: &'f GraphFile<'a>, tensors: &mut Vec<&'f TensorFile<'a>>) {
    tensors.extend(graph.initializers.iter());
    of_nodes(&graph.nodes, tensors);
}

fn of_nodes<'f, 'a>(nodes: &'f [NodeFile<'a>], tensors: &mut Vec<&'f TensorFile<'a>>) {
    nodes.iter().for_each(|node| of_attributes(&node.attributes, tensors));
}

fn of_attributes<'f, 'a>(
    attributes: &'f [AttributeFile<'a>],
    tensors: &mut Vec<&'f TensorFile<'a>>,
) {
    for attribute in attributes {
        tensors.extend(&attribute.tensor);
        attribute.graph.iter().for_each(|graph| of_graph(graph, tensors));
    }
}

/// Refuses a place whose name means something else in a model's folder.
fn free(place: (PathBuf, PathBuf)) -> Result<(PathBuf, PathBuf), String> {
    match TAKEN.iter().find(|name| place.0.starts_with(name)) {
        Some(name) => Err(format!("external data: must not be named {name:?} in a model's folder")),
        None => Ok(place),
    }
}

/// Takes the length of a file of weights from the budget, because tensors may take all of it. A
/// file of holes would fill the disk.
fn charge(path: &Path, ledger: &Ledger) -> Result<(u64, Charge)> {
    let name = || path.display().to_string();
    let io = |error: io::Error| Error::Io { file: name(), why: error.to_string() };
    let length = reef_files::regular(path).and_then(|file| file.metadata()).map_err(io)?.len();
    let memory = |why| Error::Memory { file: name(), at: "all of it".into(), why };
    Ok((length, ledger.charge(length).map_err(memory)?))
}

/// Copies at most `length` bytes of a regular file.
fn copy_regular(from: &Path, length: u64, to: &mut File) -> io::Result<()> {
    let from = reef_files::regular(from)?;
    io::copy(&mut from.take(length), to).map(drop)
}

fn write(
    made: &mut Created,
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<()> {
    let mut new = || {
        path.parent().map_or(Ok(()), |folder| made.folder(folder))?;
        made.file(path)
    };
    let written = new().and_then(|mut file| {
        write(&mut file)?;
        file.sync_all()
    });
    written.map_err(|error| Error::Io { file: path.display().to_string(), why: error.to_string() })
}
