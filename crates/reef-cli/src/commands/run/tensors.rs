//! `reef run NAME=FILE.npy`: arrays in, arrays out.

use super::args::Args;
use super::note::Note;
use super::stoppable::{Inputs, Outcome, Stoppable, say_stopped};
use crate::report::checks::check_folder;
use crate::report::output::{print, save};
use crate::report::usage::Usage;
use crate::workload::networks::WEIGHTS;
use crate::workload::preempted::{self, Timed, also_preempted};
use crate::workload::stopping::Stop;
use crate::workload::tensors::{InputArrays, outputs};
use anyhow::{Context, Result};
use reef::did_you_mean;
use reef::models::{Budget, Model, NAMES, Network, Port, TENSOR_NAMES, Texts, Weights, npy};
use reef::op::Operators;
use reef::tensor::{Array, Spec};
use reef_snapshot::Snapshot;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn run(args: &Args, stop: &Stop, from: Option<(Snapshot, Note)>) -> Result<()> {
    if !args.images.is_empty() {
        return Err(Usage("give images, or NAME=FILE.npy and --out, not both".into()).into());
    }
    args.out.as_deref().map_or(Ok(()), check_folder)?;
    let (mut given, texts) = read_all(args)?;
    let model = model(args, &given)?;
    encode(&model, &mut given, &texts)?;
    let (outputs, time, preemptions) = if stop.folder.is_some() || from.is_some() {
        let inputs = Inputs::Arrays(&given);
        let run = Stoppable { args, model: &model, inputs, stop, from };
        match reef::with_device(&args.device, run)?? {
            Outcome::Stopped(written, seen) => return say_stopped(args, stop, written, seen),
            Outcome::Images(_) => unreachable!("arrays went in"),
            Outcome::Arrays(outputs, time) => (outputs, time, None),
        }
    } else {
        let tensors = Tensors { model: &model, given: &given, preempt: args.preempt };
        reef::with_device(&args.device, tensors)??
    };
    let ports = model.outputs();
    let made = |((_, port), array): ((usize, &Port), &Array)| {
        (port.name.clone(), port.spec_of(array.len()), port.texts.clone())
    };
    let ports: Vec<_> = ports.iter().zip(&outputs).map(made).collect();
    report(args, &ports, &outputs, (time, preemptions))
}

/// The network, made for what was given.
fn model(args: &Args, given: &InputArrays) -> Result<Model> {
    if TENSOR_NAMES.contains(&args.model.as_str()) {
        return built(args, given);
    }
    let has = |file: &str| Path::new(&args.model).join(file).is_file();
    if NAMES.contains(&args.model.as_str()) || has("model.json") && !has("model.onnx") {
        let why = if given.is_empty() {
            "needs images (JPEG or PNG), and no --out"
        } else {
            "takes images (JPEG or PNG), no arrays"
        };
        return Err(Usage(format!("{} {why}", args.model)).into());
    }
    let model = Model::open(&args.model).tensors_only().shapes(args.shape.iter().cloned());
    let model = model.loop_bound(args.loop_bound);
    Ok(model.values(given).budget(&args.budget()).read()?)
}

/// A built network, for as many texts and tokens, or images, as were given: the first and the
/// last size of an input.
fn built(args: &Args, given: &InputArrays) -> Result<Model> {
    let (size, batch) = match given.values().next().map(|(dims, _)| dims.as_slice()) {
        Some(&[batch, .., size]) => (Some(size), Some(batch)),
        _ => (args.size, None),
    };
    if let (Some(asked), Some(size)) = (args.size.filter(|asked| Some(*asked) != size), size) {
        return Err(Usage(format!("--size: the arrays have size {size}, got {asked}")).into());
    }
    let mut model = Model::open(&args.model).input_size(size).batch(batch).seed(WEIGHTS.0);
    model = model.shapes(args.shape.iter().cloned()).loop_bound(args.loop_bound);
    model = model.budget(&args.budget());
    if let Some(file) = &args.weights {
        model = model.weights(file);
    }
    let model = model.read()?;
    let inputs = model.inputs();
    let is_input = |name: &String| inputs.iter().any(|(_, port)| port.name == *name);
    match given.keys().find(|name| !is_input(name)) {
        Some(name) => Err(no_input(name, inputs.iter().map(|(_, port)| port.name.as_str())).into()),
        None => Ok(model),
    }
}

