//! Record of a start by a parent, by which the next parent ends what a killed one has left.
//!
//! A process that CRIU starts ends with its parent only once CRIU has finished. CRIU goes on
//! without the parent, and the process has none then. So a record is written before CRIU starts,
//! and it is locked while the parent lives.
//!
//! | left | known by |
//! |---|---|
//! | CRIU, and processes that it has not finished | arguments: it restores from this folder |
//! | the process | both of its new streams, which no other one has |
//! | its descendants | their parents |

use crate::record::Process;
use crate::written::criu::signal;
use crate::written::files::{START, boot, lock};
use crate::written::numbers::wait_for_end;
use crate::written::proc::entries;
use crate::written::tree::Tree;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Error for a record that a living parent has locked.
const BUSY: &str = "a process must not be started from it by another daemon";
/// Maximum length of a record.
const MAX_BYTES: u64 = 64 << 10;

/// Record in a folder from which a process is started. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct StartRecord {
    path: PathBuf,
    /// Locked for as long as it is open.
    file: File,
}

impl StartRecord {
    /// Takes the record of a folder, and ends what an interrupted start has left.
    ///
    /// # Errors
    ///
    /// A start that runs; an error of the system.
    pub(crate) fn take(folder: &Path) -> io::Result<Self> {
        let record = Self::open(folder, true)?;
        record.end_left()?;
        Ok(record)
    }

    fn open(folder: &Path, creates: bool) -> io::Result<Self> {
        let path = folder.join(START);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(creates).truncate(false).mode(0o600);
        let file = reef_files::own(&path, &mut options)?;
        lock(&file, &path, BUSY)?;
        Ok(Self { path, file })
    }

    /// Notes a start from `images` that is about to begin, with these ends of new streams.
    ///
    /// # Errors
    ///
    /// An error of the system.
    pub(crate) fn note(&self, images: &Path, ends: &(OwnedFd, OwnedFd)) -> io::Result<()> {
        let link = |end: &OwnedFd| fs::read_link(format!("/proc/self/fd/{}", end.as_raw_fd()));
        let (socket, pipe) = (link(&ends.0)?, link(&ends.1)?);
        let text = [
            boot().trim_end().as_bytes(),
            socket.as_os_str().as_bytes(),
            pipe.as_os_str().as_bytes(),
            images.as_os_str().as_bytes(), // last, as a path may have line feeds
        ]
        .join(&b'\n');
        self.file.set_len(0)?;
        self.file.write_all_at(&text, 0)
    }

    /// Ends the processes of the start that is noted, if there are any. Blocks until they have
    /// ended, for a minute at most. Returns their numbers.
    fn end_left(&self) -> io::Result<Vec<u32>> {
        let mut text = Vec::new();
        (&self.file).take(MAX_BYTES).read_to_end(&mut text)?;
        let parts: Vec<&OsStr> =
            text.splitn(4, |byte| *byte == b'\n').map(OsStr::from_bytes).collect();
        let [of, socket, pipe, images] = parts[..] else { return Ok(Vec::new()) };
        if of.is_empty() || of != OsStr::new(boot().trim_end()) {
            return Ok(Vec::new());
        }
        let mut ended = Vec::new();
        loop {
            let mut found = find_left(images, [socket, pipe]);
            found.retain(|process| !ended.contains(&process.pid));
            if found.is_empty() {
                return Ok(ended);
            }
            found.iter().for_each(|process| drop(signal(process.pid, "KILL"))); // it may have ended
            wait_for_end(&found);
            ended.extend(found.iter().map(|process| process.pid));
        }
    }
}

impl Drop for StartRecord {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // the folder may have been removed
    }
}

/// Ends the processes that an interrupted start from a folder has left, as [`StartRecord::take`]
/// does. Returns their numbers; none while a start runs.
pub(crate) fn end_interrupted(folder: &Path) -> Vec<u32> {
    StartRecord::open(folder, false).and_then(|record| record.end_left()).unwrap_or_default()
}

/// Processes of a start from `images` with these streams, and their descendants.
fn find_left(images: &OsStr, streams: [&OsStr; 2]) -> Vec<Process> {
    let pids = entries("/proc").filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_its = |pid: &u32| is_restoring(*pid, images) || has_open(*pid, streams);
    let roots: Vec<u32> = pids.filter(is_its).collect();
    let mut all: Vec<u32> = roots.iter().flat_map(|pid| Tree::of(*pid).pids().to_vec()).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().filter_map(|pid| Process::of(pid).ok()).collect()
}

