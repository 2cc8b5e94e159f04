//! Libraries mounted over the driver's files, in a mount namespace of the program: it may open
//! these by a path of its own.
//!
//! *In*: libraries, and the names of what they stand for. *Out*: variables that say where the
//! driver's files are then. *Invariant*: nothing is mounted outside of this process, and nothing at
//! all if any of it is refused: a child process tries it first.

use super::search;
use reef_guest::library_path::candidates;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folder of the places at which the driver's files are while libraries are in theirs.
const KEPT: &str = "kept";
/// Bytes of a file by which the linker knows which processor it is for: class and byte order, and
/// the machine.
const IDENTITY: [std::ops::Range<usize>; 2] = [0..6, 18..20];

/// Library that stands for the one of this name, which a variable may name.
#[derive(Debug)]
pub(super) struct Cover<'a> {
    pub(super) library: &'a Path,
    pub(super) name: &'a str,
    pub(super) variable: &'static str,
}

/// Mount: a file, and the place at which it is seen.
type Mount = (PathBuf, PathBuf);

/// Mounts to make, and variables that name the files that are covered.
#[derive(Debug, Default)]
pub(super) struct Plan {
    mounts: Vec<Mount>,
    pub(super) variables: Vec<(&'static str, OsString)>,
    /// Files that are covered.
    pub(super) files: Vec<PathBuf>,
}

/// Plans to cover all files of these names. There is nothing to do without a driver, and in a
/// program that has it covered already.
///
/// # Errors
///
/// The places can't be made in this folder.
#[expect(clippy::disallowed_methods, reason = "a file of its own")]
pub(super) fn plan(covers: &[Cover<'_>], folder: &Path) -> anyhow::Result<Plan> {
    let mut plan = Plan::default();
    for Cover { library, name, variable } in covers {
        let found = files(library, candidates(name, std::env::var_os(variable)));
        let Some(real) = found.first() else { continue };
        let mut covered = files(library, candidates(name, None));
        covered.extend(found.iter().filter(|file| !is_kept(file)).cloned());
        covered.sort();
        covered.dedup();
        if covered.is_empty() {
            continue;
        }
        let kept = folder.join(KEPT);
        search::own(&kept)?;
        let kept = kept.join(real.file_name().unwrap_or(OsStr::new(name)));
        if !kept.exists() {
            File::create(&kept)?;
        }
        plan.mounts.push((real.clone(), kept.clone()));
        plan.mounts.extend(covered.iter().map(|file| ((*library).to_owned(), file.clone())));
        plan.variables.push((*variable, kept.into()));
        plan.files.extend(covered);
    }
    Ok(plan)
}

/// Returns the files among these, without links, that are for the processor of this library and
/// aren't the library.
fn files(library: &Path, all: Vec<PathBuf>) -> Vec<PathBuf> {
    let inode = |file: &Path| file.metadata().map(|it| (it.dev(), it.ino())).ok();
    let (own, kind) = (inode(library), identity(library));
    let all = all.into_iter().filter_map(|file| file.canonicalize().ok());
    let others = all.filter(|file| inode(file) != own && kind.is_some() && identity(file) == kind);
    let mut found: Vec<PathBuf> = Vec::new();
    others.for_each(|file| found.extend((!found.contains(&file)).then_some(file)));
    found
}

fn identity(file: &Path) -> Option<[u8; 8]> {
    let mut head = [0; 20];
    reef_files::regular(file).ok()?.read_exact(&mut head).ok()?; // a FIFO would be waited for
    let bytes: Vec<u8> = IDENTITY.into_iter().flat_map(|range| head[range].to_vec()).collect();
    head.starts_with(b"\x7fELF").then(|| bytes.try_into().ok())?
}

/// Returns whether an outer `reef exec` has made this place for a file of the driver's.
fn is_kept(file: &Path) -> bool {
    file.parent().and_then(Path::file_name) == Some(OsStr::new(KEPT))
}

impl Plan {
    /// Makes the mounts for this process and what it starts.
    ///
    /// # Errors
    ///
    /// The system refuses namespaces or mounts. Nothing has changed then.
    pub(super) fn execute(&self) -> io::Result<()> {
        if self.mounts.is_empty() {
            return Ok(());
        }
        let mounts: Vec<_> = self.mounts.iter().map(names).collect::<io::Result<_>>()?;
        try_first(&mounts)?;
        enter_and_mount(&mounts)
    }
}

/// Finds out whether the system allows to mount this file over another one, in a child process.
///
/// # Errors
///
/// The system refuses namespaces or mounts.
pub(crate) fn check(file: &Path) -> io::Result<()> {
    try_first(&[names(&(file.to_owned(), file.to_owned()))?])
}

/// Makes the mounts in a child process, with which they end.
fn try_first(mounts: &[(CString, CString)]) -> io::Result<()> {
    // SAFETY: the child makes system calls alone, and ends.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let code =
                enter_and_mount(mounts).map_or_else(|error| error.raw_os_error(), |()| Some(0));
            // SAFETY: ends the child without running what the parent has to run.
            unsafe { libc::_exit(code.unwrap_or(libc::EIO)) }
        }
        child => result_of(child),
    }
}

fn names(mount: &Mount) -> io::Result<(CString, CString)> {
    let (from, to) = mount;
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes());
    Ok((name(from)?, name(to)?))
}

/// Waits for a child that ends with an error's number.
fn result_of(child: libc::pid_t) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: a child of ours, and room for its status.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    match libc::WEXITSTATUS(status) {
        0 if libc::WIFEXITED(status) => Ok(()),
        0 => Err(io::Error::other("the process that tried it was killed")),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

#[expect(clippy::disallowed_methods, reason = "of /proc")]
fn enter_and_mount(mounts: &[(CString, CString)]) -> io::Result<()> {
    // SAFETY: numbers of this process.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    if user != 0 || unshare(libc::CLONE_NEWNS).is_err() {
        unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)?;
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    // Later mounts of the system are still seen, and ours aren't seen there.
    mount(None, c"/", libc::MS_REC | libc::MS_SLAVE)?;
    mounts.iter().try_for_each(|(from, to)| mount(Some(from), to, libc::MS_BIND))
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: namespaces alone; memory and files stay shared with nothing.
    if unsafe { libc::unshare(flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn mount(from: Option<&CString>, to: &std::ffi::CStr, flags: libc::c_ulong) -> io::Result<()> {
    let from = from.map_or(std::ptr::null(), |from| from.as_ptr());
    let none = std::ptr::null();
    // SAFETY: strings, or null where the call looks at none.
    let code = unsafe { libc::mount(from, to.as_ptr(), none, flags, none.cast()) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn file_that_is_not_regular_has_no_identity() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("libcuda.so.1");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert_eq!(identity(&fifo), None); // and it waits for no writer
        assert!(identity(Path::new("/proc/self/exe")).is_some());
    }
}