/// Message for a name that none of the inputs has.
pub(super) fn no_input<'a>(name: &str, have: impl Iterator<Item = &'a str>) -> Usage {
    let have: Vec<_> = have.collect();
    let (all, meant) = (have.join(", "), did_you_mean(name, have));
    Usage(format!("input {name}: there is no such input (have: {all}){meant}"))
}

/// Texts by the names of inputs.
type InputTexts = BTreeMap<String, Vec<String>>;

/// Values of an input.
enum InputValues {
    Numbers(Array),
    Texts(Vec<String>),
}

/// Arrays given on the command line. Inputs of texts have zeros, until their places are known.
fn read_all(args: &Args) -> Result<(InputArrays, InputTexts)> {
    let (mut given, mut texts) = (InputArrays::new(), InputTexts::new());
    for text in &args.input {
        let (name, dims, values) = read(text)?;
        if given.contains_key(&name) {
            return Err(Usage(format!("input {name}: given twice")).into());
        }
        let array = match values {
            InputValues::Numbers(array) => array,
            InputValues::Texts(list) => {
                let zeros = Array::I64(vec![0; list.len()]);
                texts.insert(name.clone(), list);
                zeros
            }
        };
        given.insert(name, (dims, array));
    }
    Ok((given, texts))
}

/// As [`read_all`], of numbers alone.
pub(super) fn read_inputs(args: &Args) -> Result<InputArrays> {
    let (given, texts) = read_all(args)?;
    texts.keys().next().map_or(Ok(given), |name| Err(not_numbers(name).into()))
}

fn not_numbers(name: &str) -> Usage {
    Usage(format!("input {name}: must be of numbers, got texts"))
}

/// Puts the places of texts into arrays.
fn encode(model: &Model, given: &mut InputArrays, texts: &InputTexts) -> Result<()> {
    let inputs = model.inputs();
    for (name, texts) in texts {
        let port = inputs.iter().find(|(_, port)| port.name == *name);
        let list = port.and_then(|(_, port)| port.texts.as_ref());
        let list = list.ok_or_else(|| not_numbers(name))?;
        if let Some((_, array)) = given.get_mut(name) {
            *array = Array::I64(texts.iter().map(|text| list.place(text)).collect());
        }
    }
    let is_text =
        |name: &str| inputs.iter().any(|(_, port)| port.name == name && port.texts.is_some());
    match given.keys().find(|name| is_text(name) && !texts.contains_key(*name)) {
        Some(name) => Err(Usage(format!("input {name}: must be of texts, got numbers")).into()),
        None => Ok(()),
    }
}

/// Reads the file of `NAME=FILE.npy`.
fn read(text: &str) -> Result<(String, Vec<usize>, InputValues)> {
    let (name, file) = text
        .split_once('=')
        .ok_or_else(|| Usage(format!("input must be NAME=FILE.npy, got {text:?}")))?;
    let bytes = reef_files::read(file, reef_files::MAX_INPUT_BYTES)
        .map_err(|why| Usage(format!("input {name}: {file}: {why}")))?;
    if let Some((dims, texts)) = npy::texts_from_bytes(&bytes, file, &Budget::default())? {
        return Ok((name.into(), dims, InputValues::Texts(texts)));
    }
    let (spec, array) = npy::from_bytes(&bytes, file, &Budget::default())?;
    Ok((name.into(), spec.dims, InputValues::Numbers(array)))
}

/// Time of an inference, and the number of other clients' preemptions that changed nothing, if any
/// were asked for.
pub(super) type Timing = (Duration, Option<u64>);

/// Name, type and sizes of an output; and its texts, if it holds places of these.
pub(super) type OutputFacts = (String, Spec, Option<Arc<Texts>>);

