//! Accounts of limits of a process that is written, and of one that starts from a folder.
//!
//! A thread of REEF's library has the accounts file in a file table of its own, which CRIU does not
//! write, and the program's table has the file under the same number. So the thread finds it there
//! after a start, unless the program has closed it.

use crate::error::Error;
use crate::record::Process;
use crate::written::proc::{entries, threads};
use reef_guest::limit::{ReservedSlot, SavedSlot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Beginning of the name of the thread.
const THREAD: &str = "reef-accounts";
/// End of the name of an accounts file.
const EXTENSION: &str = "accounts";

/// Slot of a process, as a description has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// Process number.
    pid: u32,
    /// Accounts file.
    file: PathBuf,
    words: [u64; SavedSlot::WORDS],
}

fn failed(pid: u32) -> impl Fn(io::Error) -> Error {
    move |error| Error::Criu { why: format!("process {pid}: accounts of its limits: {error}") }
}

/// Checks that the accounts of a process can be written with it.
///
/// # Errors
///
/// `Criu`: the program has closed the file of its accounts.
pub(crate) fn check(pid: u32) -> Result<(), Error> {
    files(pid).map(drop).map_err(failed(pid))
}

/// Numbers and paths of the accounts files of a process.
fn files(pid: u32) -> io::Result<BTreeSet<(OsString, PathBuf)>> {
    let mut found = BTreeSet::new();
    for task in threads(pid, THREAD) {
        let mut is_open = false;
        for file in entries(task.join("fd")) {
            let Ok(path) = fs::read_link(file.path()) else { continue };
            if path.extension().is_none_or(|extension| extension != EXTENSION) {
                continue;
            }
            let own = Path::new("/proc").join(pid.to_string()).join("fd").join(file.file_name());
            if fs::read_link(own).ok().as_deref() != Some(&*path) {
                return Err(io::Error::other("the program has closed their file"));
            }
            is_open = true;
            found.insert((file.file_name(), path));
        }
        if !is_open {
            return Err(io::Error::other("their file was removed"));
        }
    }
    Ok(found)
}

/// Reads the slots of a stopped process.
///
/// # Errors
///
/// `Criu`: it has an accounts file without a slot, or the system refuses.
pub(crate) fn read(pid: u32) -> Result<Vec<Account>, Error> {
    let slots = || -> io::Result<Vec<Account>> {
        let started = Process::of(pid)?.start;
        let mut all = Vec::new();
        for (number, path) in files(pid)? {
            let open = Path::new("/proc").join(pid.to_string()).join("fd").join(number);
            let file = fs::OpenOptions::new().read(true).open(open)?;
            let slot = SavedSlot::read(&file, path, pid, started)?;
            let slot = slot.ok_or_else(|| io::Error::other("it has no slot there"))?;
            all.push(Account { pid, file: slot.path().to_owned(), words: slot.words() });
        }
        Ok(all)
    };
    slots().map_err(failed(pid))
}

/// Slots of processes that are about to start. Those that don't are freed when this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved(Vec<(u32, ReservedSlot)>);

impl Reserved {
    /// Reserves the slots of all.
    ///
    /// # Errors
    ///
    /// `Criu`: a limit can't be kept.
    pub(crate) fn new(accounts: &[Account]) -> Result<Self, Error> {
        let reserve = |account: &Account| {
            let slot = SavedSlot::new(account.file.clone(), &account.words);
            slot.and_then(|slot| slot.reserve()).map_err(failed(account.pid))
        };
        let all = accounts.iter().map(|account| Ok((account.pid, reserve(account)?)));
        all.collect::<Result<_, Error>>().map(Self)
    }

    /// Gives them to the processes, which run.
    pub(crate) fn hand_over(self) {
        for (pid, slot) in self.0 {
            if let Ok(process) = Process::of(pid) {
                slot.hand_over(process.start);
            }
        }
    }
}
