//! Files that others read while they are written. Their folder may be one where others write: no
//! link is followed.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Puts a text in the place of a file: who reads finds the old one or the new one.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.{}", std::process::id()));
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {} // of a process of this number that was killed
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&temporary, path)
}

/// Adds lines to a file, which is made if it isn't there. It isn't kept open: threads that write
/// have tables of files of their own.
pub(super) fn append(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.create(true).append(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    file.write_all(text.as_bytes())
}
