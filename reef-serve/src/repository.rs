//! Which models there are, and from what they are made.
//!
//! ```text
//! REPOSITORY/
//!     NAME/
//!         model.toml       network = "resnet18", and what Recipe has else
//!         1/               a version
//!             weights.param
//!             profile.json     optional: latencies of its kernels, for padding
//!         2/ ...
//! ```
//!
//! Beside them stand the networks that can be built by name, with weights made up from a seed; a
//! folder of the same name goes first.

mod recipe;

pub(crate) use recipe::{Profile, Recipe, Weights};

use crate::name::ModelName;
use crate::{Error, Result};
use recipe::Description;
use std::path::{Path, PathBuf};

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

    /// Models of the folder by name; what is no model's folder is left out.
    ///
    /// # Errors
    ///
    /// `Failed` if the folder can't be read.
    pub(crate) fn list(&self) -> Result<Vec<Listed>> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let entries = std::fs::read_dir(folder).map_err(|e| Error::system("repository", e))?;
        let names = entries.flatten().filter_map(|e| ModelName::new(e.file_name().to_str()?).ok());
        let mut names: Vec<ModelName> = names.collect();
        names.sort();
        let listed = |name: ModelName| {
            let versions = versions(&self.place(&name)?).ok()?;
            Some(Listed { name, versions })
        };
        Ok(names.into_iter().filter_map(listed).collect())
    }

    /// Networks that can be built by name and that no folder hides.
    pub(crate) fn builtin(&self) -> Vec<ModelName> {
        let names = reef::models::NAMES.iter().filter(|_| self.builtin);
        let names = names.map(|name| ModelName::new(name).expect("a plain word"));
        names.filter(|name| self.place(name).is_none()).collect()
    }

    /// What to make of `name`: the version asked for, or else those that its description chooses.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Invalid` with file and key if its description is wrong.
    pub(crate) fn recipes(&self, name: &ModelName, version: Option<u32>) -> Result<Vec<Recipe>> {
        let Some(place) = self.place(name) else { return self.built(name, version) };
        let description = Description::read(&place.join("model.toml"))?;
        let have = versions(&place)?;
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
        wanted
            .into_iter()
            .map(|v| description.recipe(name, v, &place.join(v.to_string())))
            .collect()
    }

    fn built(&self, name: &ModelName, version: Option<u32>) -> Result<Vec<Recipe>> {
        if self.builtin && reef::models::NAMES.contains(&name.as_str()) {
            if version.is_none_or(|version| version == 1) {
                return Ok(vec![Recipe::builtin(name)]);
            }
            return Err(Error::NotFound(format!("model {name} has only version 1")));
        }
        Err(Error::NotFound(format!("no model {name} in the repository")))
    }

    /// The model's folder, if there is one and it lies in the repository.
    fn place(&self, name: &ModelName) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        let place = folder.join(name.as_str()).canonicalize().ok()?;
        (place.starts_with(folder) && place.join("model.toml").is_file()).then_some(place)
    }
}

fn versions(place: &Path) -> Result<Vec<u32>> {
    let entries = std::fs::read_dir(place).map_err(|e| Error::system("repository", e))?;
    let numbers = entries.flatten().filter(|entry| entry.path().is_dir());
    let numbers = numbers.filter_map(|entry| {
        let name = entry.file_name();
        crate::name::version(name.to_str()?).ok().flatten().filter(|n| *name == *n.to_string())
    });
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            repository.recipes(&name(n), v).unwrap().iter().map(|r| r.version).collect()
        };
        assert_eq!(versions("a", None), [10]);
        assert_eq!(versions("a", Some(2)), [2]);
        assert_eq!(versions("b", None), [1, 2]);
        let listed = repository.list().unwrap();
        assert_eq!(listed[0], Listed { name: name("a"), versions: vec![1, 2, 10] });
        let missing = repository.recipes(&name("a"), Some(3)).unwrap_err();
        assert_eq!(missing, Error::NotFound("model a has no version 3".into()));
    }

    #[test]
    fn networks_by_name_are_there_unless_a_folder_hides_them() {
        let folder = Folder::new("builtin");
        folder.file("resnet18/model.toml", "network = \"resnet50\"\nseed = 1\n");
        folder.file("resnet18/4/note", "");
        let repository = folder.open();
        assert!(!repository.builtin().contains(&name("resnet18")));
        assert_eq!(repository.recipes(&name("resnet18"), None).unwrap()[0].network, "resnet50");
        assert_eq!(repository.recipes(&name("resnet152"), None).unwrap()[0].version, 1);
        assert!(repository.recipes(&name("lenet"), None).is_err());
        let none = Repository::open(None, false).unwrap();
        assert!(none.recipes(&name("resnet152"), None).is_err());
    }

    #[test]
    fn links_and_wrong_descriptions_are_refused() {
        let (folder, outside) = (Folder::new("links"), Folder::new("outside"));
        outside.file("m/model.toml", "network = \"resnet18\"\nseed = 1\n");
        std::os::unix::fs::symlink(outside.0.join("m"), folder.0.join("m")).unwrap();
        folder.file("typo/model.toml", "network = \"resnet18\"\nsede = 1\n");
        folder.file("typo/1/note", "");
        let repository = folder.open();
        assert!(matches!(repository.recipes(&name("m"), None), Err(Error::NotFound(_))));
        let said = repository.recipes(&name("typo"), None).unwrap_err().to_string();
        assert!(said.contains("model.toml") && said.contains("sede"), "{said}");
        assert!(Repository::open(Some(Path::new("/nowhere")), true).is_err());
    }
}
