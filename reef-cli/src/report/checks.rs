//! Refuses what can't be meant before anything long begins.

use crate::report::usage::Usage;
use anyhow::Result;
use std::path::Path;

/// Most time for one measurement: an hour would be a typing error.
const MAX_SECONDS: f64 = 600.0;

/// Refuses times that can't be meant.
pub(crate) fn check_seconds(seconds: f64) -> Result<()> {
    if seconds > 0.0 && seconds <= MAX_SECONDS {
        return Ok(());
    }
    Err(Usage(format!("--seconds must be in 0..={MAX_SECONDS}, got {seconds}")).into())
}

/// Makes the folder for results before anything long begins.
pub(crate) fn make_folder(out: &Path) -> Result<()> {
    let wrong = |error| Usage(format!("--out {}: {error}", out.display()));
    Ok(std::fs::create_dir_all(out).map_err(wrong)?)
}

/// Refuses a place where no file can be before anything long begins.
pub(crate) fn check_file(path: &Path) -> Result<(), &'static str> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        _ if path.is_dir() => Err("it is a folder"),
        Some(folder) if !folder.is_dir() => Err("its folder doesn't exist"),
        _ => Ok(()),
    }
}
