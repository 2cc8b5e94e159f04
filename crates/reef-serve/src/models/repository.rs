//! Repository: the known models, and the sources of their versions.
//!
//! ```text
//! REPOSITORY/
//!     NAME.onnx            a network and its weights: version 1 of NAME
//!     NAME.safetensors     weights of the built-in network NAME: version 1
//!     NAME/                a network's folder (model.json, model.param or model.onnx): version 1
//!     NAME/                REEF's files (NAME.json, .cu, .param), if kernels are trusted
//!     NAME/
//!         model.toml       optional: the keys of Description
//!         config.pbtxt     optional: the same in Triton's form, read if there is no model.toml
//!         1/               a version, with files for ModelSource
//!         2/ ...
//! ```
//!
//! Built-in networks, with weights made up from a seed, are added if the configuration allows it.
//! An entry of the same name has precedence, also one that cannot be read.

use crate::error::{Error, Result};
use crate::models::config::load::Replacement;
use crate::models::config::model_config::ModelConfig;
use crate::models::description::Description;
use crate::models::model_spec::{ModelSpec, no_folder};
use crate::models::source::MODEL;
use crate::name::{self, ModelName};
use crate::process::settings::Program;
use reef::did_you_mean;
use reef::models::{self, unread};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// File that describes a model.
const DESCRIPTION: &str = "model.toml";

/// File that describes a model in Triton's form.
const CONFIG: &str = "config.pbtxt";

/// Extensions of files that are a whole model.
const FILES: [&str; 2] = ["onnx", "safetensors"];

/// A name, and its versions, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedModel {
    pub(crate) name: ModelName,
    pub(crate) versions: Vec<u32>,
}

/// Models that can be loaded.
#[derive(Debug, Clone)]
pub(crate) struct Repository {
    folder: Option<PathBuf>,
    builtin: bool,
    /// True if kernels in it that come as source are trusted.
    kernels: bool,
    /// True if programs that it names are started.
    processes: bool,
}

/// Location of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    /// A folder with a folder for each version.
    Versions(PathBuf),
    /// A file, or a network's folder: the only version.
    Whole(PathBuf),
}

impl Repository {
    /// Opens the models of `folder`, and the built-in ones if `builtin`.
    ///
    /// # Errors
    ///
    /// `Invalid` if it does not exist or is not a folder.
    pub(crate) fn open(folder: Option<&Path>, builtin: bool) -> Result<Self> {
        let canonical = |folder: &Path| {
            let wrong = |e| Error::Invalid(format!("models.repository {}: {e}", folder.display()));
            folder.canonicalize().map_err(wrong)
        };
        let folder = folder.map(canonical).transpose()?;
        if let Some(file) = folder.as_ref().filter(|folder| !folder.is_dir()) {
            let text = format!("models.repository {}: must be a folder", file.display());
            return Err(Error::Invalid(text));
        }
        Ok(Self { folder, builtin, kernels: false, processes: false })
    }

    /// Adds folders with kernels as source, if they are `trusted`.
    #[must_use]
    pub(crate) fn with_kernels(self, trusted: bool) -> Self {
        Self { kernels: trusted, ..self }
    }

    /// Adds models that are processes, if their programs are `trusted`.
    #[must_use]
    pub(crate) fn with_processes(self, trusted: bool) -> Self {
        Self { processes: trusted, ..self }
    }

