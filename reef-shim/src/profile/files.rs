//! Files that others read while they are written.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// Puts a text in the place of a file: who reads finds the old one or the new one.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.{}", std::process::id()));
    std::fs::write(&temporary, text)?;
    std::fs::rename(&temporary, path)
}

/// Adds lines to a file, which is made if it isn't there. It isn't kept open: threads that write have tables of files of
/// their own.
pub(super) fn append(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(text.as_bytes())
}
