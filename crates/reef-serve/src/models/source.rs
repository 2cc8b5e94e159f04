//! Sources of a version's network and weights.

use super::declaration::{Declaration, Shapes, Values};
use super::description::{Description, EngineKind};
use crate::error::{Error, Result};
use crate::process::settings::Program;
use reef::models::{self, Budget, Model, ModelBuilder, onnx, unread};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// File that marks the folder of a network.
pub(super) const MODEL: &str = "model.json";

/// Seed of weights that a folder with kernels lacks.
const PROGRAM_SEED: u64 = 2022;

/// Values of the default network, of inputs whose values decide about shapes: the first that it can
/// have.
const USUAL_VALUES: [usize; 2] = [0, 1];

/// Extensions of a version's file; there is exactly one.
const EXTENSIONS: [&str; 3] = ["onnx", "safetensors", "param"];

/// Source of a network and its weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelSource {
    /// A built-in network with made-up weights.
    Seeded { network: String, seed: u64 },
    /// A built-in network with the weights of a `.param` or `.safetensors` file.
    Weights { network: String, file: PathBuf },
    /// A network's folder, an ONNX file, or weights whose file names their network; and the bound
    /// of its loops.
    Whole(PathBuf, Option<usize>),
    /// A folder as REEF publishes it, with kernels as source.
    Program(PathBuf),
    /// A program that answers requests itself.
    Process(Program),
}

impl ModelSource {
    /// Finds the source in `place`, a file or a folder, without reading it.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none; `Invalid` if it contradicts the description.
    pub(super) fn find(place: &Path, description: &Description) -> Result<Self> {
        if let (Some(EngineKind::Process), Some(process)) =
            (description.engine, &description.process)
        {
            return Program::new(process, place).map(Self::Process);
        }
        let network = description.network.clone();
        let is_program = network.is_none() && place.is_dir() && models::is_program(place);
        if description.loop_bound.is_some() && (network.is_some() || is_program) {
            let place = place.display();
            return Err(Error::Invalid(format!("{place}: loop_bound requires an ONNX file")));
        }
        if let (Some(network), Some(seed)) = (&network, description.seed) {
            return Ok(Self::Seeded { network: network.clone(), seed });
        }
        if is_program && description.seed.is_some() {
            let place = place.display();
            return Err(Error::Invalid(format!("{place}: a seed requires a network")));
        }
        if is_program {
            return Ok(Self::Program(place.to_path_buf()));
        }
        let file = if place.is_dir() && !place.join(MODEL).is_file() {
            only_file(place)?
        } else {
            place.to_path_buf()
        };
        let wrong = |why: &str| Err(Error::Invalid(format!("{}: {why}", file.display())));
        let is = |extension| file.extension().is_some_and(|e| e == extension);
        match network {
            Some(network) if is("param") || is("safetensors") => {
                Ok(Self::Weights { network, file })
            }
            Some(_) => wrong("the file defines its network: model.toml must not name one"),
            None if description.seed.is_some() => wrong("a seed requires a network"),
            None if is("param") => wrong("model.toml must name its network"),
            None => Ok(Self::Whole(file, description.loop_bound)),
        }
    }

    /// Reads it for these values of inputs that decide about shapes, with memory of `budget`. An
    /// ONNX file of which requests choose no shapes has those of `shapes`.
    ///
    /// # Errors
    ///
    /// The first error, with the file; `Exhausted`.
    pub(crate) fn open(
        &self,
        size: Option<usize>,
        batch: Option<usize>,
        shapes: Option<&BTreeMap<String, Vec<usize>>>,
        values: &Values,
        budget: &Budget,
    ) -> Result<Model> {
        let with =
            |model: ModelBuilder<'_>| model.input_size(size).batch(batch).budget(budget).read();
        let (read, path) = match self {
            Self::Seeded { network, seed } => {
                return Ok(with(Model::open(network).seed(*seed))?);
            }
            Self::Program(path) => (with(Model::open(path).seed(PROGRAM_SEED)), path),
            Self::Weights { network, file } => (with(Model::open(network).weights(file)), file),
            Self::Whole(path, bound) => {
                let model = Model::open(path).loop_bound(*bound).kept_values(values);
                let model = model.shapes(shapes.cloned().unwrap_or_default());
                (with(model).and_then(without_kernels), path)
            }
            Self::Process(_) => return Err(Error::Unimplemented("a process as a network".into())),
        };
        read.map_err(|error| read_error(path, error))
    }
}

