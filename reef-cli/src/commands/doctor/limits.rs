//! Limits of unmodified programs.

use super::finding::{Check, Finding};
use reef_guest::limit::{self, BooksFile, Limits};

/// Whether limits can be kept, and those that this environment sets can be read.
pub(super) fn finding() -> Finding {
    let environment =
        |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let read = |path: &std::path::Path| std::fs::read_to_string(path).ok();
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
