//! Arguments of what loads networks.

use pyo3::prelude::*;
use reef::models::{Model, ModelBuilder, Scales};
use std::collections::HashMap;
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
}

#[derive(FromPyObject)]
enum ModelSource {
    Onnx(OnnxBytes),
    Named(PathBuf),
}

/// The bytes of an ONNX file, and the network's name.
#[derive(FromPyObject)]
struct OnnxBytes(Vec<u8>, String);

impl ModelArgs {
    pub(crate) fn read(&self) -> reef_any::Result<Model> {
        Ok(self.opened()?.read()?)
    }

    /// Begins to open it.
    pub(crate) fn opened(&self) -> reef_any::Result<ModelBuilder<'_>> {
        let Self { what, batch, input_size, shape, weights, seed, scales } = self;
        let scales = scales.as_ref().map(Scales::load).transpose()?;
        let model = match what {
            ModelSource::Onnx(OnnxBytes(bytes, name)) => Model::from_onnx(bytes, name),
            ModelSource::Named(path) => Model::open(path).seed(*seed),
        };
        let model = model.input_size(*input_size).batch(*batch).scales(scales.as_ref());
        let model = model.shapes(shape.clone().unwrap_or_default());
        Ok(match weights {
            Some(file) => model.weights(file),
            None => model,
        })
    }
}
