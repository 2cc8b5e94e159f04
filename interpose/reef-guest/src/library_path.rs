//! Paths at which a library of NVIDIA's driver may be, and its opening, for the libraries that
//! replace it.

#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
use std::ffi::{CStr, CString, c_void};
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

/// Returns files that may be the library of this name, the best first. If `named` is set and not
/// empty, it is the only one.
#[expect(clippy::disallowed_methods, reason = "of the linker")]
pub fn candidates(name: &str, named: Option<OsString>) -> Vec<PathBuf> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return vec![named.into()];
    }
    let listed = folders(&reef_files::variable("LD_LIBRARY_PATH").unwrap_or_default());
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

/// Returns the folders of a search path. An empty entry means the working folder to the linker, and
/// nothing here: any file may be there.
fn folders(path: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(path).filter(|folder| !folder.as_os_str().is_empty()).collect()
}

/// Opens the library at a path, if it has this function and isn't the one that holds the address
/// `own`. Returns its handle, which stays open.
///
/// Calls of its own functions must not reach the library in its place. NVIDIA's libraries are
/// linked like that, and `RTLD_DEEPBIND` does it for others. A program with a `malloc` of its own
/// (jemalloc, tcmalloc, sanitizers) does without: a library that is bound to the C library would
/// free there what `strdup` has from that `malloc`, and sanitizers end the process.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
pub fn open(path: &Path, function: &CStr, own: usize) -> Option<usize> {
    let name = CString::new(path.canonicalize().ok()?.as_os_str().as_bytes()).ok()?;
    let deep = if has_own_malloc() { 0 } else { libc::RTLD_DEEPBIND };
    // SAFETY: the library's initialisers are what every program with it runs.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | deep) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: a handle, and a string.
    let found = unsafe { libc::dlsym(handle, function.as_ptr()) };
    let base = |address| symbol_at(address).0;
    (!found.is_null() && base(found as usize) != base(own)).then_some(handle as usize)
}

/// Returns whether the program has a `malloc` of its own. A program at fixed addresses that uses
/// `malloc` as a pointer, as Debian's Python, has an entry of that name which defines nothing. So
/// a function that few use as a pointer counts as well.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
fn has_own_malloc() -> bool {
    let (usual, _) = symbol_at(libc::gnu_get_libc_version as *const () as usize);
    let all = [libc::malloc as *const () as usize, libc::posix_memalign as *const () as usize];
    all.map(symbol_at).iter().any(|(base, is_defined)| *is_defined && *base != usual)
}

/// Returns the base address of the library that holds this address, and whether that defines the
/// symbol there.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
fn symbol_at(address: usize) -> (usize, bool) {
    const SYMBOL_ENTRY: i32 = 1; // RTLD_DL_SYMENT
    const UNDEFINED: u16 = 0; // SHN_UNDEF
    let mut entry = std::ptr::null_mut();
    // SAFETY: all zero is a value of this struct, which the call fills in. It gives null, or an
    // entry of a library that stays open meanwhile.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let address = address as *const c_void;
        libc::dladdr1(address, &raw mut info, &raw mut entry, SYMBOL_ENTRY);
        let entry = entry.cast::<libc::Elf64_Sym>().as_ref();
        (info.dli_fbase as usize, entry.is_some_and(|entry| entry.st_shndx != UNDEFINED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_entries_and_names_mean_no_file() {
        assert_eq!(folders(OsStr::new("")), [""; 0].map(PathBuf::from));
        assert_eq!(folders(OsStr::new(":/a::b:")), ["/a", "b"].map(PathBuf::from));
        let name = "libnvidia-ml.so.1";
        assert_eq!(candidates(name, Some("".into())), candidates(name, None));
        assert_eq!(candidates(name, Some("/a".into())), [PathBuf::from("/a")]);
    }
}