impl ModelSource {
    /// Returns the declaration of its tensors with open sizes; `None` if that is only known after
    /// reading it.
    ///
    /// # Errors
    ///
    /// The first error, with the file.
    pub(crate) fn declared(
        &self,
        size: Option<usize>,
        rows: bool,
        shapes: &[BTreeMap<String, Vec<usize>>],
        budget: &Budget,
    ) -> Result<Option<Declaration>> {
        Ok(match self {
            Self::Whole(path, _) if onnx::file_of(path).is_some() => {
                let file = onnx::file_of(path).unwrap_or_default();
                let declared = onnx::declared(&file, budget).map_err(|e| read_error(path, e))?;
                Declaration::of(declared, shapes)
            }
            Self::Program(_) | Self::Process(_) => None,
            _ => self.network().and_then(|network| built(network, size, rows)),
        })
    }

    /// Finds the inputs of a file whose values decide about shapes, if requests may choose them,
    /// for these `shapes` of its inputs. Otherwise there are none, and the file is refused when it
    /// is read.
    pub(crate) fn find_values(
        &self,
        declaration: &mut Declaration,
        shapes: Option<&BTreeMap<String, Vec<usize>>>,
        size: Option<usize>,
        batch: Option<usize>,
        budget: &dyn Fn() -> Budget,
    ) {
        let Self::Whole(path, bound) = self else { return };
        if onnx::file_of(path).is_none() || !declaration.may_choose_values() {
            return;
        }
        let shapes = shapes.cloned().unwrap_or_default();
        for usual in USUAL_VALUES {
            declaration.reset_values(usual);
            loop {
                let model = Model::open(path).input_size(size).batch(batch).budget(&budget());
                let model = model.shapes(shapes.clone()).loop_bound(*bound);
                match model.kept_values(&declaration.values(None)).read() {
                    Ok(_) => return,
                    Err(models::Error::Unbound { inputs, .. })
                        if declaration.choose_values(&inputs) => {}
                    Err(_) => break,
                }
            }
            if declaration.value_inputs().is_empty() {
                break; // no values would make it a network
            }
        }
        declaration.reset_values(0);
    }

    /// True if it is an ONNX file.
    pub(crate) fn is_onnx(&self) -> bool {
        matches!(self, Self::Whole(path, _) if onnx::file_of(path).is_some())
    }

    /// True if it is a built-in network of text, whose size is its number of tokens.
    pub(crate) fn is_text(&self) -> bool {
        self.network().is_some_and(|name| models::TEXT_NAMES.contains(&name))
    }

    /// Returns the name of the built-in network, if it is one.
    fn network(&self) -> Option<&str> {
        match self {
            Self::Seeded { network, .. } | Self::Weights { network, .. } => Some(network),
            Self::Whole(path, _) => models::weights_of(path),
            Self::Program(_) | Self::Process(_) => None,
        }
    }

    /// Reads it for these shapes, with memory of `budget`.
    ///
    /// # Errors
    ///
    /// Errors of [`open`](Self::open).
    pub(crate) fn open_shaped(
        &self,
        declaration: &Declaration,
        shapes: &Shapes,
        size: Option<usize>,
        budget: &Budget,
    ) -> Result<Model> {
        if let Self::Whole(path, bound) = self
            && onnx::file_of(path).is_some()
        {
            let names = declaration.inputs.iter().map(|input| input.name.clone());
            let model = Model::open(path).shapes(names.zip(shapes.iter().cloned()));
            let model = model.loop_bound(*bound);
            let model = model.kept_values(&declaration.values(Some(shapes)));
            return model.budget(budget).read().map_err(|error| read_error(path, error));
        }
        let at = |axis: usize| shapes.first().and_then(|sizes| sizes.get(axis)).copied();
        let size = if self.is_text() { at(1) } else { size };
        self.open(size, at(0), None, &Values::new(), budget)
    }
}

