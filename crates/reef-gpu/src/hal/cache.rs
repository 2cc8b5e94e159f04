//! Compiled code that stays on disk, so that a kernel is compiled once per machine and not per
//! process.
//!
//! A file's name is a hash of everything that decides what is in it. Files appear whole, by
//! renaming, so that processes need no lock: two that compile the same at once write the same. A
//! file that is not what was written is compiled anew and replaced. Nothing here is an error:
//! without a folder to write to, compiling takes place each time.

use reef_core::Result;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::ffi::OsString;
use std::fs;
use std::hash::Hasher;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The first bytes of a file; the digit changes with the layout.
const MAGIC: [u8; 8] = *b"reefcub1";
/// Magic, then the hash of what follows.
const HEADER: usize = 8 + 16;

/// A source with everything that decides what it compiles to, except the compiler.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// Stands in messages of the compiler, before the line.
    pub name: &'a str,
    /// The text.
    pub source: &'a str,
    /// Name and text of each file that `#include "NAME"` finds. Nothing else can be included.
    pub headers: &'a [(&'a str, &'a str)],
    /// Options of the compiler.
    pub options: &'a [&'a str],
}

/// Name of a file in the cache: a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key(u128);

impl Key {
    /// Differs whenever one of the program's parts does, or the compiler: its name, version and
    /// target.
    pub fn new(compiler: &str, program: &Program<'_>) -> Self {
        let mut hash = Hash::default();
        hash.add(compiler.as_bytes());
        hash.add(program.name.as_bytes());
        hash.add(program.source.as_bytes());
        hash.all(program.options.iter().copied());
        hash.all(program.headers.iter().flat_map(|(name, text)| [*name, *text]));
        Self(hash.finish())
    }

    /// Key of something else that is kept: differs whenever one of these does.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Hash::default();
        hash.all(parts.into_iter());
        Self(hash.finish())
    }
}

/// The folder of compiled code, if there is one.
#[derive(Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// `$REEF_CACHE`, `$XDG_CACHE_HOME/reef` or `$HOME/.cache/reef`.
    pub fn of_user() -> Self {
        Self { folder: folder(|name| std::env::var_os(name)) }
    }

    /// Keeps nothing.
    pub fn none() -> Self {
        Self { folder: None }
    }

    /// The code of this key: from disk, or made and put there.
    ///
    /// # Errors
    ///
    /// Returns the errors of `make`.
    pub fn get_or_make(&self, key: Key, make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        let path = self.folder.as_ref().map(|folder| folder.join(format!("{:032x}.bin", key.0)));
        if let Some(code) = path.as_deref().and_then(read) {
            return Ok(code);
        }
        let code = make()?;
        if let Some(path) = path {
            let _ = write(&path, &code); // next time it is compiled again, that is all
        }
        Ok(code)
    }
}

fn folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    path("REEF_CACHE")
        .or_else(|| path("XDG_CACHE_HOME").map(|cache| cache.join("reef")))
        .or_else(|| path("HOME").map(|home| home.join(".cache/reef")))
}

/// A file's code if it is exactly what was written.
fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = fs::read(path).ok()?;
    let code = bytes.get(HEADER..)?;
    (bytes[..HEADER] == header(code)).then(|| bytes.split_off(HEADER))
}

/// Readers see the whole file or none.
fn write(path: &Path, code: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // Unlike any that another thread or process writes now.
    let unique = format!("{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let temporary = path.with_extension(unique);
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(&temporary, [&header(code), code].concat())
        .and_then(|()| fs::rename(&temporary, path))
        .inspect_err(|_| drop(fs::remove_file(&temporary)))
}

fn header(code: &[u8]) -> [u8; HEADER] {
    let mut hash = Hash::default();
    hash.add(code);
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..].copy_from_slice(&hash.finish().to_le_bytes());
    header
}

/// A hash that is the same in each build and on each machine. The parts' lengths are hashed too, so
/// that moving text from one to the next changes it.
#[derive(Default)]
struct Hash(SipHasher13);

impl Hash {
    fn add(&mut self, part: &[u8]) {
        self.0.write(&(part.len() as u64).to_le_bytes());
        self.0.write(part);
    }