/// Returns whether the arguments of a process are those of a `criu` that restores from `images`, as
/// those of its children are until they are finished.
fn is_restoring(pid: u32, images: &OsStr) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let args: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    args.windows(3).any(|args| *args == [&b"restore"[..], &b"-D"[..], images.as_bytes()])
}

/// Returns whether a process has both streams open.
fn has_open(pid: u32, streams: [&OsStr; 2]) -> bool {
    let files = entries(format!("/proc/{pid}/fd"));
    let links: Vec<PathBuf> = files.flat_map(|file| fs::read_link(file.path())).collect();
    streams.iter().all(|stream| links.iter().any(|link| link.as_os_str() == *stream))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};

    /// A folder with a record of this boot, or of another one, that no parent has locked, and the
    /// files that are its streams.
    fn interrupted(boot: &str) -> (tempfile::TempDir, [PathBuf; 2], PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap(); // as the system shows open files
        let [socket, pipe, images] = ["socket", "pipe", "images"].map(|name| place.join(name));
        for file in [&socket, &pipe] {
            fs::write(file, "").unwrap();
        }
        let streams = format!("{}\n{}", socket.display(), pipe.display());
        let text = format!("{}\n{streams}\n{}", boot.trim_end(), images.display());
        fs::write(folder.path().join(START), text).unwrap();
        (folder, [socket, pipe], images)
    }

    /// Starts a script of the shell with these arguments, which says when it is ready, and has an
    /// input that does not end.
    fn start(script: &str, args: &[&OsStr]) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script, "criu"]).args(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    /// A criu in the middle of a start, with a child.
    fn restoring(images: &Path) -> Child {
        let script = "exec 3<&0; cat <&3 & echo; wait";
        start(script, &[OsStr::new("restore"), OsStr::new("-D"), images.as_os_str()])
    }

    #[track_caller]
    fn lives(mut child: Child) {
        assert_eq!(child.try_wait().unwrap(), None, "it is not of the start");
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn processes_of_an_interrupted_start_are_ended() {
        let (folder, [socket, pipe], images) = interrupted(&boot());
        let mut criu = restoring(&images);
        let other = restoring(&folder.path().join("other"));
        let holding = "exec 3<\"$1\" 4>\"$2\"; echo; read _";
        let mut finished = start(holding, &[socket.as_os_str(), pipe.as_os_str()]);
        let half = start(holding, &[socket.as_os_str(), socket.as_os_str()]);
        let ended = end_interrupted(folder.path());
        assert_eq!(ended.len(), 3, "one has a child: {ended:?}");
        for child in [&mut criu, &mut finished] {
            assert!(ended.contains(&child.id()), "{ended:?}");
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
        criu.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap(); // its child has ended
        assert!(!folder.path().join(START).exists());
        lives(other);
        lives(half);
    }

    #[test]
    fn record_of_another_boot_ends_nothing() {
        for boot in ["", "0b7c3d52-0000-4000-8000-000000000000"] {
            let (folder, _, images) = interrupted(boot);
            let criu = restoring(&images);
            assert!(end_interrupted(folder.path()).is_empty(), "{boot}");
            assert!(!folder.path().join(START).exists());
            lives(criu);
        }
    }

    #[test]
    fn start_that_runs_is_left_alone() {
        let (folder, _, images) = interrupted("");
        let record = StartRecord::take(folder.path()).unwrap();
        let (socket, pipe) = (UnixStream::pair().unwrap().0, io::pipe().unwrap().1);
        record.note(&images, &(socket.into(), pipe.into())).unwrap();
        let text = fs::read_to_string(folder.path().join(START)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[3]), (boot().trim_end(), images.to_str().unwrap()));
        assert!(lines[1].starts_with("socket:[") && lines[2].starts_with("pipe:["), "{text}");
        let criu = restoring(&images);
        assert!(end_interrupted(folder.path()).is_empty());
        let error = StartRecord::take(folder.path()).unwrap_err().to_string();
        assert_eq!(error, BUSY);
        lives(criu);
        drop(record);
        assert!(!folder.path().join(START).exists());
    }
}
