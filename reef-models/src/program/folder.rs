//! A folder as REEF publishes it.
//!
//! ```text
//! DIR/NAME.json        the schedule
//! DIR/NAME.cu          the kernels; any number of such files
//! DIR/NAME.param       the weights; may be missing
//! ```
//!
//! Others are left alone: what REEF's own tools made of the kernels (`.be.cu`, `.trans.cu`), and
//! times on an MI50 (`.profile.json`), which are wrong for any other device.

use super::model::ProgramModel;
use crate::errors::error::{Error, Result};
use crate::files::folder::MODEL;
use crate::files::whole;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::model::params::Params;
use std::path::{Path, PathBuf};

/// Bytes of memory that a source takes for each of its bytes, at most: tokens, and what is
/// compiled.
const READ: u64 = 64;

/// Returns whether a folder has a schedule and sources, and was not written by this crate.
pub fn is_program(folder: impl AsRef<Path>) -> bool {
    let folder = folder.as_ref();
    !folder.join(MODEL).exists() && files(folder, is_source).is_ok_and(|files| !files.is_empty())
}

fn is_source(name: &str) -> bool {
    name.ends_with(".cu") && !name.ends_with(".be.cu") && !name.ends_with(".trans.cu")
}

fn is_schedule(name: &str) -> bool {
    name.ends_with(".json") && !name.ends_with(".profile.json")
}

/// Files of the folder whose names are such, in the order of their names.
fn files(folder: &Path, such: fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let io = |why: std::io::Error| Error::Io {
        file: folder.display().to_string(),
        why: why.to_string(),
    };
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(io)? {
        let path = entry.map_err(io)?.path();
        files.extend(
            Some(path)
                .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(such)),
        );
    }
    files.sort();
    Ok(files)
}

impl ProgramModel {
    /// Reads a folder as REEF publishes it, with memory of `budget`.
    ///
    /// # Errors
    ///
    /// `Io`, `Memory`, `Kind` if there is not exactly one schedule; the errors of
    /// [`new`](Self::new).
    pub fn load(folder: impl AsRef<Path>, budget: &Budget) -> Result<Self> {
        let (folder, ledger) = (folder.as_ref(), Ledger::new(budget));
        let schedules = files(folder, is_schedule)?;
        let [schedule] = schedules.as_slice() else {
            let why = format!(
                "must have 1 schedule (.json) next to the sources (.cu), got {}",
                schedules.len()
            );
            return Err(Error::Kind { file: folder.display().to_string(), why });
        };
        let name = schedule.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (_, text) = read(schedule, &ledger)?;
        let sources = files(folder, is_source)?;
        let sources = sources.iter().map(|file| read(file, &ledger)).collect::<Result<Vec<_>>>()?;
        let param = folder.join(format!("{name}.param"));
        let params =
            reef_files::is_taken(&param).then(|| Params::load(&param, budget)).transpose()?;
        Self::new(&name, &text, &sources, params)
    }
}

/// Name and text of a file.
fn read(file: &Path, ledger: &Ledger) -> Result<(String, String)> {
    let bytes = whole::read(file, ledger)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let memory =
        |why| Error::Memory { file: file.display().to_string(), at: "its text".into(), why };
    ledger.keep(bytes.len() as u64 * READ).map_err(memory)?;
    match String::from_utf8(bytes.to_vec()) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(Error::Program { file: name, why: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::schedule::ElementType;
    use std::fs;

    const SCHEDULE: &str = r#"{
        "storage": [
            {"name": "data", "stype": "float32", "size": 3},
            {"name": "p0", "stype": "int64", "size": 2},
            {"name": "b", "stype": "float32", "size": 5},
            {"name": "output", "stype": "float32", "size": 4}
        ],
        "kernels": [{"name": "any", "launch_params": [1, 1, 1, 4, 1, 1], "args": [3, 0, 1, 2]}],
        "args": [0, 1, 2],
        "shared_memory": {"any": 4}
    }"#;
    const SOURCE: &str = "extern \"C\" __global__ void any(float *to, float *a, long *b, float *c) { to[0] = a[0]; }";

    /// A folder that goes when the test ends.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let folder =
                std::env::temp_dir().join(format!("reef-program-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
            Self(folder)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_folder_as_reef_publishes_it_is_read() {
        let others =
            [("n.be.cu", "?"), ("n.trans.cu", "?"), ("n.profile.json", "?"), ("README.md", "?")];
        let files = [("n.json", SCHEDULE), ("n.cu", SOURCE)];
        let folder = Temporary::new("whole", &[&files[..], &others].concat());
        assert!(is_program(&folder.0));
        let model = ProgramModel::load(&folder.0, &Budget::default()).unwrap();
        let inputs: Vec<_> =
            model.inputs().iter().map(|i| (&*i.name, i.elements, i.offset)).collect();
        assert_eq!(inputs, [("data", 3, 0), ("b", 5, 64)]);
        assert_eq!((model.input_bytes(), model.inputs()[0].element), (84, ElementType::Float32));
        let text = model.text();
        assert_eq!(text.calls[0].args, [16, 12, 16, 20]);
        assert!(text.files[0].guarded);
    }

    /// Its weights would be made up.
    #[test]
    fn weights_behind_a_link_without_a_target_are_missed() {
        let folder = Temporary::new("link", &[("n.json", SCHEDULE), ("n.cu", SOURCE)]);
        std::os::unix::fs::symlink("/nowhere/n.param", folder.0.join("n.param")).unwrap();
        let said = ProgramModel::load(&folder.0, &Budget::default()).unwrap_err().to_string();
        assert!(said.contains("n.param: No such file"), "{said}");
    }

    #[test]
    fn faults_are_reported_with_their_file() {
        let says = |name: &str, files: &[(&str, &str)]| {
            let folder = Temporary::new(name, files);
            ProgramModel::load(&folder.0, &Budget::default()).unwrap_err().to_string()
        };
        let missing = SCHEDULE.replace("any", "other");
        assert_eq!(
            says("missing", &[("n.json", &missing), ("n.cu", SOURCE)]),
            "n.json: no kernel other in n.cu"
        );
        let few = SCHEDULE.replace("[3, 0, 1, 2]", "[3, 0, 1]").replace("[0, 1, 2]", "[0, 1]");
        let said = says("few", &[("n.json", &few), ("n.cu", SOURCE)]);
        assert_eq!(said, "n.json: kernel any has 4 parameters, 3 arguments are given");
        let nothing = SOURCE.replace("to[0] =", "float x =");
        let said = says("nothing", &[("n.json", SCHEDULE), ("n.cu", &nothing)]);
        assert_eq!(said, "n.json: kernel any doesn't write exactly one of its parameters");
        let both = [("n.json", SCHEDULE), ("m.json", SCHEDULE), ("n.cu", SOURCE)];
        assert!(
            says("both", &both)
                .ends_with(": must have 1 schedule (.json) next to the sources (.cu), got 2")
        );
        assert!(
            says("open", &[("n.json", SCHEDULE), ("n.cu", "/* ")]).starts_with("n.cu: byte 0: ")
        );
    }
}
