//! From the bytes of a file to a network of tensors.

use super::options::TensorOptions;
use super::stored::{array, element};
use super::walk::Walk;
use crate::errors::error::{Error, Result};
use crate::files::whole;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::onnx::fault::Fault;
use crate::onnx::file::{ModelFile, TensorFile};
use crate::onnx::load::stem;
use crate::onnx::protobuf::Malformed;
use crate::tensors::model::TensorModel;
use reef_core::tensor::{Array, Element, Spec};
use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;
use std::path::Path;

/// Versions of the default operator set whose files are read as networks of tensors.
pub(super) const OPSETS: RangeInclusive<i64> = 7..=24;

/// Reads a file as a network of tensors. Weights that another file keeps are read from it, if it is
/// in the same folder or below. At most [`Budget::USUAL`] bytes of memory are taken.
///
/// # Errors
///
/// `Io` if the file can't be read, `Onnx` if it is none or holds what can't be expressed, `Unbound`
/// if values of inputs have to be given, `Memory`.
pub fn load_tensors(path: impl AsRef<Path>, options: &TensorOptions) -> Result<TensorModel> {
    load_tensors_within(path, options, &Budget::default())
}

/// As [`load_tensors`], with memory of `budget`.
///
/// # Errors
///
/// As [`load_tensors`].
pub fn load_tensors_within(
    path: impl AsRef<Path>,
    options: &TensorOptions,
    budget: &Budget,
) -> Result<TensorModel> {
    let (path, ledger) = (path.as_ref(), Ledger::new(budget));
    let bytes = whole::read(path, &ledger)?;
    read(&bytes, (&stem(path), &path.display().to_string()), path.parent(), options, &ledger)
}

/// Reads a file for these values of its inputs: their shapes are those of the network, and the
/// values themselves are constants of it where shapes depend on them.
///
/// # Errors
///
/// As [`load_tensors`]; `Unbound` if a value that shapes depend on is not given.
pub fn load_for(
    path: impl AsRef<Path>,
    options: &TensorOptions,
    given: &BTreeMap<String, (Vec<usize>, Array)>,
) -> Result<TensorModel> {
    load_for_within(path, options, given, &Budget::default())
}

/// As [`load_for`], with memory of `budget`.
///
/// # Errors
///
/// As [`load_for`].
pub fn load_for_within(
    path: impl AsRef<Path>,
    options: &TensorOptions,
    given: &BTreeMap<String, (Vec<usize>, Array)>,
    budget: &Budget,
) -> Result<TensorModel> {
    let mut options = options.clone();
    for (name, (dims, _)) in given {
        options.shapes.insert(name.clone(), dims.clone());
    }
    loop {
        match load_tensors_within(&path, &options, budget) {
            Err(Error::Unbound { inputs, .. }) if options.bind(&inputs, given) => {}
            other => return other,
        }
    }
}

/// Reads the bytes of a file that has all its weights in it; `name` names the network and the file.
///
/// # Errors
///
/// As [`load_tensors`].
pub fn tensors_from_bytes(
    bytes: &[u8],
    name: &str,
    options: &TensorOptions,
    budget: &Budget,
) -> Result<TensorModel> {
    read(bytes, (name, name), None, options, &Ledger::new(budget))
}

fn read(
    bytes: &[u8],
    (name, file): (&str, &str),
    folder: Option<&Path>,
    options: &TensorOptions,
    ledger: &Ledger,
) -> Result<TensorModel> {
    let model = ModelFile::read(bytes, ledger).map_err(Fault::from);
    let model = model.map_err(|fault| fault.of(file.into(), ledger))?;
    tensors_of(&model, (name, file), folder, options, ledger)
}

/// The network of tensors that a file holds.
pub(in crate::onnx) fn tensors_of(
    model: &ModelFile<'_>,
    (name, file): (&str, &str),
    folder: Option<&Path>,
    options: &TensorOptions,
    ledger: &Ledger,
) -> Result<TensorModel> {
    let of_file = |fault: Fault| fault.of(file.into(), ledger);
    let graph = model.graph.as_ref();
    let graph = graph.ok_or_else(|| Fault::no_file("it has no graph".into()));
    let graph = graph.map_err(of_file)?;
    let opset = model.opset.unwrap_or_default();
    if !OPSETS.contains(&opset) {
        let (least, most) = OPSETS.into_inner();
        let why = format!("operator set {opset}, possible are {least} to {most}");
        return Err(of_file(Fault::of_graph(why)));
    }
    let mut walk = Walk::new(model, folder, options, ledger);
    walk.graph(graph, name).map_err(|fault| match walk.unbound.is_empty() {
        true => of_file(fault),
        false => Error::Unbound { file: file.into(), at: fault.at, inputs: walk.unbound.clone() },
    })
}

/// Names and types of the inputs of a file, in its order, those that it has values for left out.
/// The type is `None` if it is none that is read.
///
/// # Errors
///
/// `Io` if the file can't be read, `Onnx` if it is none.
pub fn input_names(path: impl AsRef<Path>) -> Result<Vec<(String, Option<Element>)>> {
    let (path, ledger) = (path.as_ref(), Ledger::new(&Budget::default()));
    let bytes = whole::read(path, &ledger)?;
    let of_file = |fault: Fault| fault.of(path.display().to_string(), &ledger);
    let model = ModelFile::read(&bytes, &ledger).map_err(Fault::from).map_err(of_file)?;
    let Some(graph) = &model.graph else { return Ok(Vec::new()) };
    let stored: HashSet<&str> = graph.initializers.iter().map(|tensor| tensor.name).collect();
    let open = graph.inputs.iter().filter(|input| !stored.contains(input.name));
    Ok(open.map(|input| (input.name.to_owned(), element(input.element).ok())).collect())
}

/// Reads a file that holds a single tensor (`TensorProto`), as ONNX's test data do.
///
/// # Errors
///
/// `Onnx` if it is none.
pub fn read_tensor(bytes: &[u8], name: &str) -> Result<(Spec, Array)> {
    let ledger = Ledger::new(&Budget::default());
    let malformed = |Malformed(why): Malformed| why;
    let read = TensorFile::read(bytes, &ledger).map_err(malformed);
    let read = read.and_then(|tensor| array(&tensor, None, &ledger));
    read.map_err(|why| Fault { at: "no tensor".into(), why }.of(name.into(), &ledger))
}
