//! Folders of libraries under the names that programs search for.

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Variable of the linker's search path.
pub(super) const VARIABLE: &str = "LD_LIBRARY_PATH";

/// Returns a folder in which the libraries have these names: another folder for other libraries, so
/// that running programs keep theirs.
///
/// # Errors
///
/// The folder can't be created, or others may write there.
pub(super) fn folder(links: &[(&str, &Path)]) -> Result<PathBuf> {
    let mut hash = DefaultHasher::new();
    links.hash(&mut hash);
    let base = reef_serve::folder(None);
    let folder = base.join(format!("libraries-{:016x}", hash.finish()));
    for folder in [&base, &folder] {
        own(folder).with_context(|| folder.display().to_string())?;
    }
    for (name, library) in links {
        link(library, &folder.join(name))
            .with_context(|| folder.join(name).display().to_string())?;
    }
    Ok(folder)
}

/// Creates a folder, or checks that no other user can write there.
pub(super) fn own(folder: &Path) -> Result<()> {
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
    let found = std::fs::symlink_metadata(folder)?;
    let (user, mode) = (rustix::process::geteuid().as_raw(), found.mode() & 0o777);
    if !found.is_dir() || found.uid() != user || mode & 0o022 != 0 {
        let uid = found.uid();
        bail!(
            "must be a folder of user {user} that no other user can write, got user {uid}, mode {mode:o}"
        );
    }
    Ok(())
}

fn link(library: &Path, link: &Path) -> std::io::Result<()> {
    if std::fs::read_link(link).is_ok_and(|target| target == library) {
        return Ok(());
    }
    let mut new = link.as_os_str().to_owned();
    new.push(format!(".{}", std::process::id()));
    let _ = std::fs::remove_file(&new); // of a process of this number that was killed
    symlink(library, &new)?;
    std::fs::rename(&new, link)
}

/// Returns the list of preloaded libraries with these first. The linker separates paths there by
/// spaces and colons. So a library whose path has one of them is listed by its link in this folder.
///
/// # Errors
///
/// The link's path has one of them as well.
pub(super) fn preload(libraries: &[(&str, &Path)], folder: &Path) -> Result<OsString> {
    let is_whole = |path: &Path| !path.as_os_str().as_bytes().iter().any(|c| b" :".contains(c));
    let mut all = Vec::new();
    for (name, library) in libraries {
        let link = folder.join(name);
        if is_whole(library) {
            all.push(OsString::from(library));
        } else if is_whole(&link) {
            all.push(link.into());
        } else {
            let (library, link) = (library.display(), link.display());
            bail!("LD_PRELOAD: paths must not have spaces or colons, got {library} and {link}");
        }
    }
    all.extend(std::env::var_os("LD_PRELOAD").filter(|more| !more.is_empty()));
    Ok(all.join(&OsString::from(":")))
}

/// Returns the search path with this folder first, and once.
pub(super) fn path(folder: &Path) -> OsString {
    let more = std::env::var_os(VARIABLE).unwrap_or_default();
    let more = std::env::split_paths(&more).filter(|it| it != folder && !it.as_os_str().is_empty());
    let all: Vec<_> = [folder.to_owned()].into_iter().chain(more).map(OsString::from).collect();
    all.join(&OsString::from(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_with_a_space_in_its_path_is_preloaded_by_its_link() {
        let spaced = ("libcuda.so.1", Path::new("/my libraries/a.so"));
        let plain = ("libnvidia-ml.so.1", Path::new("/b.so"));
        let all = preload(&[spaced, plain], Path::new("/run/reef")).unwrap();
        let all = all.into_string().unwrap();
        assert!(all.starts_with("/run/reef/libcuda.so.1:/b.so"), "{all}");
        let error = preload(&[spaced], Path::new("/my:run")).unwrap_err().to_string();
        assert!(error.ends_with("got /my libraries/a.so and /my:run/libcuda.so.1"), "{error}");
    }

    #[test]
    fn folder_has_its_links_and_refuses_other_users() {
        let links = [("libcuda.so", Path::new("/nowhere/a.so"))];
        let first = folder(&links).unwrap();
        assert_eq!(folder(&links).unwrap(), first);
        assert_eq!(std::fs::read_link(first.join("libcuda.so")).unwrap(), links[0].1);
        let left = first.join(format!("libcuda.so.{}", std::process::id()));
        std::fs::rename(first.join("libcuda.so"), &left).unwrap();
        assert_eq!(folder(&links).unwrap(), first);
        assert_eq!(std::fs::read_link(first.join("libcuda.so")).unwrap(), links[0].1);
        let other = folder(&[("libcuda.so", Path::new("/nowhere/b.so"))]).unwrap();
        assert_ne!(other, first);
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(own(&other).unwrap_err().to_string().contains("mode 777"));
        [first, other].iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
    }
}
