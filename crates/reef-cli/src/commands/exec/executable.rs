//! Executable file of a process after a command was started.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
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
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Interpreter that a script's first line names, and its argument.
fn interpreter(file: &Path) -> Option<(OsString, Vec<OsString>)> {
    let mut line = Vec::new();
    let file = reef_files::regular(file).ok()?;
    BufReader::new(file).take(LINE).read_until(b'\n', &mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.trim_ascii();
    let (name, argument) = match line.iter().position(u8::is_ascii_whitespace) {
        None => (line, None),
        Some(at) => (&line[..at], Some(line[at..].trim_ascii())),
    };
    let owned = |text: &[u8]| OsStr::from_bytes(text).to_owned();
    Some((owned(name), argument.map(owned).into_iter().collect()))
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
        let itself = folder.join("itself");
        assert_eq!(script("itself", &format!("#!{}", itself.display())), None);
        let given = ["sh".into(), "-c".into()];
        assert_eq!(executable(OsStr::new("env"), &given), Some(shell));
        assert_eq!(executable(OsStr::new("no-such-program"), &[]), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
