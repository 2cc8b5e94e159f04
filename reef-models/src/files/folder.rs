//! A network in a folder of its own, which a program can load without knowing its origin.
//!
//! ```text
//! DIR/model.json            the schedule, see ImageModel::to_json
//! DIR/model.param           all tensors that it names
//! DIR/model.profile.json    how long its launches take on some device; may be missing
//! ```

use super::json;
use super::profile::Latencies;
use crate::errors::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::model::image_model::ImageModel;
use crate::model::params::Params;
use reef_files::{Created, NewFile};
use std::io::Write;
use std::path::Path;

/// The graph of a folder of ours: what tells it from others.
pub(crate) const MODEL: &str = "model.json";
const PARAM: &str = "model.param";
const PROFILE: &str = "model.profile.json";

/// A network with all that belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Folder {
    /// The schedule.
    pub(crate) model: ImageModel,
    /// All tensors that it names.
    pub(crate) params: Params,
    /// Times of launches, if they were measured.
    pub(crate) latencies: Option<Latencies>,
}

impl Folder {
    /// Reads a folder with memory of `budget`; the network is named after it.
    ///
    /// # Errors
    ///
    /// `Io`, `Json`, `Graph` or `Param` for the file that is wrong; `MissingTensor` or `Length` if
    /// the parameters are not those of the network; `Memory`.
    pub(crate) fn load(folder: &Path, budget: &Budget) -> Result<Self> {
        let ledger = Ledger::new(budget);
        let mut model = json::read(&folder.join(MODEL), &ledger, ImageModel::from_json)?;
        let full = folder.canonicalize().map_err(|error| io(folder, &error))?;
        model.rename(&full.file_name().unwrap_or_default().to_string_lossy());
        let params = model.keep_of(Params::load(folder.join(PARAM), budget)?)?;
        let profile = folder.join(PROFILE);
        let latencies = || json::read(&profile, &ledger, Latencies::from_json);
        let latencies = reef_files::is_taken(&profile).then(latencies).transpose()?;
        Ok(Self { model, params, latencies })
    }

    /// Writes the folder, which is made if it isn't there. No file gets its name before all are
    /// written.
    ///
    /// # Errors
    ///
    /// `Param` if the parameter file can't hold a tensor, `Io`.
    pub(crate) fn save(
        folder: &Path,
        model: &ImageModel,
        params: &Params,
        latencies: Option<&Latencies>,
    ) -> Result<()> {
        let mut made = Created::default();
        made.folder(folder).map_err(|error| io(folder, &error))?;
        let new = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            begin(&path, bytes).map(|new| (path.clone(), new)).map_err(|error| io(&path, &error))
        };
        let mut all = vec![new(PARAM, &params.bytes_of(&folder.join(PARAM))?)?];
        if let Some(latencies) = latencies {
            all.push(new(PROFILE, latencies.to_json()?.as_bytes())?);
        }
        all.push(new(MODEL, model.to_json()?.as_bytes())?);
        for (path, new) in all {
            new.finish().map_err(|error| io(&path, &error))?;
        }
        made.keep();
        Ok(())
    }
}

/// A whole file that has no name yet.
fn begin(path: &Path, bytes: &[u8]) -> std::io::Result<NewFile> {
    let mut new = NewFile::new(path)?;
    new.write_all(bytes)?;
    new.sync()?;
    Ok(new)
}

fn io(path: &Path, error: &std::io::Error) -> Error {
    Error::Io { file: path.display().to_string(), why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::seeded::Seeded;
    use crate::zoo::by_name::build;
    use std::path::PathBuf;

    /// A folder that goes when the test ends.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str) -> Self {
            let folder = format!("reef-folder-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(folder))
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    impl Folder {
        fn write(&self, at: &Path) {
            Self::save(at, &self.model, &self.params, self.latencies.as_ref()).unwrap();
        }
    }

    fn resnet() -> Folder {
        let model = build("resnet18", Some(32), 1).unwrap();
        let params = model.params(&Seeded(1)).unwrap();
        Folder { model, params, latencies: Some(Latencies { micros: 5, ..Latencies::default() }) }
    }

    #[test]
    fn a_network_comes_back_from_its_folder_under_its_name() {
        let at = Temporary::new("round");
        let folder = resnet();
        folder.write(&at.0);
        let mut again = Folder::load(&at.0, &Budget::default()).unwrap();
        assert_eq!(again.model.graph().name, at.0.file_name().unwrap().to_str().unwrap());
        again.model.rename("resnet18");
        assert_eq!(again, folder);
    }

    #[test]
    fn faults_in_a_folder_are_reported_with_the_file() {
        let at = Temporary::new("bad");
        let say = || Folder::load(&at.0, &Budget::default()).unwrap_err().to_string();
        assert!(say().contains("model.json: No such file"));
        resnet().write(&at.0);
        let mut params = resnet().params;
        params.tensors.remove("fc.bias");
        params.save(at.0.join(PARAM)).unwrap();
        assert_eq!(say(), "no tensor \"fc.bias\"");
        std::fs::write(at.0.join(PARAM), "TVM").unwrap();
        assert!(say().ends_with("model.param: no parameter file: begins with \"TVM\""));
    }
}
