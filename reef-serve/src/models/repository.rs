//! Which models there are, and from what they are made.
//!
//! ```text
//! REPOSITORY/
//!     NAME.onnx            a network and its weights: version 1 of NAME
//!     NAME.safetensors     weights of the built-in network NAME, likewise
//!     NAME/                a network's folder (model.json, model.param), likewise
//!     NAME/
//!         model.toml       optional: what Description has
//!         1/               a version, which holds what ModelSource finds
//!         2/ ...
//! ```
//!
//! If the configuration says so, the networks that can be built by name stand beside them, with weights made up from a
//! seed; an entry of the same name goes first, also one that can't be read.

use crate::error::{Error, Result};
use crate::models::description::Description;
use crate::models::model_spec::ModelSpec;
use crate::models::nearest::did_you_mean;
use crate::models::source::MODEL;
use crate::name::{self, ModelName};
use reef::models::unread;
use std::path::{Path, PathBuf};

/// What says more about a model.
const DESCRIPTION: &str = "model.toml";

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
        Ok(Self { folder: folder.map(canonical).transpose()?, builtin })
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
        let names = reef::models::NAMES.iter().filter(|_| self.builtin);
        let names = names.map(|name| ModelName::new(name).expect("a plain word"));
        let hidden = |name: &ModelName| self.entry(name).is_some() || self.unusable(name).is_some();
        names.filter(|name| !hidden(name)).collect()
    }

    /// What to make of `name`: the version asked for, or else those that its description chooses.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Invalid` with file and key if its description is wrong.
    pub(crate) fn specs(&self, name: &ModelName, version: Option<u32>) -> Result<Vec<ModelSpec>> {
        let Some(entry) = self.entry(name) else { return self.built(name, version) };
        let description = entry.description()?;
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
        wanted.into_iter().map(|v| ModelSpec::new(&description, name, v, &entry.place(v))).collect()
    }

    fn built(&self, name: &ModelName, version: Option<u32>) -> Result<Vec<ModelSpec>> {
        if let Some(error) = self.unusable(name) {
            return Err(error);
        }
        let is_network = reef::models::NAMES.contains(&name.as_str());
        if self.builtin && is_network {
            if version.is_none_or(|version| version == 1) {
                return Ok(vec![ModelSpec::builtin(name)]);
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
        if place.join(MODEL).is_file() {
            return Some(Self::Whole(place));
        }
        let described = place.join(DESCRIPTION).is_file();
        let versioned = || numbered(&place).is_ok_and(|versions| !versions.is_empty());
        (described || versioned()).then_some(Self::Versions(place))
    }

    fn description(&self) -> Result<Description> {
        let (Self::Versions(place) | Self::Whole(place)) = self;
        let path = place.join(DESCRIPTION);
        if path.is_file() { Description::read(&path) } else { Ok(Description::default()) }
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
mod tests {
    use super::*;
    use crate::models::source::ModelSource;

    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let name = format!("reef-repository-{test}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str, text: &str) {
            let path = self.0.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn open(&self) -> Repository {
            Repository::open(Some(&self.0), true).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn name(text: &str) -> ModelName {
        ModelName::new(text).unwrap()
    }

    #[test]
    fn the_newest_version_is_the_one_unless_others_are_chosen() {
        let folder = Folder::new("versions");
        folder.file("a/model.toml", "network = \"resnet18\"\nsize = 64\nseed = 7\n");
        for version in ["1", "2", "10", "x", "03"] {
            folder.file(&format!("a/{version}/note"), "");
        }
        folder.file("b/model.toml", "network = \"resnet18\"\nseed = 1\nversions = [1, 2]\n");
        folder.file("b/1/note", "");
        folder.file("b/2/note", "");
        let repository = folder.open();
        let versions = |n: &str, v| -> Vec<u32> {
            repository.specs(&name(n), v).unwrap().iter().map(|r| r.version).collect()
        };
        assert_eq!(versions("a", None), [10]);
        assert_eq!(versions("a", Some(2)), [2]);
        assert_eq!(versions("b", None), [1, 2]);
        let listed = repository.list().unwrap();
        assert_eq!(listed[0], Listed { name: name("a"), versions: vec![1, 2, 10] });
        let missing = repository.specs(&name("a"), Some(3)).unwrap_err();
        assert_eq!(missing, Error::NotFound("model a has no version 3".into()));
    }

    #[test]
    fn networks_by_name_are_there_unless_a_folder_hides_them() {
        let folder = Folder::new("builtin");
        folder.file("resnet18/model.toml", "network = \"resnet50\"\nseed = 1\n");
        folder.file("resnet18/4/note", "");
        let repository = folder.open();
        assert!(!repository.builtin().contains(&name("resnet18")));
        let specs = repository.specs(&name("resnet18"), None).unwrap();
        assert_eq!(specs[0].source, ModelSource::Seeded { network: "resnet50".into(), seed: 1 });
        assert_eq!(repository.specs(&name("resnet152"), None).unwrap()[0].version, 1);
        assert!(repository.specs(&name("lenet"), None).is_err());
        let none = Repository::open(None, false).unwrap();
        assert!(none.specs(&name("resnet152"), None).is_err());
    }

    #[test]
    fn links_and_wrong_descriptions_are_refused() {
        let (folder, outside) = (Folder::new("links"), Folder::new("outside"));
        outside.file("m/model.toml", "network = \"resnet18\"\nseed = 1\n");
        std::os::unix::fs::symlink(outside.0.join("m"), folder.0.join("m")).unwrap();
        folder.file("typo/model.toml", "network = \"resnet18\"\nsede = 1\n");
        folder.file("typo/1/note", "");
        let repository = folder.open();
        let said = repository.specs(&name("m"), None).unwrap_err().to_string();
        assert!(said.starts_with("model m: ") && said.contains("/m is a link to "), "{said}");
        assert!(said.contains("outside/") || said.contains("outside-"), "{said}");
        std::os::unix::fs::symlink("nowhere", folder.0.join("n.onnx")).unwrap();
        let said = repository.specs(&name("n"), None).unwrap_err().to_string();
        assert!(said.contains("n.onnx: No such file"), "{said}");
        let said = repository.specs(&name("typo"), None).unwrap_err().to_string();
        assert!(said.contains("model.toml") && said.contains("sede"), "{said}");
        assert!(Repository::open(Some(Path::new("/nowhere")), true).is_err());
    }
    #[test]
    fn files_and_folders_of_networks_are_models() {
        let folder = Folder::new("whole");
        folder.file("a.onnx", "");
        folder.file("resnet18.safetensors", "");
        folder.file("b/model.json", "");
        folder.file("c/1/model.json", "");
        folder.file("c/2/x.onnx", "");
        folder.file("d/1/notes.txt", "");
        folder.file("notes.txt", "");
        folder.file("e/notes.txt", "");
        let repository = folder.open();
        let listed = repository.list().unwrap();
        let listed: Vec<_> = listed.iter().map(|l| (l.name.as_str(), l.versions.len())).collect();
        assert_eq!(listed, [("a", 1), ("b", 1), ("c", 2), ("d", 1), ("resnet18", 1)]);
        let place = folder.0.canonicalize().unwrap();
        let source = |n: &str, v| repository.specs(&name(n), v).map(|mut r| r.remove(0).source);
        let whole = |path: &str| Ok(ModelSource::Whole(place.join(path)));
        assert_eq!(source("a", None), whole("a.onnx"));
        assert_eq!(source("b", None), whole("b"));
        assert_eq!(source("c", Some(1)), whole("c/1"));
        assert_eq!(source("c", None), whole("c/2/x.onnx"));
        assert_eq!(source("resnet18", None), whole("resnet18.safetensors"));
        assert!(matches!(source("a", Some(2)), Err(Error::NotFound(_))));
        let said = source("d", None).unwrap_err().to_string();
        assert!(said.starts_with("model d/1: ") && said.contains("holds no network"), "{said}");
    }

    #[test]
    fn a_file_that_is_not_read_hides_a_network_of_its_name() {
        let folder = Folder::new("unread");
        folder.file("resnet50.pth", "PK");
        folder.file("old/1/model.pt", "PK");
        folder.file("mine.onnx", "");
        let say = |builtin, n: &str| {
            let repository = Repository::open(Some(&folder.0), builtin).unwrap();
            repository.specs(&name(n), None).unwrap_err().to_string()
        };
        for builtin in [true, false] {
            let said = say(builtin, "resnet50");
            assert!(said.starts_with("model resnet50: "), "{said}");
            assert!(said.contains("resnet50.pth: a file of PyTorch, "), "{said}");
        }
        assert!(say(true, "old").contains("model.pt: a file of PyTorch, "), "{}", say(true, "old"));
        let hint = "(models.builtin = true makes up weights for a network of this name)";
        let said = say(false, "resnet18");
        assert_eq!(said, format!("no model resnet18 in the repository {hint}"));
        assert_eq!(say(false, "mien"), "no model mien in the repository: did you mean mine?");
        let said = say(true, "resnet81");
        assert_eq!(said, "no model resnet81 in the repository: did you mean resnet18?");
        assert_eq!(say(true, "gpt"), "no model gpt in the repository");
        assert_eq!(folder.open().unread().len(), 1);
    }

    #[test]
    fn weights_need_a_network_and_networks_need_none() {
        let folder = Folder::new("weights");
        folder.file("a/1/weights.param", "");
        folder.file("b/model.toml", "network = \"resnet50\"\n");
        folder.file("b/1/any.safetensors", "");
        folder.file("c/model.toml", "network = \"resnet50\"\n");
        folder.file("c/1/model.onnx", "");
        folder.file("d/1/a.onnx", "");
        folder.file("d/1/b.onnx", "");
        let repository = folder.open();
        let source = |n: &str| repository.specs(&name(n), None).map(|mut r| r.remove(0).source);
        let said = |n: &str| source(n).unwrap_err().to_string();
        assert!(said("a").contains("weights.param: model.toml names no network"), "{}", said("a"));
        let place = folder.0.canonicalize().unwrap();
        let (network, file) = ("resnet50".into(), place.join("b/1/any.safetensors"));
        assert_eq!(source("b"), Ok(ModelSource::Weights { network, file }));
        assert!(said("c").contains("model.onnx: it says itself what it is"), "{}", said("c"));
        assert!(said("d").contains("both a.onnx and b.onnx"), "{}", said("d"));
    }
}
