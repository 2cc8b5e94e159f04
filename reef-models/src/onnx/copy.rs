//! A file, and those that keep its weights, in a folder of their own.

use super::external::External;
use super::fault::Fault;
use super::file::ModelFile;
use crate::errors::error::{Error, Result};
use crate::files::whole;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Copies a file to `folder`, as `model.onnx`, with the files that its initializers name.
///
/// # Errors
///
/// `Io` if one of them can't be read or written, `Onnx` if it is not an ONNX file or names a file
/// outside of its folder.
pub fn copy(path: impl AsRef<Path>, folder: impl AsRef<Path>) -> Result<()> {
    let (path, to) = (path.as_ref(), folder.as_ref());
    let ledger = Ledger::new(&Budget::default());
    let bytes = whole::read(path, &ledger)?;
    let from = path.parent().unwrap_or(Path::new("."));
    let others = others(&bytes, from);
    let others = others.map_err(|fault| fault.of(path.display().to_string(), &ledger))?;
    write(&to.join("model.onnx"), |file| fs::write(file, &*bytes))?;
    others
        .iter()
        .try_for_each(|(place, real)| write(&to.join(place), |file| fs::copy(real, file).map(drop)))
}

/// Places of the files that initializers name, and where those really are.
fn others(bytes: &[u8], folder: &Path) -> Result<BTreeSet<(PathBuf, PathBuf)>, Fault> {
    let ledger = Ledger::new(&Budget::default());
    let file = ModelFile::read(bytes, &ledger)?;
    let tensors = file.graph.iter().flat_map(|graph| graph.initializers.iter());
    let named = tensors.filter(|tensor| !tensor.external.is_empty());
    let place = |tensor| {
        External::of(tensor).and_then(|external| external.place(folder)).map_err(Fault::of_graph)
    };
    named.map(place).collect()
}

fn write(path: &Path, write: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<()> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| write(path));
    made.map_err(|error| Error::Io { file: path.display().to_string(), why: error.to_string() })
}
