//! The reader of small files.

use rustix::fs::OFlags;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Maximum length of a file with a token.
pub const MAX_TOKEN_BYTES: u64 = 64 << 10;

/// Maximum length of a file with certificates or a key.
pub const MAX_PEM_BYTES: u64 = 4 << 20;

/// Maximum length of a text file that one command or one load reads, such as a schedule as JSON.
pub const MAX_TEXT_BYTES: u64 = 64 << 20;

/// Maximum length of a file that a user names as an input: an image, an array, device code.
pub const MAX_INPUT_BYTES: u64 = 4 << 30;

/// Reads a regular file of at most `max_bytes` bytes.
///
/// # Errors
///
/// An error of the system; `InvalidInput` if the file is not regular, or has more bytes.
pub fn read(path: impl AsRef<Path>, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = regular(path)?;
    let too_long = || invalid(&format!("must have at most {max_bytes} bytes, got more"));
    if file.metadata()?.len() > max_bytes {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    let read = file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)? as u64;
    if read > max_bytes {
        return Err(too_long()); // by now
    }
    Ok(bytes)
}

/// Reads a regular text file of at most `max_bytes` bytes.
///
/// # Errors
///
/// Returns the errors of [`read`]; `InvalidData` if it is not UTF-8.
pub fn read_to_string(path: impl AsRef<Path>, max_bytes: u64) -> io::Result<String> {
    let bytes = read(path, max_bytes)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

/// Reads the token in a file: its first line, without white space around it.
///
/// # Errors
///
/// Returns the errors of [`read_to_string`], of at most [`MAX_TOKEN_BYTES`].
pub fn token(path: impl AsRef<Path>) -> io::Result<String> {
    let text = read_to_string(path, MAX_TOKEN_BYTES)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Returns whether something has this name: also a link without a target, or what can't be looked
/// at. Its reader is told the reason, and does not take it for absent.
pub fn is_taken(path: impl AsRef<Path>) -> bool {
    let is_absent = |error: io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    !path.as_ref().symlink_metadata().is_err_and(is_absent)
}

/// Opens a regular file for reading. Does not wait for a writer, as a FIFO does.
///
/// # Errors
///
/// An error of the system; `InvalidInput` if the file is not regular.
pub fn regular(path: impl AsRef<Path>) -> io::Result<File> {
    opened(path.as_ref(), OpenOptions::new().read(true), OFlags::empty())
}

/// Opens a regular file with `options`, unless its name is a symbolic link, or another user or
/// another name has the file as well.
///
/// # Errors
///
/// An error of the system; `InvalidInput` with what the file is.
pub fn own(path: impl AsRef<Path>, options: &mut OpenOptions) -> io::Result<File> {
    let path = path.as_ref();
    if path.is_symlink() {
        return Err(invalid("must be a regular file, got a symbolic link")); // clearer than ELOOP
    }
    let file = opened(path, options, OFlags::NOFOLLOW)?;
    let (facts, user) = (file.metadata()?, rustix::process::geteuid().as_raw());
    if facts.uid() != user {
        return Err(invalid(&format!("must belong to user {user}, got user {}", facts.uid())));
    }
    if facts.nlink() > 1 {
        return Err(invalid(&format!("must have one name, got {}", facts.nlink())));
    }
    Ok(file)
}

fn opened(path: &Path, options: &mut OpenOptions, flags: OFlags) -> io::Result<File> {
    // Opening alone has effects: a writer that waits for a FIFO's reader goes on, a watchdog runs.
    if let Ok(facts) = path.metadata() {
        check_regular(&facts)?;
    }
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = options.custom_flags(flags.bits() as i32).open(path)?;
    check_regular(&file.metadata()?)?; // by now
    Ok(file)
}

fn check_regular(facts: &Metadata) -> io::Result<()> {
    if facts.is_file() {
        return Ok(());
    }
    Err(invalid(&format!("must be a regular file, got {}", kind(facts))))
}

/// Kind of a file, in words.
pub(crate) fn kind(facts: &Metadata) -> &'static str {
    let kind = facts.file_type();
    match () {
        () if kind.is_file() => "a regular file",
        () if kind.is_dir() => "a folder",
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

pub(crate) fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;

    fn why(path: impl AsRef<Path>) -> String {
        read(path, 16).unwrap_err().to_string()
    }

    #[test]
    fn file_over_its_bound_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, [b'x'; 16]).unwrap();
        assert_eq!(read(&path, 16).unwrap(), [b'x'; 16]);
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(why(&path), "must have at most 16 bytes, got more");
        let most = 1 << 39; // more than there is memory
        let why = read(&path, most).unwrap_err().to_string();
        assert_eq!(why, format!("must have at most {most} bytes, got more"));
    }

    #[test]
    fn token_is_the_first_line_without_white_space() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for (text, want) in [("", ""), ("ab c", "ab c"), (" a \r\n# of the laboratory\n", "a")] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(token(&path).unwrap(), want);
        }
    }

    #[test]
    fn writer_of_a_refused_fifo_still_waits_for_its_reader() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let name = fifo.clone();
        let writer = std::thread::spawn(move || {
            File::options().write(true).open(name).and_then(|mut file| file.write_all(b"x"))
        });
        for _ in 0..1000 {
            assert_eq!(why(&fifo), "must be a regular file, got a FIFO");
        }
        let flags = OFlags::NONBLOCK.bits() as i32;
        let mut reader = File::options().read(true).custom_flags(flags).open(&fifo).unwrap();
        writer.join().unwrap().unwrap();
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert_eq!(said, "x");
    }

    #[test]
    fn fifo_link_or_folder_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(why(&fifo), "must be a regular file, got a FIFO");
        let link = folder.path().join("link");
        symlink("/dev/zero", &link).unwrap();
        assert_eq!(why(&link), "must be a regular file, got a device");
        assert_eq!(why(folder.path()), "must be a regular file, got a folder");
    }

    #[test]
    fn name_of_a_link_without_a_target_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        assert!(!is_taken(&file) && !is_taken(file.join("below")));
        symlink(&file, &link).unwrap();
        assert!(is_taken(&link) && !is_taken(&file));
        std::fs::write(&file, "").unwrap();
        assert!(is_taken(&file) && !is_taken(file.join("below")), "it is not a folder");
    }

    #[test]
    fn own_file_is_no_link_and_has_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, second] = ["file", "link", "second"].map(|name| folder.path().join(name));
        std::fs::write(&file, "precious").unwrap();
        symlink(&file, &link).unwrap();
        let why = |path: &Path| {
            own(path, File::options().write(true).create(true)).map(|_| ()).unwrap_err().to_string()
        };
        assert_eq!(why(&link), "must be a regular file, got a symbolic link");
        std::fs::hard_link(&file, &second).unwrap();
        assert_eq!(why(&second), "must have one name, got 2");
    }
}
