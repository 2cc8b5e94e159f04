//! Copy of the pages for mdBook, and mdBook's call.

use super::{links, summary};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

const SETTINGS: &str = "docs/book.toml";

/// Copies pages and the files that they link to, with the repository's layout, and returns the
/// copy's folder.
pub(super) fn copy(target: &Path, list: &str) -> io::Result<PathBuf> {
    let book = target.join("book");
    let source = book.join("src");
    match fs::remove_dir_all(&source) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir_all(&source)?;
    fs::copy(SETTINGS, book.join("book.toml"))?;
    fs::write(source.join("SUMMARY.md"), summary::at_root(list))?;
    for file in files(list)? {
        let copy = source.join(&file);
        copy.parent().map_or(Ok(()), fs::create_dir_all)?;
        if file.extension().is_some_and(|of| of == "md") {
            fs::write(copy, of_the_book(&fs::read_to_string(&file)?))?;
        } else {
            fs::copy(&file, copy)?;
        }
    }
    Ok(book)
}

/// A page's text: mdBook shows the list next to each page, so a link to the list leads to the first
/// page.
fn of_the_book(text: &str) -> String {
    text.replace("](docs/SUMMARY.md)", "](docs/start/concepts.md)")
}

/// Pages, and what they link to.
fn files(list: &str) -> io::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for page in summary::pages(list) {
        files.extend(links::targets(&page, &fs::read_to_string(&page)?));
        files.insert(page.into());
    }
    Ok(files)
}

/// Calls mdBook in the copy's folder; `false` if there is none to call.
///
/// # Errors
///
/// mdBook can't be started, or has failed.
pub(super) fn mdbook(book: &Path, verb: &str) -> Result<bool, String> {
    match Command::new("mdbook").arg(verb).arg(book).status() {
        Ok(status) if status.success() => Ok(true),
        Ok(status) => Err(format!("mdbook {verb}: {status}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("mdbook: {error}")),
    }
}
