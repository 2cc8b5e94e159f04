//! Unmodified programs: the library that takes the driver's place, and limits.

use super::finding::{Check, Finding};
use crate::commands::exec::library::{self, SHIM};
use reef_guest::limit::{self, BooksFile, Limits};
use std::path::Path;

/// Checks whether `reef exec` finds its library. Without a driver it is of no use, so nothing is
/// wrong then.
pub(super) fn library(shim: Option<&Path>, has_driver: bool) -> Finding {
    let is_named = shim.is_some() || std::env::var_os("REEF_SHIM").is_some();
    let remedy = "cargo build --release -p reef-shim, and name it with REEF_SHIM=FILE or put it next to `reef`";
    match library::library(SHIM, shim, "REEF_SHIM") {
        Ok(path) => Finding::ok(Check::Library, path.display().to_string()),
        Err(why) if has_driver || is_named => {
            Finding::wrong(Check::Library, why.to_string(), remedy)
        }
        Err(why) => Finding::absent(Check::Library, why.to_string(), remedy),
    }
}

/// Checks whether limits can be kept, and whether those that this environment sets can be read.
pub(super) fn limits() -> Finding {
    let environment =
        |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    if let Err(why) = Limits::read(environment, read) {
        return Finding::wrong(Check::Limits, why, "correct or unset the variable");
    }
    let folder = limit::folder(environment);
    match BooksFile::check(&folder) {
        Ok(()) => Finding::ok(Check::Limits, format!("accounts in {}", folder.display())),
        Err(error) => {
            let remedy = "name a folder that is yours alone, in memory, with REEF_BOOKS=FOLDER";
            Finding::wrong(Check::Limits, error.to_string(), remedy)
        }
    }
}
