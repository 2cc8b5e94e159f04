//! The device code in `kernels/`, and the builds of each source.

use crate::error::Result;
use std::fs;
use std::path::Path;

/// Names of the builds, and whether kernels can be stopped in them.
pub(crate) const BUILDS: [(&str, bool); 2] = [("plain", false), ("guarded", true)];
/// The build whose kernels can be stopped and whose blocks take turns.
pub(crate) const TURNS: &str = "turns";

/// The source that devices of one capability of NVIDIA's have.
pub(crate) const HOPPER: &str = "hopper";
/// The source for tensor cores alone, which AMD's devices of REEF have none of.
pub(crate) const QUANTIZED: &str = "quantized";

/// Options that a build is compiled with.
pub(crate) fn defines(build: &str) -> Vec<&'static str> {
    match build {
        "plain" => vec!["-DREEF_GUARDED=0"],
        TURNS => vec!["-DREEF_GUARDED=1", "-DREEF_TURNS=1"],
        _ => vec!["-DREEF_GUARDED=1"],
    }
}

/// Sources that images are made of, or compared with.
pub(crate) struct Selection {
    /// All if it is empty.
    names: Vec<String>,
}

impl Selection {
    /// Sources of these names in a folder; without a name, all.
    ///
    /// # Errors
    ///
    /// The first name that no source has.
    pub(crate) fn of(names: Vec<String>, folder: &Path) -> Result<Self> {
        let sources = with_ending(folder, ".cu")?;
        let is_there = |name: &String| sources.iter().any(|(source, _)| source == name);
        if let Some(name) = names.iter().find(|name| !is_there(name)) {
            let have: Vec<&str> = sources.iter().map(|(source, _)| source.as_str()).collect();
            return Err(format!("source: must be one of {}, got {name}", have.join(", ")).into());
        }
        Ok(Self { names })
    }

    pub(crate) fn has(&self, source: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| name == source)
    }
}

/// Names, without their ending, and texts of the files in a folder that end like this; by name.
pub(crate) fn with_ending(folder: &Path, ending: &str) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(stem) = name.strip_suffix(ending) {
            files.push((stem.to_owned(), fs::read_to_string(&path)?));
        }
    }
    files.sort();
    Ok(files)
}

/// The sources that all GPUs have, AMD's too, as [`with_ending`] gives them.
pub(crate) fn of_all_gpus(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut sources = with_ending(folder, ".cu")?;
    sources.retain(|(source, _)| ![HOPPER, QUANTIZED].contains(&source.as_str()));
    Ok(sources)
}
