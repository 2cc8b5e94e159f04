//! Absence of guests: REEF's library leaves its daemon while the process is written to a folder.
//!
//! The library's thread that is connected to the daemon has a file table of its own, which CRIU
//! does not write. A word of the guest's page has that thread end, and start again. The pages are
//! found among the open files of the process, which takes the right to trace it.

use crate::error::Error;
use crate::written::accounts;
use crate::written::proc::{entries, threads};
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
/// Thread of a profile, which has files in a table of its own and times that the absence would be
/// in.
const PROFILE: &str = "reef-profile";

/// Absence of a process's guests. They join again when it is dropped.
#[derive(Debug)]
pub(crate) struct Absence(Vec<Mapping>);

impl Absence {
    /// Has the guests of processes leave their daemon. Blocks for some 0.2 s. A process that has
    /// none is left as it is.
    ///
    /// # Errors
    ///
    /// `Criu`: a thread can't leave, or doesn't. The guests join again.
    pub(crate) fn begin(pids: &[u32]) -> Result<Self, Error> {
        let mut absence = Self(Vec::new());
        for pid in pids {
            let failed = |why: &str| Error::Criu { why: format!("process {pid}: {why}") };
            if has_thread(*pid, PROFILE) {
                let why = "a program with --call-profile cannot be written: the profile's files \
                           stay open, and its times would count the absence";
                return Err(failed(why));
            }
            accounts::check(*pid)?;
            let pages = pages(*pid);
            if pages.iter().any(|(who, _)| who.class == Class::RealTime) {
                return Err(failed("a real-time guest cannot be written"));
            }
            absence.0.extend(pages.into_iter().map(|(_, page)| page));
        }
        absence.0.iter().for_each(|page| page.set_away(true));
        let begin = Instant::now();
        for pid in pids {
            while has_thread(*pid, LINK) {
                if begin.elapsed() >= TIMEOUT {
                    let why = format!("its thread {LINK} did not end within {TIMEOUT:?}");
                    return Err(Error::Criu { why: format!("process {pid}: {why}") });
                }
                std::thread::sleep(POLL_INTERVAL);
            }
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

fn has_thread(pid: u32, name: &str) -> bool {
    !threads(pid, name).is_empty()
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
