//! CRIU, which writes processes of the host to files and starts them from these.
//!
//! It knows nothing of the device: the process is suspended before, so that it has no file of the
//! driver open. `criu` must be version 4 or newer, and needs the rights of root.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Variable that names another program than `criu`.
pub const VARIABLE: &str = "REEF_CRIU";
/// Oldest version that works on the systems of today's drivers.
const MIN_MAJOR: u32 = 4;
/// Name of the log that CRIU writes next to its images.
pub(crate) const LOG: &str = "criu.log";
/// File that CRIU writes at a start: the number of the process.
pub(crate) const PID_FILE: &str = "pid";
/// Maximum size of a file without a name, such as the memory that a worker shares with its program.
const MAX_UNLINKED: &str = "64G";
/// Interval between polls of the program, if it has a timeout.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum length of a log that is read for its error.
const MAX_LOG_BYTES: u64 = 64 << 20;

/// Streams between a process and its parent, which are made anew at a start: inodes, as
/// `/proc/PID/fd` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streams {
    /// The process's end of a socket pair.
    pub socket: u64,
    /// The pipe to which it writes its outputs.
    pub pipe: u64,
}

/// The program.
#[derive(Clone, Debug)]
pub struct Criu(PathBuf);

impl Criu {
    /// Finds the program: `named`, or `criu` in the search path.
    ///
    /// # Errors
    ///
    /// `Criu`: it is not there, or too old.
    pub fn find(named: Option<OsString>) -> Result<Self, Error> {
        let program = PathBuf::from(named.unwrap_or_else(|| "criu".into()));
        let output = Command::new(&program).arg("--version").stdin(Stdio::null()).output();
        let name = program.display().to_string();
        let failed = |why: String| Error::Criu { why };
        let output = output.map_err(|error| {
            failed(format!("{name}: {error}; install CRIU {MIN_MAJOR} or newer"))
        })?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match version(&text) {
            Some((major, _)) if major >= MIN_MAJOR => Ok(Self(program)),
            Some((major, minor)) => Err(failed(format!(
                "{name}: version must be {MIN_MAJOR} or newer, got {major}.{minor}"
            ))),
            None => Err(failed(format!("{name}: it doesn't say its version"))),
        }
    }

    /// Finds the program that [`VARIABLE`] names, or `criu` in the search path.
    ///
    /// # Errors
    ///
    /// Errors of [`find`](Self::find).
    pub fn from_environment() -> Result<Self, Error> {
        Self::find(std::env::var_os(VARIABLE))
    }

