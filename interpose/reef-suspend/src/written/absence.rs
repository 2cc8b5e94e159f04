//! Absence of guests: REEF's library leaves its daemon while the process is written to a folder.
//!
//! The library's thread that is connected to the daemon has a file table of its own, which CRIU
//! does not write. A word of the guest's page has that thread end, and start again. The pages are
//! found among the open files of the process, which takes the right to trace it.

use crate::error::Error;
use reef_guest::page::{Class, Identity, Mapping, PageFile};
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum time in which the library's thread ends.
const TIMEOUT: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Beginning of the name of the thread that ends.
const LINK: &str = "reef-link";
/// Threads that don't end, and what starts them.
const OTHERS: [(&str, &str); 3] = [
    ("reef-accounts", "limits"),
    ("reef-profile", "a profile"),
    ("reef-swap-socke", "--swappable"), // the system keeps 15 characters
];

/// Absence of a process's guests. They join again when it is dropped.
#[derive(Debug)]
pub(crate) struct Absence(Vec<Mapping>);

impl Absence {
    /// Has the guests of a process leave their daemon. Blocks for some 0.2 s. A process that has
    /// none is left as it is.
    ///
    /// # Errors
    ///
    /// `Criu`: a thread can't leave, or doesn't. The guests join again.
    pub(crate) fn begin(pid: u32) -> Result<Self, Error> {
        let failed = |why: String| Error::Criu { why: format!("process {pid}: {why}") };
        if let Some((_, what)) = OTHERS.iter().find(|(name, _)| has_thread(pid, name)) {
            return Err(failed(format!("a program with {what} cannot be written")));
        }
        let pages = pages(pid);
        if pages.iter().any(|(who, _)| who.class == Class::RealTime) {
            return Err(failed("a real-time guest cannot be written".into()));
        }
        let absence = Self(pages.into_iter().map(|(_, page)| page).collect());
        absence.0.iter().for_each(|page| page.set_away(true));
        let begin = Instant::now();
        while has_thread(pid, LINK) {
            if begin.elapsed() >= TIMEOUT {
                return Err(failed(format!("its thread {LINK} did not end within {TIMEOUT:?}")));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(absence)
    }

    /// Ends the absence of a process that runs again.
    pub(crate) fn end(pid: u32) {
        drop(Self(pages(pid).into_iter().map(|(_, page)| page).collect()));
    }
}

impl Drop for Absence {
    fn drop(&mut self) {
        self.0.iter().for_each(|page| page.set_away(false));
    }
}

/// Entries of a folder; none if it is not there, as that of a process that has ended.
fn entries(folder: impl AsRef<Path>) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

fn has_thread(pid: u32, name: &str) -> bool {
    let comm = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
    entries(format!("/proc/{pid}/task")).flat_map(comm).any(|found| found.trim_end() == name)
}

/// Pages that a process has open, in any of its threads' tables.
fn pages(pid: u32) -> Vec<(Identity, Mapping)> {
    let mut found = Vec::new();
    for task in entries(format!("/proc/{pid}/task")) {
        for file in entries(task.path().join("fd")) {
            let is_page = |to: &Path| to.to_string_lossy().starts_with("/memfd:reef-guest");
            if fs::read_link(file.path()).is_ok_and(|to| is_page(&to)) {
                found.extend(open(&file.path()));
            }
        }
    }
    found
}

fn open(path: &Path) -> io::Result<(Identity, Mapping)> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    PageFile::open(file.into()).map(|(who, _, page)| (who, page))
}
