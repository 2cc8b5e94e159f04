//! ONNX files for inputs of chosen sizes.

use crate::errors::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::model::picture_model::Model;
use crate::model::tensors::Tensors;
use crate::onnx::general::either::{Either, load_either_within};
use crate::onnx::general::options::TensorOptions;
use crate::onnx::load::Imported;
use crate::onnx::walk::Options;
use crate::open::{Opened, onnx_in, picture};
use crate::run::any_model::AnyModel;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Opens an ONNX file, or a folder with a `model.onnx`, for inputs of these sizes, by their names;
/// as [`open()`](crate::open()) otherwise.
///
/// # Errors
///
/// Those of the readers of ONNX files: a size that the file fixes otherwise among them; `Kind` if
/// it is no such file.
pub fn open_shaped(
    path: impl AsRef<Path>,
    shapes: &BTreeMap<String, Vec<usize>>,
    budget: &Budget,
) -> Result<Opened> {
    let path = path.as_ref();
    let why = "no ONNX file, so its sizes are its own".into();
    let file =
        onnx_in(path).ok_or_else(|| Error::Kind { file: path.display().to_string(), why })?;
    let pictures = picture_options(shapes);
    let tensors = TensorOptions { shapes: shapes.clone(), ..TensorOptions::default() };
    let fits = |model: &Model| is_of(model, shapes);
    let mut model = match load_either_within(&file, pictures.as_ref(), fits, &tensors, budget)? {
        Either::Picture(Imported { model, params }) => {
            return Ok(picture(model, Tensors::Read(params), None));
        }
        Either::Tensors(model) => model,
    };
    model.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Opened { model: AnyModel::Tensors(model), latencies: None })
}

/// The ONNX file that [`open()`](crate::open()) reads for this path, if it reads one.
pub fn onnx_file(path: impl AsRef<Path>) -> Option<PathBuf> {
    onnx_in(path.as_ref())
}

/// Options by which the only input gets these sizes in a network for pictures.
fn picture_options(shapes: &BTreeMap<String, Vec<usize>>) -> Option<Options> {
    let mut each = shapes.values();
    let (only, None) = (each.next()?, each.next()) else { return None };
    match *only.as_slice() {
        [batch, _] => Some(Options { batch: Some(batch), size: None }),
        [batch, _, rows, columns] => {
            Some(Options { batch: Some(batch), size: (rows == columns).then_some(rows) })
        }
        _ => None,
    }
}

/// Whether the input has these sizes: what is not square can't be asked for, but the file may say
/// it.
fn is_of(model: &Model, shapes: &BTreeMap<String, Vec<usize>>) -> bool {
    let have = model.input().shape();
    shapes.values().all(|sizes| sizes[..] == have[..sizes.len().min(4)])
}