    fn command(&self, action: &str, images: &Path) -> Command {
        let mut command = Command::new(&self.0);
        command
            .arg(action)
            .arg("-D")
            .arg(images)
            .args(["-o", LOG, "-v2"])
            .args(["--shell-job", "--file-locks"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Writes a process with its descendants to a folder, and leaves it stopped. Its other end of
    /// `streams` may belong to a process that stays. Blocks.
    ///
    /// # Errors
    ///
    /// `Criu`, with the log's error: the process runs on.
    pub(crate) fn dump(
        &self,
        pid: u32,
        images: &Path,
        streams: Option<Streams>,
    ) -> Result<(), Error> {
        let mut command = self.command("dump", images);
        command.args(["-t", &pid.to_string(), "--leave-stopped", "--ghost-limit", MAX_UNLINKED]);
        if let Some(Streams { socket, .. }) = streams {
            command.args(["--external", &format!("unix[{socket}]")]);
        }
        run(command, images, None)
    }

    /// Starts a process from a folder, under its number. Blocks until it runs.
    ///
    /// # Errors
    ///
    /// `Criu`, with the log's error: there is no process.
    pub(crate) fn restore(&self, images: &Path) -> Result<u32, Error> {
        start(self.command("restore", images), images, None)
    }

    /// Starts a process from a folder as a child of the calling thread, with these ends of new
    /// streams in the place of those that it `had`. Blocks until it runs.
    ///
    /// # Errors
    ///
    /// Errors of [`restore`](Self::restore), also if the start takes longer than `timeout`. A child
    /// may be left then, which the caller must kill and wait for.
    pub(crate) fn restore_child(
        &self,
        images: &Path,
        had: Streams,
        ends: (OwnedFd, OwnedFd),
        timeout: Duration,
    ) -> Result<u32, Error> {
        let (socket, pipe) = ends;
        let mut command = self.command("restore", images);
        // Descriptor 0 has to stay: CRIU copies it, after it has moved those that are inherited.
        command.stdout(Stdio::from(socket)).stderr(Stdio::from(pipe));
        command.arg("--restore-sibling").process_group(0); // Ctrl-C is for the caller
        command.args(["--inherit-fd", &format!("fd[1]:socket:[{}]", had.socket)]);
        command.args(["--inherit-fd", &format!("fd[2]:pipe:[{}]", had.pipe)]);
        start(command, images, Some(timeout))
    }
}

/// Runs a `restore`, and returns the number of the process.
fn start(mut command: Command, images: &Path, timeout: Option<Duration>) -> Result<u32, Error> {
    let file = images.join(PID_FILE);
    let _ = fs::remove_file(&file); // of an earlier start
    command.args(["--restore-detached", "--pidfile", PID_FILE]);
    run(command, images, timeout)?;
    let text = reef_files::read_to_string(&file, reef_files::MAX_TOKEN_BYTES).ok();
    let pid = text.and_then(|text| text.trim().parse().ok());
    pid.ok_or_else(|| Error::Criu { why: format!("no process number in {}", file.display()) })
}

/// Major and minor number of `Version: 4.2`.
fn version(text: &str) -> Option<(u32, u32)> {
    let line = text.lines().find_map(|line| line.strip_prefix("Version:"))?;
    let (major, minor) = line.trim().split_once('.')?;
    let minor = minor.split(|letter: char| !letter.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Runs the program until its end. Streams that it gets are closed here afterwards.
fn run(mut command: Command, images: &Path, timeout: Option<Duration>) -> Result<(), Error> {
    let ended = match timeout {
        None => command.status(),
        Some(timeout) => status_within(&mut command, timeout),
    };
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::Criu { why: format!("criu: {}", reason(images, status.code())) }),
        Err(error) => Err(Error::Criu { why: format!("criu: {error}") }),
    }
}

/// As [`Command::status`], for this time at most: then the program is killed.
fn status_within(command: &mut Command, timeout: Duration) -> io::Result<ExitStatus> {
    let (mut child, begin) = (command.spawn()?, Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if begin.elapsed() >= timeout {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other(format!("it did not end within {timeout:?}")));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The first error of the log that is one: a limit that can't be raised does no harm.
fn reason(images: &Path, code: Option<i32>) -> String {
    let log = reef_files::read(images.join(LOG), MAX_LOG_BYTES).unwrap_or_default();
    let log = String::from_utf8_lossy(&log).into_owned();
    let errors = log.lines().filter_map(|line| Some(line.split_once("Error ")?.1.trim()));
    let line = errors.clone().find(|line| !line.contains("rlimit:"));
    match (line, code) {
        (Some(line), _) => line.to_owned(),
        (None, Some(code)) => format!("exit code {code}, and no error in its log"),
        (None, None) => "it was killed".to_owned(),
    }
}

/// Has a stopped process go on, or ends it.
pub(crate) fn signal(pid: u32, signal: &str) -> io::Result<()> {
    let status = Command::new("kill").args(["-s", signal, &pid.to_string()]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("kill: {status}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_what_criu_says() {
        assert_eq!(version("Version: 4.2\nGitID: v4.2\n"), Some((4, 2)));
        assert_eq!(version("Version: 3.17.1\n"), Some((3, 17)));
        assert_eq!(version("criu"), None);
    }

    #[test]
    fn program_that_does_not_end_in_time_is_killed() {
        let mut command = Command::new("cat");
        let (input, _output) = io::pipe().unwrap(); // never ends
        command.stdin(input);
        let error = status_within(&mut command, Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.to_string(), "it did not end within 1ms");
        let status = status_within(&mut Command::new("true"), Duration::from_secs(60)).unwrap();
        assert!(status.success());
    }

    /// Else Ctrl-C would end a start, whose folder would count as one of no use.
    #[test]
    fn start_of_a_child_is_in_a_group_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("criu");
        // No descriptor of this process is open for writing, which another test's child could have.
        let text = r#"printf '#!/bin/sh\ncut -d" " -f5 /proc/self/stat >"$3/pid"\n' >"$0""#;
        let mut make = Command::new("sh");
        make.args(["-c", &format!("{text} && chmod 700 \"$0\"")]).arg(&program);
        assert!(make.status().unwrap().success());
        let (input, output) = io::pipe().unwrap();
        let (had, timeout) = (Streams { socket: 1, pipe: 2 }, Duration::from_secs(60));
        let ends = (OwnedFd::from(input), OwnedFd::from(output));
        let group = Criu(program).restore_child(folder.path(), had, ends, timeout).unwrap();
        let own = fs::read_to_string("/proc/self/stat").unwrap();
        let own = own.rsplit(") ").next().unwrap().split(' ').nth(2).unwrap().to_owned();
        assert_ne!(group.to_string(), own);
    }

    #[test]
    fn absent_program_is_an_error_with_the_remedy() {
        let error = Criu::find(Some("/nowhere/criu".into())).unwrap_err().to_string();
        assert!(error.contains("install CRIU 4 or newer"), "{error}");
        let error = Criu::find(Some("true".into())).unwrap_err().to_string();
        assert_eq!(error, "true: it doesn't say its version");
    }
}
