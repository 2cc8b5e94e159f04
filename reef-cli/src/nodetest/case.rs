//! One folder of test data.

use anyhow::{Context, Result};
use reef::models::onnx::{TensorOptions, load_tensors, read_tensor};
use reef::models::{Error, TensorModel};
use reef::tensor::{Array, Brain, Element, Spec};
use std::fs;
use std::path::{Path, PathBuf};

/// A network with the data that it is tested with.
pub(crate) struct Case {
    pub(crate) name: String,
    file: PathBuf,
    data: PathBuf,
}

/// A network that was read, what goes into it and what is wanted of it.
pub(crate) struct Loaded {
    pub(crate) model: TensorModel,
    /// For each input that the network still has.
    pub(crate) inputs: Vec<Array>,
    pub(crate) wanted: Vec<(Spec, Array)>,
}

/// All cases in `folder` or in the folders in it, by name.
pub(crate) fn cases(folder: &Path) -> Result<Vec<Case>> {
    if folder.join("model.onnx").is_file() {
        return Ok(vec![Case::new(folder)]);
    }
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let folders = entries.flatten().map(|entry| entry.path());
    let mut found: Vec<_> = folders
        .filter(|path| path.join("model.onnx").is_file())
        .map(|path| Case::new(&path))
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

impl Case {
    fn new(folder: &Path) -> Self {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_prefix("test_").unwrap_or(&name).to_owned();
        Self { name, file: folder.join("model.onnx"), data: folder.join("test_data_set_0") }
    }

    /// Reads the network for its data.
    pub(crate) fn load(&self) -> Result<Loaded, Error> {
        let (mut inputs, mut wanted) = (self.tensors("input")?, self.tensors("output")?);
        let (names, elements): (Vec<_>, Vec<_>) =
            reef::models::onnx::input_names(&self.file)?.into_iter().unzip();
        for (tensor, element) in inputs.iter_mut().zip(elements) {
            *tensor = retyped(tensor, element);
        }
        let mut options = TensorOptions::default();
        for (name, (spec, _)) in names.iter().zip(&inputs) {
            options.shapes.insert(name.clone(), spec.dims.clone());
        }
        let model = loop {
            match load_tensors(&self.file, &options) {
                Err(Error::Unbound { inputs: wanted, .. })
                    if bind(&mut options, &wanted, &names, &inputs) => {}
                other => break other?,
            }
        };
        let given = |port: &reef::models::Port| {
            let at = names.iter().position(|name| *name == port.name);
            at.and_then(|at| inputs.get(at)).map(|(_, array)| array.clone())
        };
        let why = || Error::Tensor { why: "an input without data".into() };
        for (tensor, port) in wanted.iter_mut().zip(&model.outputs) {
            *tensor = retyped(tensor, Some(port.spec.element));
        }
        let inputs = model.inputs.iter().map(given).collect::<Option<_>>().ok_or_else(why)?;
        Ok(Loaded { model, inputs, wanted })
    }

    fn tensors(&self, what: &str) -> Result<Vec<(Spec, Array)>, Error> {
        let file = |k: usize| self.data.join(format!("{what}_{k}.pb"));
        let there = (0..).map(file).take_while(|file| file.is_file());
        let read = |file: PathBuf| {
            let name = file.display().to_string();
            let bytes = fs::read(&file)
                .map_err(|why| Error::Io { file: name.clone(), why: why.to_string() })?;
            read_tensor(&bytes, &name)
        };
        there.map(read).collect()
    }
}

/// A tensor as the network has it: numpy knows no bfloat16, so that data hold its bits.
fn retyped((spec, array): &(Spec, Array), element: Option<Element>) -> (Spec, Array) {
    match (array, element) {
        (Array::U16(bits), Some(element @ Element::BF16)) => {
            let array = Array::BF16(bits.iter().map(|&bits| Brain(bits)).collect());
            (Spec { element, dims: spec.dims.clone() }, array)
        }
        _ => (spec.clone(), array.clone()),
    }
}

/// Gives the values of inputs beforehand; whether there was any that hadn't been given.
fn bind(
    options: &mut TensorOptions,
    wanted: &[String],
    names: &[String],
    inputs: &[(Spec, Array)],
) -> bool {
    let mut bound = false;
    for name in wanted {
        let at = names.iter().position(|other| other == name);
        if let Some((spec, array)) = at.and_then(|at| inputs.get(at)) {
            let values = (spec.dims.clone(), array.clone());
            bound |= options.values.insert(name.clone(), values).is_none();
        }
    }
    bound
}