/// Writes each output to a file of its name, if a folder was named, and says what it is.
pub(super) fn report(
    args: &Args,
    ports: &[OutputFacts],
    outputs: &[Array],
    timing: Timing,
) -> Result<()> {
    let (time, preemptions) = timing;
    let mut said = Vec::new();
    let files = file_names(ports.iter().map(|(name, ..)| name.as_str()));
    for (((name, spec, texts), array), file) in ports.iter().zip(outputs).zip(files) {
        let file = args.out.as_ref().map(|folder| folder.join(format!("{file}.npy")));
        if let Some(file) = &file {
            let folder = file.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            save(file, file_of(spec, array, texts.as_deref(), &args.budget())?)?;
        }
        let Spec { element, dims } = spec;
        let kind = if texts.is_some() { "str" } else { element.name() };
        let place = file.as_ref().map(|file| file.display().to_string());
        said.push(json!({ "name": name, "type": kind, "shape": dims, "file": place }));
        if !args.json {
            let place = place.map(|place| format!(" in {place}")).unwrap_or_default();
            print(format_args!("{name}: {kind}{dims:?}{place}"))?;
        }
    }
    let millis = time.as_secs_f64() * 1e3;
    if args.json {
        let facts = json!({ "outputs": said, "ms": millis, "preemptions": preemptions });
        return print(serde_json::to_string_pretty(&facts)?);
    }
    print(format_args!("{millis:.2} ms"))?;
    preempted::say(preemptions)
}

/// A file of numpy with the values of an output. Each of its texts takes as much as the longest.
fn file_of(spec: &Spec, array: &Array, texts: Option<&Texts>, budget: &Budget) -> Result<Vec<u8>> {
    let Some(texts) = texts else { return Ok(npy::to_bytes(spec, array)) };
    let longest = 4 * texts.longest().max(1) as u64;
    let _charge = budget.charge(longest.saturating_mul(array.len() as u64))?;
    let places = array.values().to_i64();
    let said: Vec<_> = places.iter().map(|&at| texts.get(at).unwrap_or_default()).collect();
    Ok(npy::texts_to_bytes(&spec.dims, &said))
}

/// Names of files: letters, digits and some signs of each output's, or else its number, so that no
/// two are the same.
fn file_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let made = |name: &str| name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let made: Vec<String> = names.map(made).collect();
    let mut times = BTreeMap::<&str, usize>::new();
    made.iter().for_each(|name| *times.entry(name).or_default() += 1);
    let one = |(k, name): (usize, &String)| {
        if !name.is_empty() && !name.starts_with('.') && times[name.as_str()] == 1 {
            return name.clone();
        }
        let mut numbered = format!("output_{k}");
        while times.contains_key(numbered.as_str()) {
            numbered.push('_');
        }
        numbered
    };
    made.iter().enumerate().map(one).collect()
}

/// One inference, on whichever device was named.
struct Tensors<'a> {
    model: &'a Model,
    given: &'a InputArrays,
    preempt: bool,
}

impl reef::Visit for Tensors<'_> {
    type Output = Result<Timed>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        let weights = self.model.weights(&device)?;
        let fresh = || self.fresh(&weights);
        also_preempted(&device, self.preempt.then_some(WEIGHTS.0), fresh, outputs)
    }
}

impl Tensors<'_> {
    /// The network with what was given.
    fn fresh<D: Operators>(&self, weights: &Weights<D>) -> Result<Network<D>> {
        let network = weights.network()?;
        for (index, (_, port)) in network.inputs().iter().enumerate() {
            let missing =
                || Usage(format!("input {}=FILE.npy is missing: {}", port.name, port.spec));
            network.stage(index, &self.given.get(&port.name).ok_or_else(missing)?.1)?;
        }
        Ok(network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_output_has_a_file_of_its_own() {
        let names = |names: &[&str]| file_names(names.iter().copied());
        assert_eq!(names(&["logits", "a/b", "output_1"]), ["logits", "a_b", "output_1"]);
        assert_eq!(names(&["a/b", "c", "a:b"]), ["output_0", "c", "output_2"]);
        assert_eq!(names(&["", "..", "output_0"]), ["output_0_", "output_1", "output_0"]);
    }
}
