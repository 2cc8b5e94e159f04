//! A file that is read once, as a network of either kind.

use super::load::tensors_of;
use super::options::TensorOptions;
use crate::errors::error::{Error, Result};
use crate::files::whole;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::model::picture_model::Model;
use crate::onnx::fault::Fault;
use crate::onnx::file::{Dimension, ModelFile};
use crate::onnx::load::{Imported, of_pictures, stem};
use crate::onnx::walk::Options;
use crate::tensors::model::TensorModel;
use std::path::Path;

/// A network of either kind.
pub(crate) enum Either {
    Picture(Imported),
    Tensors(TensorModel),
}

/// Reads a file as a network for pictures if `picture` is given, the file can be expressed as one,
/// and `fits` says so of that; and otherwise as one of tensors.
///
/// # Errors
///
/// `Io` if the file can't be read, `Onnx` if it is none or neither kind can express it, `Unbound`
/// if values of inputs have to be given, `Memory` if it takes more than `budget` has.
pub(crate) fn load_either_within(
    path: &Path,
    picture: Option<&Options>,
    fits: impl FnOnce(&Model) -> bool,
    tensors: &TensorOptions,
    budget: &Budget,
) -> Result<Either> {
    let ledger = Ledger::new(budget);
    let bytes = whole::read(path, &ledger)?;
    let (name, folder, shown) = (stem(path), path.parent(), path.display().to_string());
    let of_file = |fault: Fault| fault.of(shown.clone(), &ledger);
    let file = ModelFile::read(&bytes, &ledger).map_err(Fault::from).map_err(of_file)?;
    let picture = picture.filter(|_| !ends_in_pictures(&file));
    let made = picture.map(|options| of_pictures(&file, &name, folder, options, &ledger));
    match made.transpose().map_err(of_file) {
        Ok(Some(made)) if fits(&made.model) => return Ok(Either::Picture(made)),
        Ok(_) | Err(Error::Onnx { .. }) => {}
        Err(other) => return Err(other),
    }
    tensors_of(&file, (&name, &shown), folder, tensors, &ledger).map(Either::Tensors)
}

/// Whether an output has several rows or columns, as the file declares it: no network for pictures
/// has.
fn ends_in_pictures(file: &ModelFile<'_>) -> bool {
    let outputs = file.graph.iter().flat_map(|graph| &graph.outputs);
    let several = |dims: &[Dimension<'_>]| match dims {
        [_, _, sides @ ..] => sides.iter().any(|side| matches!(side, Dimension::Fixed(2..))),
        _ => false,
    };
    outputs.filter_map(|output| output.dims.as_deref()).any(several)
}
