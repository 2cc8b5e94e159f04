//! The device code in `kernels/`, and the two builds of each source.

use crate::Result;
use std::fs;
use std::path::Path;

/// Names of the builds, and whether kernels can be stopped in them.
pub(crate) const BUILDS: [(&str, bool); 2] = [("plain", false), ("guarded", true)];

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
