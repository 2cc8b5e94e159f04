//! One folder of test data.

use anyhow::{Context, Result};
use reef::models::onnx::{input_names, read_tensor};
use reef::models::{Budget, Error, Model};
use reef::tensor::{Array, Brain, Element, Spec};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Allowed error of floats, as in ONNX's own tests.
const RELATIVE: f64 = 1e-3;
const ABSOLUTE: f64 = 1e-7;

/// A network with the data that it is tested with.
pub(crate) struct Case {
    pub(crate) name: String,
    file: PathBuf,
    data: PathBuf,
}

/// A network that was read, its inputs and its expected outputs.
pub(crate) struct LoadedCase {
    pub(crate) model: Model,
    /// Values of each input that the network still has.
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
    pub(crate) fn load(&self) -> Result<LoadedCase, Error> {
        let data = self.tensors("output").and_then(|wanted| Ok((wanted, self.tensors("input")?)));
        let (mut wanted, tensors) = data.map_err(|why| self.refused().unwrap_or(why))?;
        let names = input_names(&self.file, &Budget::default())?;
        let given = names.into_iter().zip(&tensors).map(|((name, element), tensor)| {
            let (spec, array) = retyped(tensor, element);
            (name, (spec.dims, array))
        });
        let given: BTreeMap<_, _> = given.collect();
        let model = Model::open(&self.file).tensors_only().values(&given).read()?;
        for (tensor, (_, port)) in wanted.iter_mut().zip(model.outputs().iter()) {
            *tensor = retyped(tensor, Some(port.spec.element));
        }
        let why = || Error::Tensor { why: "an input without data".into() };
        let ports = model.inputs();
        let inputs = ports.iter().map(|(_, port)| Some(given.get(&port.name)?.1.clone()));
        let inputs = inputs.collect::<Option<_>>().ok_or_else(why)?;
        Ok(LoadedCase { model, inputs, wanted })
    }

    /// Why the network is refused, whatever its data are: sequences aren't read as data either.
    fn refused(&self) -> Option<Error> {
        let read = Model::open(&self.file).tensors_only().read();
        read.err().filter(|why| matches!(why, Error::Onnx { .. } | Error::Unsupported { .. }))
    }

    fn tensors(&self, what: &str) -> Result<Vec<(Spec, Array)>, Error> {
        let file = |k: usize| self.data.join(format!("{what}_{k}.pb"));
        let there = (0..).map(file).take_while(|file| file.is_file());
        let read = |file: PathBuf| {
            let name = file.display().to_string();
            let bytes = reef_files::read(&file, reef_files::MAX_INPUT_BYTES)
                .map_err(|why| Error::Io { file: name.clone(), why: why.to_string() })?;
            read_tensor(&bytes, &name)
        };
        there.map(read).collect()
    }
}

/// A tensor as the network has it: numpy knows no bfloat16, so that data hold its bits.
fn retyped(tensor: &(Spec, Array), element: Option<Element>) -> (Spec, Array) {
    let (spec, array) = tensor;
    match (array, element) {
        (Array::U16(bits), Some(element @ Element::BF16)) => {
            let array = Array::BF16(bits.iter().map(|&bits| Brain(bits)).collect());
            (Spec { element, dims: spec.dims.clone() }, array)
        }
        _ => (spec.clone(), array.clone()),
    }
}

/// Describes the first difference of an output in a few words.
pub(crate) fn fault(index: usize, have: (&Spec, &Array), want: &(Spec, Array)) -> Option<String> {
    let (spec, wanted) = (&want.0, want.1.values().to_f64());
    if have.0 != spec {
        return Some(format!("output {index} is {}, {spec} wanted", have.0));
    }
    let values = have.1.values().to_f64();
    let allowed = allowed(spec.element);
    let off = |(have, want): (&f64, &f64)| !is_near(*have, *want, allowed);
    let wrong = values.iter().zip(&wanted).position(off)?;
    Some(format!("output {index} at {wrong}: {}, {} wanted", values[wrong], wanted[wrong]))
}

/// Halves of 8 bits round more.
fn allowed(element: Element) -> f64 {
    match element {
        Element::BF16 => 1.0 / 128.0,
        _ => RELATIVE,
    }
}

fn is_near(have: f64, want: f64, relative: f64) -> bool {
    have == want
        || (have.is_nan() && want.is_nan())
        || (have - want).abs() <= ABSOLUTE + relative * want.abs()
}