    /// Returns the models of the folder by name; other entries are left out.
    ///
    /// # Errors
    ///
    /// `Failed` if the folder cannot be read.
    pub(crate) fn list(&self) -> Result<Vec<ListedModel>> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let entries = std::fs::read_dir(folder).map_err(|e| Error::system("repository", e))?;
        let mut names: Vec<_> = entries.flatten().filter_map(|e| model_name(&e.path())).collect();
        names.sort();
        names.dedup();
        let listed = |name: ModelName| {
            let versions = self.entry(&name)?.versions().ok()?;
            Some(ListedModel { name, versions })
        };
        Ok(names.into_iter().filter_map(listed).collect())
    }

    /// Returns built-in networks that no entry hides.
    pub(crate) fn builtin(&self) -> Vec<ModelName> {
        let names = by_name().filter(|_| self.builtin);
        let names = names.map(|name| ModelName::new(name).expect("a plain word"));
        let hidden = |name: &ModelName| self.entry(name).is_some() || self.unusable(name).is_some();
        names.filter(|name| !hidden(name)).collect()
    }

    /// Returns the specifications of `name`: of the requested version, or of those that its
    /// description selects.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Invalid` with file and key if its description is wrong.
    pub(crate) fn specs(
        &self,
        name: &ModelName,
        version: Option<u32>,
        given: &Replacement,
    ) -> Result<Vec<ModelSpec>> {
        let uploaded = given.upload.as_ref().map(|upload| Entry::Versions(upload.path().into()));
        let Some(entry) = uploaded.or_else(|| self.entry(name)) else {
            return self.built(name, version, given);
        };
        let description = entry.description(name, given)?;
        let have = entry.versions()?;
        let chosen = match version {
            Some(version) => vec![version],
            None => description.choose(&have),
        };
        if let Some(missing) = chosen.iter().find(|version| !have.contains(version)) {
            return Err(Error::NotFound(format!("model {name} has no version {missing}")));
        }
        if chosen.is_empty() {
            return Err(Error::NotFound(format!("model {name}: must have a numbered folder")));
        }
        let spec = |v| {
            let mut spec = ModelSpec::new(&description, name, v, &entry.place(v))?;
            spec.upload = given.upload.clone();
            self.check_trust(spec)
        };
        chosen.into_iter().map(spec).collect()
    }

    /// Refuses native code that the operator has not trusted.
    fn check_trust(&self, spec: ModelSpec) -> Result<ModelSpec> {
        if let Some(program) = spec.named_program() {
            self.check_program(program, spec.upload.is_some()).map_err(|error| {
                error.map_text(|text| format!("model {}/{}: {text}", spec.name, spec.version))
            })?;
        }
        if !spec.brings_kernels() || (self.kernels && spec.upload.is_none()) {
            return Ok(spec);
        }
        let why = "kernels as source are native code: models.kernels = true trusts those of the repository";
        Err(Error::Invalid(format!("model {}/{}: {why}", spec.name, spec.version)))
    }

    /// Refuses a program that the operator has not trusted, or that others could have written.
    fn check_program(&self, program: &Program, is_uploaded: bool) -> Result<()> {
        if !self.processes || is_uploaded {
            let why = "engine: models.processes = true starts programs of the repository, but none that a client sends";
            return Err(Error::Denied(why.into()));
        }
        self.folder.as_ref().map_or(Ok(()), |folder| program.check_owners(folder))
    }

    fn built(
        &self,
        name: &ModelName,
        version: Option<u32>,
        given: &Replacement,
    ) -> Result<Vec<ModelSpec>> {
        if let Some(error) = self.unusable(name) {
            return Err(error);
        }
        let is_network = by_name().any(|network| network == name.as_str());
        if self.builtin && is_network {
            if version.is_none_or(|version| version == 1) {
                let description =
                    apply_config(name, Description::default(), given.config.as_ref())?;
                if let Some(file) = description.scales_file() {
                    return Err(no_folder(file).map_text(|why| format!("model {name}: {why}")));
                }
                return Ok(vec![ModelSpec::builtin(name, &description)]);
            }
            return Err(Error::NotFound(format!("model {name} has only version 1")));
        }
        let why = if is_network {
            " (--set models.builtin=true makes up weights for a network of this name)".into()
        } else if self.folder.is_none() && !self.builtin {
            " (models.repository isn't set)".into()
        } else {
            let listed = self.list().unwrap_or_default().into_iter().map(|listed| listed.name);
            let names: Vec<_> = listed.chain(self.builtin()).collect();
            did_you_mean(name.as_str(), names.iter().map(ModelName::as_str))
        };
        Err(Error::NotFound(format!("no model {name} in the repository{why}")))
    }

    /// Returns the reason for which an entry of this name is not a model.
    fn unusable(&self, name: &ModelName) -> Option<Error> {
        let folder = self.folder.as_ref()?;
        let of = |error: String| Error::Invalid(format!("model {name}: {error}"));
        let places =
            self.files().into_iter().filter(|path| model_name(path).as_ref() == Some(name));
        for place in places {
            if let Some(error) = unread(&place) {
                return Some(of(error.to_string()));
            }
            let (shown, folder) = (place.display(), folder.display());
            match place.canonicalize() {
                Err(error) => return Some(of(format!("{shown}: {error}"))),
                Ok(at) if !at.starts_with(self.folder.as_ref()?) => {
                    let at = at.display();
                    return Some(of(format!(
                        "{shown} must not be a link outside {folder}, got {at}"
                    )));
                }
                Ok(_) => {}
            }
        }
        None
    }

    /// Returns an error for each entry that is meant as a model and cannot be one: a file of an
    /// unsupported kind, a name that no model may have, a link that leads nowhere or elsewhere.
    pub(crate) fn unread(&self) -> Vec<Error> {
        self.files().iter().filter_map(|path| self.why_unread(path)).collect()
    }

    fn why_unread(&self, path: &Path) -> Option<Error> {
        if let Some(error) = unread(path) {
            return Some(Error::Invalid(error.to_string()));
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_file = extension.is_some_and(|extension| FILES.contains(&extension));
        match model_name(path) {
            Some(name) if is_file || path.is_symlink() => {
                let is_missing = self.entry(&name).is_none();
                is_missing.then(|| self.unusable(&name)).flatten()
            }
            Some(_) => None,
            None if is_file || Entry::at(path.into()).is_some() => {
                let name = stem(path)?.to_string_lossy();
                let is_hidden = name.starts_with('.');
                let error = ModelName::new(&name).err().filter(|_| !is_hidden)?;
                Some(error.map_text(|why| format!("{}: {why}", path.display())))
            }
            None => None,
        }
    }

    /// Returns all entries of the folder, in order.
    fn files(&self) -> Vec<PathBuf> {
        let entries = self.folder.as_ref().and_then(|folder| std::fs::read_dir(folder).ok());
        let mut files: Vec<_> =
            entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
        files
    }

    /// Returns the location of a model inside the repository; folders precede files.
    fn entry(&self, name: &ModelName) -> Option<Entry> {
        let folder = self.folder.as_ref()?;
        let files = FILES.iter().map(|extension| format!("{name}.{extension}"));
        let places = std::iter::once(name.to_string()).chain(files);
        let inside = |place: String| {
            let place = folder.join(place).canonicalize().ok()?;
            place.starts_with(folder).then_some(place)
        };
        places.filter_map(inside).find_map(Entry::at)
    }
}

