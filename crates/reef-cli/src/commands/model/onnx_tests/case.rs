//! One folder of test data.

use crate::report::usage::Usage;
use anyhow::Result;
use reef::models::onnx::{DeclaredPort, declared, read_texts, read_value};
use reef::models::{Budget, Error, Model, Port};
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
    let entries =
        fs::read_dir(folder).map_err(|why| Usage(format!("{}: {why}", folder.display())))?;
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
        let declared = declared(&self.file, &Budget::default())?;
        let data = self.tensors("output", &declared.outputs);
        let data = data.and_then(|wanted| Ok((wanted, self.tensors("input", &declared.inputs)?)));
        let refused = |why| self.refused(&declared.inputs).unwrap_or(why);
        let (wanted, inputs) = data.map_err(refused)?;
        let (mut given, mut texts) = (BTreeMap::new(), BTreeMap::new());
        let mut counts = BTreeMap::new();
        for (port, tensors) in declared.inputs.iter().zip(&inputs) {
            if port.is_sequence {
                counts.insert(port.name.clone(), vec![tensors.len()]);
            }
            for (k, tensor) in tensors.iter().enumerate() {
                let item = || format!("{}.{k}", port.name);
                let name = if port.is_sequence { item() } else { port.name.clone() };
                let (spec, array) = retyped(&tensor.values, port.element);
                texts.insert(name.clone(), tensor.texts.as_deref());
                given.insert(name, (spec.dims, array));
            }
        }
        let model = Model::open(&self.file).tensors_only().values(&given).shapes(counts).read()?;
        let outputs = model.outputs();
        let mut ports = outputs.iter().map(|(_, port)| port);
        let of = |tensor: Tensor| match ports.next() {
            None => tensor.values,
            Some(port) => {
                let (spec, array) = retyped(&tensor.values, Some(port.spec.element));
                (spec, placed(port, array, tensor.texts.as_deref()))
            }
        };
        let wanted = wanted.into_iter().flatten().map(of).collect();
        let why = || Error::Tensor { why: "an input without data".into() };
        let ports = model.inputs();
        let inputs = ports.iter().map(|(_, port)| {
            let array = given.get(&port.name)?.1.clone();
            Some(placed(port, array, texts.get(&port.name).copied().flatten()))
        });
        let inputs = inputs.collect::<Option<_>>().ok_or_else(why)?;
        Ok(LoadedCase { model, inputs, wanted })
    }

    /// Why the network is refused, whatever its data are: maps aren't read as data either. Its
    /// sequences have one tensor.
    fn refused(&self, inputs: &[DeclaredPort]) -> Option<Error> {
        let sequences = inputs.iter().filter(|port| port.is_sequence);
        let counts = sequences.map(|port| (port.name.clone(), vec![1]));
        let read = Model::open(&self.file).tensors_only().shapes(counts).read();
        read.err().filter(|why| matches!(why, Error::Onnx { .. } | Error::Unsupported { .. }))
    }

    /// Tensors of each port for which there is a file: one, or those of a sequence.
    fn tensors(&self, what: &str, ports: &[DeclaredPort]) -> Result<Vec<Vec<Tensor>>, Error> {
        let files = ports.iter().enumerate();
        let files = files.map(|(k, port)| (self.data.join(format!("{what}_{k}.pb")), port));
        let there = files.take_while(|(file, _)| file.is_file());
        let read = |(file, port): (PathBuf, &DeclaredPort)| -> Result<Vec<Tensor>, Error> {
            let name = file.display().to_string();
            let bytes = reef_files::read(&file, reef_files::MAX_INPUT_BYTES)
                .map_err(|why| Error::Io { file: name.clone(), why: why.to_string() })?;
            let is_plain = !port.is_sequence && !port.is_optional;
            if is_plain && let Some((dims, texts)) = read_texts(&bytes, &name)? {
                let unknown = Array::I64(vec![i64::MIN; texts.len()]);
                let spec = Spec { element: Element::I64, dims };
                return Ok(vec![Tensor { values: (spec, unknown), texts: Some(texts) }]);
            }
            let tensors = read_value(&bytes, &name, port)?.into_iter();
            Ok(tensors.map(|values| Tensor { values, texts: None }).collect())
        };
        there.map(read).collect()
    }
}

/// A tensor of the data. Of texts, its values are not places, until the network says these.
struct Tensor {
    values: (Spec, Array),
    texts: Option<Vec<String>>,
}

/// Places of the texts, if there are some and the port takes them; else the array.
fn placed(port: &Port, array: Array, texts: Option<&[String]>) -> Array {
    match (&port.texts, texts) {
        (Some(list), Some(texts)) => {
            Array::I64(texts.iter().map(|text| list.place(text)).collect())
        }
        _ => array,
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
