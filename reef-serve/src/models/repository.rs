//! Which models there are, and from what they are made.
//!
//! ```text
//! REPOSITORY/
//!     NAME.onnx            a network and its weights: version 1 of NAME
//!     NAME.safetensors     weights of the built-in network NAME, likewise
//!     NAME/                a network's folder (model.json and model.param, or model.onnx), likewise
//!     NAME/                a folder as REEF publishes it (NAME.json, NAME.cu, NAME.param), if kernels are trusted
//!     NAME/
//!         model.toml       optional: what Description has
//!         config.pbtxt     optional: the same in Triton's form, read if there is no model.toml
//!         1/               a version, which holds what ModelSource finds
//!         2/ ...
//! ```
//!
//! If the configuration says so, the networks that can be built by name stand beside them, with
//! weights made up from a seed; an entry of the same name goes first, also one that can't be read.

use crate::error::{Error, Result};
use crate::models::config::load::Replacement;
use crate::models::config::model_config::ModelConfig;
use crate::models::description::Description;
use crate::models::model_spec::ModelSpec;
use crate::models::source::MODEL;
use crate::name::{self, ModelName};
use crate::suggest::did_you_mean;
use reef::models::{self, unread};
use std::path::{Path, PathBuf};

/// What says more about a model.
const DESCRIPTION: &str = "model.toml";

/// The same in Triton's form.
const CONFIG: &str = "config.pbtxt";

/// Files that are models by themselves.
const FILES: [&str; 2] = ["onnx", "safetensors"];

/// A name, and the versions of it that there are, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) name: ModelName,
    pub(crate) versions: Vec<u32>,
}

/// The models that can be loaded.
#[derive(Debug, Clone)]
pub(crate) struct Repository {
    folder: Option<PathBuf>,
    builtin: bool,
    /// Whether kernels that lie there as source are trusted.
    kernels: bool,
}

/// Where a model lies.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    /// A folder with one for each version.
    Versions(PathBuf),
    /// A file, or a network's folder: the only version.
    Whole(PathBuf),
}

impl Repository {
    /// The models of `folder`, and those that can be built by name if `builtin`.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such folder.
    pub(crate) fn open(folder: Option<&Path>, builtin: bool) -> Result<Self> {
        let canonical = |folder: &Path| {
            let wrong = |e| Error::Invalid(format!("models.repository {}: {e}", folder.display()));
            folder.canonicalize().map_err(wrong)
        };
        Ok(Self { folder: folder.map(canonical).transpose()?, builtin, kernels: false })
    }

    /// The same, with folders whose kernels come as source, if they are `trusted`.
    #[must_use]
    pub(crate) fn with_kernels(self, trusted: bool) -> Self {
        Self { kernels: trusted, ..self }
    }

