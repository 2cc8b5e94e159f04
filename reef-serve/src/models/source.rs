//! Where a version's network and its weights come from, and opening them.

use super::description::Description;
use crate::engine::api::ReadModel;
use crate::error::{Error, Result};
use reef::models::{self, Budget, Opened, ProgramModel, Seeded, unread};
use std::path::{Path, PathBuf};

/// The file that makes a folder a network's.
pub(super) const MODEL: &str = "model.json";

/// Files that a version is made of; there is one of them.
const EXTENSIONS: [&str; 3] = ["onnx", "safetensors", "param"];

/// Where a network and its weights come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelSource {
    /// A network that is built, with made-up weights.
    Seeded { network: String, seed: u64 },
    /// A network that is built, with weights of a `.param` or `.safetensors` file.
    Weights { network: String, file: PathBuf },
    /// A network's folder, an ONNX file, or weights whose file says whose they are.
    Whole(PathBuf),
    /// A folder as REEF publishes it, with kernels as source.
    Program(PathBuf),
}

impl ModelSource {
    /// What `place` holds, a file or a folder, as far as that can be said without reading it.
    ///
    /// # Errors
    ///
    /// `NotFound` if it holds nothing; `Invalid` if it contradicts the description.
    pub(super) fn find(place: &Path, description: &Description) -> Result<Self> {
        let network = description.network.clone();
        if let (Some(network), Some(seed)) = (&network, description.seed) {
            return Ok(Self::Seeded { network: network.clone(), seed });
        }
        if network.is_none() && place.is_dir() && models::is_program(place) {
            return Ok(Self::Program(place.to_path_buf()));
        }
        let file = match place.is_dir() && !place.join(MODEL).is_file() {
            true => only_file(place)?,
            false => place.to_path_buf(),
        };
        let wrong = |why: &str| Err(Error::Invalid(format!("{}: {why}", file.display())));
        let is = |extension| file.extension().is_some_and(|e| e == extension);
        match network {
            Some(network) if is("param") || is("safetensors") => {
                Ok(Self::Weights { network, file })
            }
            Some(_) => wrong("it says itself what it is, model.toml names a network"),
            None if description.seed.is_some() => wrong("a seed makes weights of a network"),
            None if is("param") => wrong("model.toml names no network"),
            None => Ok(Self::Whole(file)),
        }
    }

    /// Reads it, with memory of `budget`.
    ///
    /// # Errors
    ///
    /// What is wrong, with the file; `Exhausted`.
    pub(crate) fn open(
        &self,
        size: Option<usize>,
        batch: Option<usize>,
        budget: &Budget,
    ) -> Result<ReadModel> {
        let network = |opened: models::Result<Opened>| opened.map(ReadModel::Network);
        let (read, path) = match self {
            Self::Seeded { network, seed } => {
                let opened = models::open_within(network, size, batch, Seeded(*seed), budget)?;
                return Ok(ReadModel::Network(opened));
            }
            Self::Program(folder) => {
                let read = ProgramModel::load(folder, budget);
                (read.map(|model| ReadModel::Program(Box::new(model))), folder)
            }
            Self::Weights { network: name, file } => {
                (network(models::open_weights_within(name, file, size, batch, budget)), file)
            }
            Self::Whole(path) => {
                let what = path.to_str().ok_or_else(|| named(path, &"no UTF-8"))?;
                (network(models::open_within(what, size, batch, Seeded(0), budget)), path)
            }
        };
        read.map_err(|error| match error {
            models::Error::Memory { .. } => Error::Exhausted(format!("memory budget: {error}")),
            error => named(path, &error),
        })
    }
}

/// A file of a folder that is of a kind that isn't read.
fn unread_in(place: &Path) -> Option<Error> {
    let entries = std::fs::read_dir(place).ok()?.flatten();
    let error = entries.filter_map(|entry| unread(entry.path())).next()?;
    Some(Error::Invalid(error.to_string()))
}

/// The only file of a folder from which a model can be made.
fn only_file(place: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(place).map_err(|e| named(place, &e))?;
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
            let text =
                "holds no network: no model.json, .onnx, .safetensors or .param, and no seed";
            Err(Error::NotFound(format!("{}: {text}", place.display())))
        }
        Err(files) => {
            let names = files[..2].iter().map(|file| file.file_name().unwrap_or_default());
            let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
            Err(named(place, &format!("both {}", names.join(" and "))))
        }
    }
}

/// An error that names the file, unless it does already.
fn named(path: &Path, error: &dyn std::fmt::Display) -> Error {
    let (path, error) = (path.display().to_string(), error.to_string());
    let error = if error.starts_with(&path) { error } else { format!("{path}: {error}") };
    Error::Invalid(error.trim().replace('\n', " "))
}
