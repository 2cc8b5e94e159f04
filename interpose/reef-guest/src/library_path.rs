//! Paths at which a library of NVIDIA's driver may be, for the libraries that replace it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Folders of distributions, containers and WSL.
const FOLDERS: [&str; 7] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/cuda/compat",
    "/usr/lib",
];
const CACHE: &str = "/etc/ld.so.cache";
const CACHE_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Offset of the cache's entries, and bytes of each.
const ENTRIES: usize = 48;
const ENTRY: usize = 24;

/// Returns files that may be the library of this name, the best first. If `named` is set, it is the
/// only one.
#[expect(clippy::disallowed_methods, reason = "of the linker")]
pub fn candidates(name: &str, named: Option<OsString>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named.into()];
    }
    let paths = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let listed: Vec<_> = std::env::split_paths(&paths).collect();
    let cache = std::fs::read(CACHE).unwrap_or_default();
    let folders = listed.iter().map(PathBuf::as_path);
    let last = FOLDERS.iter().map(Path::new).map(|folder| folder.join(name));
    folders.map(|folder| folder.join(name)).chain(cached(&cache, name)).chain(last).collect()
}

/// Returns the library's paths in the loader's cache. A cache of another format gives none.
fn cached(cache: &[u8], wanted: &str) -> Vec<PathBuf> {
    let word = |at: usize| {
        let bytes = cache.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let text = |at: usize| {
        let rest = cache.get(at..)?;
        rest.split(|&byte| byte == 0).next()
    };
    if !cache.starts_with(CACHE_MAGIC) {
        return Vec::new();
    }
    let count = word(20).unwrap_or(0).min(cache.len() / ENTRY);
    let entry = |index: usize| {
        let at = ENTRIES + index * ENTRY;
        let name = text(word(at + 4)?)?;
        let path = text(word(at + 8)?)?;
        (name == wanted.as_bytes()).then(|| PathBuf::from(OsStr::from_bytes(path)))
    };
    (0..count).filter_map(entry).collect()
}
