//! Inputs and outputs that a file declares, before a network is made of it.

use super::fault::Fault;
use super::file::{Dimension, ModelFile, ValueFile};
use super::general::stored::element;
use crate::errors::error::Result;
use crate::files::whole;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use reef_core::tensor::Element;
use std::collections::HashSet;
use std::path::Path;

/// One size of a tensor as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeclaredSize {
    /// It is always this one.
    Fixed(usize),
    /// Left open; sizes of the same name are the same. Without a name it is by itself.
    Open(String),
}

/// An input or an output as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredPort {
    /// Its name.
    pub name: String,
    /// Its type, if it is one that is read.
    pub element: Option<Element>,
    /// Its sizes; `None` if the file says nothing about them.
    pub sizes: Option<Vec<DeclaredSize>>,
}

/// Inputs and outputs of a file, in its order; inputs that it has values for are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Declared {
    /// Tensors that go in.
    pub inputs: Vec<DeclaredPort>,
    /// Tensors that come out.
    pub outputs: Vec<DeclaredPort>,
}

/// Reads what a file says about its inputs and outputs, with memory of `budget`.
///
/// # Errors
///
/// `Io` if the file can't be read, `Onnx` if it is none, `Memory`.
pub fn declared(path: impl AsRef<Path>, budget: &Budget) -> Result<Declared> {
    let (path, ledger) = (path.as_ref(), Ledger::new(budget));
    let bytes = whole::read(path, &ledger)?;
    let model = ModelFile::read(&bytes, &ledger).map_err(Fault::from);
    let model = model.map_err(|fault| fault.of(path.display().to_string(), &ledger))?;
    let Some(graph) = &model.graph else { return Ok(Declared::default()) };
    let stored: HashSet<&str> = graph.initializers.iter().map(|tensor| tensor.name).collect();
    let inputs = graph.inputs.iter().filter(|input| !stored.contains(input.name));
    Ok(Declared {
        inputs: inputs.map(port).collect(),
        outputs: graph.outputs.iter().map(port).collect(),
    })
}

fn port(value: &ValueFile<'_>) -> DeclaredPort {
    let size = |dimension: &Dimension<'_>| match dimension {
        Dimension::Open(name) => DeclaredSize::Open((*name).to_owned()),
        Dimension::Fixed(size) => {
            let fixed = usize::try_from(*size).map(DeclaredSize::Fixed);
            // Negative, but for the -1 that is read as open.
            fixed.unwrap_or(DeclaredSize::Open(String::new()))
        }
    };
    DeclaredPort {
        name: value.name.to_owned(),
        element: element(value.element).ok(),
        sizes: value.dims.as_ref().map(|dims| dims.iter().map(size).collect()),
    }
}

/// Names and types of the inputs of a file, in its order, those that it has values for left out.
/// The type is `None` if it is none that is read.
///
/// # Errors
///
/// Errors of [`declared`].
pub fn input_names(
    path: impl AsRef<Path>,
    budget: &Budget,
) -> Result<Vec<(String, Option<Element>)>> {
    let inputs = declared(path, budget)?.inputs;
    Ok(inputs.into_iter().map(|input| (input.name, input.element)).collect())
}
