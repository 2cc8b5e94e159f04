//! Arguments of what loads networks.

use pyo3::prelude::*;
use reef::models::onnx::{Declared, DeclaredSize};
use reef::models::{Error, Model, ModelBuilder, Scales};
use reef::tensor::{Array, Element, Truth};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// A network to load: a name or a path, or the bytes of an ONNX file; and its free sizes.
#[derive(FromPyObject)]
pub(crate) struct ModelArgs {
    what: ModelSource,
    batch: Option<usize>,
    input_size: Option<usize>,
    shape: Option<HashMap<String, Vec<usize>>>,
    weights: Option<PathBuf>,
    seed: u64,
    scales: Option<PathBuf>,
    loop_bound: Option<usize>,
}

#[derive(FromPyObject)]
enum ModelSource {
    Onnx(OnnxBytes),
    Named(PathBuf),
}

/// The bytes of an ONNX file, and the network's name.
#[derive(FromPyObject)]
struct OnnxBytes(Vec<u8>, String);

/// An input of one truth value that decides about shapes, such as one that says whether a decoder
/// has a cache. A network is prepared for each of its values, and does not have it as an input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) name: String,
    /// Sizes, all of which are 1.
    pub(crate) dims: Vec<usize>,
    /// Number among the inputs of the file.
    pub(crate) place: usize,
}

impl Switch {
    /// The input called `name`, if it is one truth value.
    pub(crate) fn of(declared: &Declared, name: &str) -> Option<Self> {
        let place = declared.inputs.iter().position(|port| port.name == name)?;
        let port = &declared.inputs[place];
        let is_one = |size: &DeclaredSize| matches!(size, DeclaredSize::Fixed(1));
        let sizes = port.sizes.as_ref().filter(|sizes| sizes.iter().all(is_one))?;
        let is_truth = port.element == Some(Element::Bool);
        is_truth.then(|| Self { name: name.to_owned(), dims: vec![1; sizes.len()], place })
    }

    /// Its name, and this value as a tensor.
    pub(crate) fn value(&self, holds: bool) -> (String, (Vec<usize>, Array)) {
        let value = Array::Bool(vec![Truth(holds.into())]);
        (self.name.clone(), (self.dims.clone(), value))
    }
}

impl ModelArgs {
    pub(crate) fn read(&self) -> reef_any::Result<Model> {
        Ok(self.opened()?.read()?)
    }

    /// Reads the network for `false` at inputs of one truth value that decide about shapes. Returns
    /// these, too, in the file's order.
    pub(crate) fn read_with_switches(&self) -> reef_any::Result<(Model, Vec<Switch>)> {
        let mut switches: Vec<Switch> = Vec::new();
        loop {
            let off: BTreeMap<_, _> = switches.iter().map(|switch| switch.value(false)).collect();
            let read = self.opened()?.values(&off).read();
            let Err(Error::Unbound { inputs, .. }) = &read else {
                switches.sort_by_key(|switch| switch.place);
                return Ok((read?, switches));
            };
            let declared = self.opened()?.declared()?;
            let found: Option<Vec<_>> =
                inputs.iter().map(|name| Switch::of(&declared, name)).collect();
            let found = found.filter(|found| !found.iter().any(|one| switches.contains(one)));
            let Some(found) = found else { return Ok((read?, switches)) };
            switches.extend(found);
        }
    }

    /// Begins to open it.
    pub(crate) fn opened(&self) -> reef_any::Result<ModelBuilder<'_>> {
        let Self { what, batch, input_size, shape, weights, seed, scales, loop_bound } = self;
        let scales = scales.as_ref().map(Scales::load).transpose()?;
        let model = match what {
            ModelSource::Onnx(OnnxBytes(bytes, name)) => Model::from_onnx(bytes, name),
            ModelSource::Named(path) => Model::open(path).seed(*seed),
        };
        let model = model.input_size(*input_size).batch(*batch).scales(scales.as_ref());
        let model = model.shapes(shape.clone().unwrap_or_default()).loop_bound(*loop_bound);
        Ok(match weights {
            Some(file) => model.weights(file),
            None => model,
        })
    }
}