    fn all<'a>(&mut self, parts: impl Iterator<Item = &'a str>) {
        let parts: Vec<_> = parts.collect();
        self.0.write(&(parts.len() as u64).to_le_bytes());
        parts.iter().for_each(|part| self.add(part.as_bytes()));
    }

    fn finish(&self) -> u128 {
        self.0.finish128().as_u128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_core::Error;

    const PROGRAM: Program<'_> = Program {
        name: "step.cu",
        source: "source",
        headers: &[("reef.h", "header")],
        options: &["-DREEF_GUARDED=1"],
    };

    /// A folder of this test, gone when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let name = format!("reef-cache-{}-{test}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }

        fn cache(&self) -> Cache {
            Cache { folder: Some(self.0.join("nested")) }
        }

        fn files(&self) -> Vec<PathBuf> {
            let files = fs::read_dir(self.0.join("nested")).unwrap();
            files.map(|file| file.unwrap().path()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn never() -> Result<Vec<u8>> {
        panic!("the code is on disk")
    }

    #[test]
    fn code_is_made_once() {
        let folder = Folder::new("once");
        let made = folder.cache().get_or_make(Key(1), || Ok(b"code".to_vec())).unwrap();
        let found = folder.cache().get_or_make(Key(1), never).unwrap();
        assert_eq!((made, found), (b"code".to_vec(), b"code".to_vec()));
        assert_eq!(folder.files(), [folder.0.join(format!("nested/{:032x}.bin", 1))]);
    }

    #[test]
    fn a_damaged_file_is_replaced() {
        let folder = Folder::new("damaged");
        let make = || Ok(b"code".to_vec());
        folder.cache().get_or_make(Key(1), make).unwrap();
        let whole = fs::read(&folder.files()[0]).unwrap();
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for damaged in [&whole[..whole.len() - 1], &whole[..3], &[], &flipped] {
            fs::write(&folder.files()[0], damaged).unwrap();
            assert_eq!(folder.cache().get_or_make(Key(1), make).unwrap(), b"code");
            assert_eq!(fs::read(&folder.files()[0]).unwrap(), whole);
        }
    }

    #[test]
    fn failures_are_not_kept() {
        let folder = Folder::new("failures");
        let failed = folder.cache().get_or_make(Key(1), || Err(Error::Cancelled));
        assert_eq!(failed, Err(Error::Cancelled));
        assert_eq!(folder.cache().get_or_make(Key(1), || Ok(vec![1])).unwrap(), [1]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_error() {
        let folder = Folder::new("unwritable");
        fs::write(&folder.0, "a file where the folder would be").unwrap();
        for _ in 0..2 {
            assert_eq!(folder.cache().get_or_make(Key(1), || Ok(vec![1])).unwrap(), [1]);
        }
        fs::remove_file(&folder.0).unwrap();
        assert_eq!(Cache::none().get_or_make(Key(1), || Ok(vec![1])).unwrap(), [1]);
    }

    #[test]
    fn writers_of_the_same_code_do_not_disturb_each_other() {
        let folder = Folder::new("writers");
        let code = vec![7; 100_000];
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let found = folder.cache().get_or_make(Key(1), || Ok(code.clone())).unwrap();
                    assert_eq!(found, code);
                });
            }
        });
        assert_eq!(folder.files().len(), 1);
    }

    #[test]
    fn every_part_of_a_program_is_in_its_key() {
        let keys = [
            Key::new("nvrtc 11.8 sm_90", &PROGRAM),
            Key::new("nvrtc 12.8 sm_90", &PROGRAM),
            Key::new("nvrtc 11.8 compute_90", &PROGRAM),
            Key::new("nvrtc 11.8 sm_90", &Program { source: "sourc", ..PROGRAM }),
            Key::new("nvrtc 11.8 sm_90", &Program { headers: &[("reef.h", "other")], ..PROGRAM }),
            Key::new("nvrtc 11.8 sm_90", &Program { headers: &[], ..PROGRAM }),
            Key::new("nvrtc 11.8 sm_90", &Program { options: &["-DREEF_GUARDED=0"], ..PROGRAM }),
            Key::new("nvrtc 11.8 sm_90", &Program { name: "step.c", source: "usource", ..PROGRAM }),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "key {at} is there twice");
        }
    }

    #[test]
    fn a_key_never_changes() {
        // Written down from the first run: another number means that all users compile again.
        assert_eq!(
            format!("{:032x}", Key::new("nvrtc 11.8 sm_90", &PROGRAM).0),
            "f8ac47ec9d233a4d7ce1eecb2be57cf6"
        );
    }

    #[test]
    fn cache_folder_is_the_first_variable_that_is_set() {
        let of = |set: &[(&str, &str)]| {
            folder(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
        };
        let home = ("HOME", "/home/me");
        assert_eq!(of(&[home]), Some("/home/me/.cache/reef".into()));
        assert_eq!(of(&[home, ("XDG_CACHE_HOME", "/c")]), Some("/c/reef".into()));
        assert_eq!(of(&[home, ("XDG_CACHE_HOME", ""), ("REEF_CACHE", "/r")]), Some("/r".into()));
        assert_eq!(of(&[]), None);
    }
}
