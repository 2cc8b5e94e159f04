//! Executable file of a process after a command was started.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most interpreters that are started one by another, as in the kernel.
const DEEPEST: usize = 4;
/// The kernel reads so much of a script's first line.
const LINE: u64 = 256;

/// The executable file of a command, found in `PATH`; of a script, that of its interpreter, also of
/// one that `env` finds. `None`: there is none.
pub(super) fn executable(program: &OsStr, args: &[OsString]) -> Option<PathBuf> {
    find(program, args, DEEPEST)
}

fn find(program: &OsStr, args: &[OsString], deepest: usize) -> Option<PathBuf> {
    let file = in_path(program)?;
    if file.file_name() == Some(OsStr::new("env")) {
        let (found, rest) = args.split_first()?;
        return find(found, rest, deepest.checked_sub(1)?);
    }
    match interpreter(&file) {
        None => Some(file),
        Some((interpreter, args)) => find(&interpreter, &args, deepest.checked_sub(1)?),
    }
}

fn in_path(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|file| file.is_file());
    }
    in_folders(&std::env::var_os("PATH")?, program)
}

/// The first file of this name that may be run, as the system passes over others.
fn in_folders(path: &OsStr, program: &OsStr) -> Option<PathBuf> {
    let may_run = |file: &PathBuf| {
        file.metadata().is_ok_and(|facts| facts.is_file() && facts.mode() & 0o111 != 0)
    };
    std::env::split_paths(path).map(|folder| folder.join(program)).find(may_run)
}

/// Interpreter that a script's first line names, and its argument.
fn interpreter(file: &Path) -> Option<(OsString, Vec<OsString>)> {
    let mut line = Vec::new();
    let file = reef_files::regular(file).ok()?;
    BufReader::new(file).take(LINE).read_until(b'\n', &mut line).ok()?;
    let line = line.strip_prefix(b"#!")?;
    let line = without_blanks(line.strip_suffix(b"\n").unwrap_or(line));
    let (name, argument) = match line.iter().position(|byte| matches!(byte, b' ' | b'\t')) {
        None => (line, None),
        Some(at) => (&line[..at], Some(without_blanks(&line[at..]))),
    };
    let owned = |text: &[u8]| OsStr::from_bytes(text).to_owned();
    Some((owned(name), argument.map(owned).into_iter().collect()))
}

/// A text without the blanks around it that the kernel leaves out of a script's first line.
fn without_blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_runs_its_interpreter_and_a_name_is_looked_up() {
        let folder = std::env::temp_dir().join(format!("reef-executable-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let script = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).unwrap();
            executable(folder.join(name).as_os_str(), &[])
        };
        let shell = in_path(OsStr::new("sh")).unwrap();
        assert_eq!(executable(OsStr::new("sh"), &[]), Some(shell.clone()));
        assert_eq!(script("env", "#!/usr/bin/env sh\n"), None, "env itself, without a program");
        assert_eq!(script("found", "#! /usr/bin/env sh\necho"), Some(shell.clone()));
        assert_eq!(script("named", "#!/bin/sh -e"), Some("/bin/sh".into()));
        let named = folder.join("named");
        assert_eq!(script("nested", &format!("#!{}", named.display())), Some("/bin/sh".into()));
        assert_eq!(script("blanks", "#!\t /bin/sh \t-e \n"), Some("/bin/sh".into()));
        assert_eq!(script("returned", "#!/bin/sh\r\n"), None, "a return belongs to the name");
        let itself = folder.join("itself");
        assert_eq!(script("itself", &format!("#!{}", itself.display())), None);
        let given = ["sh".into(), "-c".into()];
        assert_eq!(executable(OsStr::new("env"), &given), Some(shell));
        assert_eq!(executable(OsStr::new("no-such-program"), &[]), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn file_that_may_not_be_run_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["a", "b"].map(|name| folder.path().join(name));
        for (place, mode) in [(&first, 0o644), (&second, 0o755)] {
            std::fs::create_dir(place).unwrap();
            std::fs::write(place.join("train"), "").unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(place.join("train"), mode).unwrap();
        }
        let path = std::env::join_paths([&first, &second]).unwrap();
        assert_eq!(in_folders(&path, OsStr::new("train")), Some(second.join("train")));
    }
}