impl Entry {
    /// Returns the model at `place`, if it is one.
    fn at(place: PathBuf) -> Option<Self> {
        if place.is_file() {
            let extension = place.extension().and_then(|extension| extension.to_str());
            return extension.is_some_and(|e| FILES.contains(&e)).then_some(Self::Whole(place));
        }
        let is_file = |file: &&str| place.join(file).is_file();
        if [MODEL, "model.onnx"].iter().any(is_file) || models::is_program(&place) {
            return Some(Self::Whole(place));
        }
        let has_description = place.join(DESCRIPTION).is_file();
        let versioned = || version_folders(&place).is_ok_and(|versions| !versions.is_empty());
        (has_description || versioned()).then_some(Self::Versions(place))
    }

    /// Reads the description stored with it, changed by the parameters of a load. A `config.pbtxt`
    /// is a configuration like that of a load.
    fn description(&self, name: &ModelName, given: &Replacement) -> Result<Description> {
        let (Self::Versions(place) | Self::Whole(place)) = self;
        let (path, config) = (place.join(DESCRIPTION), place.join(CONFIG));
        let own = match (reef_files::is_taken(&path), reef_files::is_taken(&config)) {
            (true, has_both) => {
                if has_both {
                    tracing::warn!(model = %name, "{CONFIG} is not read because there is a {DESCRIPTION}");
                }
                Description::read(&path)?
            }
            (false, true) => {
                let config = ModelConfig::from_file(name, &config)?;
                apply_config(name, Description::default(), Some(&config))?
            }
            (false, false) => Description::default(),
        };
        apply_config(name, own, given.config.as_ref())
    }

    fn versions(&self) -> Result<Vec<u32>> {
        match self {
            Self::Versions(place) => version_folders(place),
            Self::Whole(_) => Ok(vec![1]),
        }
    }

    /// Returns the location of a version.
    fn place(&self, version: u32) -> PathBuf {
        match self {
            Self::Versions(place) => place.join(version.to_string()),
            Self::Whole(place) => place.clone(),
        }
    }
}

/// Applies a configuration to a description. Keys that are not read are logged.
fn apply_config(
    name: &ModelName,
    mut description: Description,
    config: Option<&ModelConfig>,
) -> Result<Description> {
    if let Some(config) = config {
        if !config.unread.is_empty() {
            let keys = config.unread.to_string();
            tracing::warn!(model = %name, keys, "configuration: keys that are not read");
        }
        config
            .apply(&mut description)
            .map_err(|e| e.map_text(|why| format!("model {name}: {why}")))?;
    }
    Ok(description)
}

/// Names of built-in networks: of images, of text and of ordinary tensors.
fn by_name() -> impl Iterator<Item = &'static str> {
    [models::NAMES, models::TENSOR_NAMES].into_iter().flatten().copied()
}

/// Returns the model name of a path, if it is a valid one.
fn model_name(path: &Path) -> Option<ModelName> {
    ModelName::new(stem(path)?.to_str()?).ok()
}

/// Returns the name of a folder, or that of a file without its extension.
fn stem(path: &Path) -> Option<&OsStr> {
    if path.is_dir() { path.file_name() } else { path.file_stem() }
}

fn version_folders(place: &Path) -> Result<Vec<u32>> {
    let entries = std::fs::read_dir(place).map_err(|e| Error::system("repository", e))?;
    let numbers = entries.flatten().filter(|entry| entry.path().is_dir());
    let numbers = numbers.filter_map(|entry| {
        let name = entry.file_name();
        name::version(name.to_str()?).ok().flatten().filter(|n| *name == *n.to_string())
    });
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests;