/// Returns the declaration of a built-in network: texts and tokens are open, and the number of
/// images if `rows`.
fn built(network: &str, size: Option<usize>, rows: bool) -> Option<Declaration> {
    if models::TEXT_NAMES.contains(&network) {
        let tokens: &[&str] = &["batch", "tokens"];
        let inputs = [("input_ids", tokens), ("attention_mask", tokens)];
        return Some(Declaration::new(&inputs, &[("logits", &["batch", "2"])]));
    }
    if rows && models::TENSOR_NAMES.contains(&network) {
        let input: &[&str] = &["batch", "3", "224", "224"];
        return Some(Declaration::new(&[("input", input)], &[("logits", &["batch", "1000"])]));
    }
    let model = rows.then(|| Model::open(network).input_size(size).read().ok()).flatten()?;
    let [mut input, mut logits] = [model.inputs(), model.outputs()].map(|ports| {
        let sizes = ports.iter().flat_map(|(_, port)| &port.spec.dims).map(usize::to_string);
        sizes.collect::<Vec<_>>()
    });
    input[0] = "batch".into();
    logits[0] = "batch".into();
    let input: Vec<&str> = input.iter().map(String::as_str).collect();
    let logits: Vec<&str> = logits.iter().map(String::as_str).collect();
    Some(Declaration::new(&[("input", input.as_slice())], &[("logits", logits.as_slice())]))
}

/// Refuses kernels as source in a network that isn't known to bring some: they are not trusted.
fn without_kernels(model: Model) -> models::Result<Model> {
    match model.kernels() {
        None => Ok(model),
        Some(_) => {
            let why = "it brings kernels of its own".into();
            Err(models::Error::Kind { file: model.name().into(), why })
        }
    }
}

/// Adds the file to an error of a reader.
pub(super) fn read_error(path: &Path, error: models::Error) -> Error {
    match error {
        models::Error::Memory { .. } => Error::Exhausted(format!("memory budget: {error}")),
        error if error.is_unsupported() => Error::Unsupported(text_with_path(path, &error)),
        error => with_path(path, &error),
    }
}

/// Returns the error for a file of an unsupported kind in a folder.
fn unread_in(place: &Path) -> Option<Error> {
    let entries = std::fs::read_dir(place).ok()?.flatten();
    let error = entries.filter_map(|entry| unread(entry.path())).next()?;
    Some(Error::Invalid(error.to_string()))
}

/// Returns the only file of a folder that can be a model.
fn only_file(place: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(place).map_err(|e| with_path(place, &e))?;
    let usable = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        path.is_file() && extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(usable).collect();
    files.sort();
    match <[PathBuf; 1]>::try_from(files) {
        Ok([file]) => Ok(file),
        Err(files)
            if files.is_empty()
                && let Some(error) = unread_in(place) =>
        {
            Err(error)
        }
        Err(files) if files.is_empty() => {
            let text = "must hold a model.json, .onnx, .safetensors or .param file, or have a seed";
            Err(Error::NotFound(format!("{}: {text}", place.display())))
        }
        Err(files) => {
            let names = files[..2].iter().map(|file| file.file_name().unwrap_or_default());
            let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
            Err(with_path(place, &format!("must hold one network, got {}", names.join(" and "))))
        }
    }
}

/// Adds the file to an error, unless the error names it already.
fn with_path(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::Invalid(text_with_path(path, error))
}

fn text_with_path(path: &Path, error: &dyn std::fmt::Display) -> String {
    let (path, error) = (path.display().to_string(), error.to_string());
    let error = if error.starts_with(&path) { error } else { format!("{path}: {error}") };
    error.trim().replace('\n', " ")
}