    /// Models of the folder by name; what is no model is left out.
    ///
    /// # Errors
    ///
    /// `Failed` if the folder can't be read.
    pub(crate) fn list(&self) -> Result<Vec<Listed>> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let entries = std::fs::read_dir(folder).map_err(|e| Error::system("repository", e))?;
        let mut names: Vec<_> = entries.flatten().filter_map(|e| called(&e.path())).collect();
        names.sort();
        names.dedup();
        let listed = |name: ModelName| {
            let versions = self.entry(&name)?.versions().ok()?;
            Some(Listed { name, versions })
        };
        Ok(names.into_iter().filter_map(listed).collect())
    }

    /// Networks that can be built by name and that no entry hides.
    pub(crate) fn builtin(&self) -> Vec<ModelName> {
        let names = by_name().filter(|_| self.builtin);
        let names = names.map(|name| ModelName::new(name).expect("a plain word"));
        let hidden = |name: &ModelName| self.entry(name).is_some() || self.unusable(name).is_some();
        names.filter(|name| !hidden(name)).collect()
    }

    /// What to make of `name`: the version asked for, or else those that its description chooses.
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
        let wanted = match version {
            Some(version) => vec![version],
            None => description.choose(&have),
        };
        if let Some(missing) = wanted.iter().find(|version| !have.contains(version)) {
            return Err(Error::NotFound(format!("model {name} has no version {missing}")));
        }
        if wanted.is_empty() {
            return Err(Error::NotFound(format!(
                "model {name} has no version: no numbered folder"
            )));
        }
        let spec = |v| {
            let mut spec = ModelSpec::new(&description, name, v, &entry.place(v))?;
            spec.upload = given.upload.clone();
            self.trusted(spec)
        };
        wanted.into_iter().map(spec).collect()
    }

    /// Refuses native code that nobody answers for.
    fn trusted(&self, spec: ModelSpec) -> Result<ModelSpec> {
        if !spec.brings_kernels() || (self.kernels && spec.upload.is_none()) {
            return Ok(spec);
        }
        let why = "it brings kernels as source, which is native code: models.kernels = true trusts those of the repository";
        Err(Error::Invalid(format!("model {}/{}: {why}", spec.name, spec.version)))
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
                let description = described(name, Description::default(), given.config.as_ref())?;
                return Ok(vec![ModelSpec::builtin(name, &description)]);
            }
            return Err(Error::NotFound(format!("model {name} has only version 1")));
        }
        let why = match is_network {
            true => " (models.builtin = true makes up weights for a network of this name)".into(),
            false => {
                let listed = self.list().unwrap_or_default().into_iter().map(|listed| listed.name);
                did_you_mean(name, listed.chain(self.builtin()))
            }
        };
        Err(Error::NotFound(format!("no model {name} in the repository{why}")))
    }

    /// What is wrong with what lies there under this name, if it is no model.
    fn unusable(&self, name: &ModelName) -> Option<Error> {
        let folder = self.folder.as_ref()?;
        let of = |error: String| Error::Invalid(format!("model {name}: {error}"));
        let places = self.files().into_iter().filter(|path| called(path).as_ref() == Some(name));
        for place in places {
            if let Some(error) = unread(&place) {
                return Some(of(error.to_string()));
            }
            let (shown, folder) = (place.display(), folder.display());
            match place.canonicalize() {
                Err(error) => return Some(of(format!("{shown}: {error}"))),
                Ok(at) if !at.starts_with(self.folder.as_ref()?) => {
                    let at = at.display();
                    return Some(of(format!("{shown} is a link to {at}, outside of {folder}")));
                }
                Ok(_) => {}
            }
        }
        None
    }

    /// Files of the folder of a kind that isn't read, as errors.
    pub(crate) fn unread(&self) -> Vec<reef::models::Error> {
        self.files().iter().filter_map(unread).collect()
    }

    /// All that lies in the folder, in order.
    fn files(&self) -> Vec<PathBuf> {
        let entries = self.folder.as_ref().and_then(|folder| std::fs::read_dir(folder).ok());
        let mut files: Vec<_> =
            entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
        files
    }

    /// Where the model is, if it is somewhere and lies in the repository; folders go before files.
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
    /// What lies there, if it is a model.
    fn at(place: PathBuf) -> Option<Self> {
        if place.is_file() {
            let extension = place.extension().and_then(|extension| extension.to_str());
            return extension.is_some_and(|e| FILES.contains(&e)).then_some(Self::Whole(place));
        }
        let is_file = |file: &&str| place.join(file).is_file();
        if [MODEL, "model.onnx"].iter().any(is_file) || models::is_program(&place) {
            return Some(Self::Whole(place));
        }
        let described = place.join(DESCRIPTION).is_file();
        let versioned = || numbered(&place).is_ok_and(|versions| !versions.is_empty());
        (described || versioned()).then_some(Self::Versions(place))
    }

    /// What lies beside it says, changed by what a load gave. A `config.pbtxt` is a configuration
    /// as a load gives it.
    fn description(&self, name: &ModelName, given: &Replacement) -> Result<Description> {
        let (Self::Versions(place) | Self::Whole(place)) = self;
        let (path, config) = (place.join(DESCRIPTION), place.join(CONFIG));
        let own = match (path.is_file(), config.is_file()) {
            (true, is_beside) => {
                if is_beside {
                    tracing::warn!(model = %name, "{CONFIG} is not read beside {DESCRIPTION}");
                }
                Description::read(&path)?
            }
            (false, true) => {
                let config = ModelConfig::from_file(name, &config)?;
                described(name, Description::default(), Some(&config))?
            }
            (false, false) => Description::default(),
        };
        described(name, own, given.config.as_ref())
    }

    fn versions(&self) -> Result<Vec<u32>> {
        match self {
            Self::Versions(place) => numbered(place),
            Self::Whole(_) => Ok(vec![1]),
        }
    }

    /// Where a version lies.
    fn place(&self, version: u32) -> PathBuf {
        match self {
            Self::Versions(place) => place.join(version.to_string()),
            Self::Whole(place) => place.clone(),
        }
    }
}

/// The description with what a configuration changes of it. What is not read of that is named in
/// the log.
fn described(
    name: &ModelName,
    mut description: Description,
    config: Option<&ModelConfig>,
) -> Result<Description> {
    if let Some(config) = config {
        if !config.unread.is_empty() {
            let keys = config.unread.to_string();
            tracing::warn!(model = %name, keys, "configuration: these are not read");
        }
        config.apply(&mut description).map_err(|e| e.map(|why| format!("model {name}: {why}")))?;
    }
    Ok(description)
}

/// Networks that can be built by name: of pictures, of text and of ordinary tensors.
fn by_name() -> impl Iterator<Item = &'static str> {
    [models::NAMES, models::TENSOR_NAMES].into_iter().flatten().copied()
}

/// The name of the model that lies there, if it is one.
fn called(path: &Path) -> Option<ModelName> {
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    ModelName::new(name?.to_str()?).ok()
}

fn numbered(place: &Path) -> Result<Vec<u32>> {
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
