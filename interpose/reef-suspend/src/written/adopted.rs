//! Start of a process from a folder, as a child of the thread that starts it.
//!
//! | step | refused: the folder |
//! |---|---|
//! | [`ProcessFolder::open`] compares the images with their description | is of no use |
//! | [`ProcessFolder::reserve`] takes accounts of limits, and checks the numbers of the process | may be used later |
//! | [`Reserved::start`] has CRIU start the process, off its GPU | is of no use |

use crate::error::Error;
use crate::record::{Process, Suspended};
use crate::written::absence::Absence;
use crate::written::accounts;
use crate::written::criu::Criu;
use crate::written::files::{self, Adoption, HiddenClocks, Written};
use crate::written::numbers;
use crate::written::tree::Tree;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// A folder from which a parent starts its process again.
#[derive(Debug)]
pub struct ProcessFolder {
    written: Written,
    adoption: Adoption,
}

impl ProcessFolder {
    /// Opens a folder, and compares all images with their description. Blocks for the reading.
    ///
    /// # Errors
    ///
    /// `Record`: the folder is not this user's alone, or it is not as it was written.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let refused = |why: &str| Error::Record {
            what: folder.display().to_string(),
            error: io::Error::other(why),
        };
        if files::own_description(folder).is_none() {
            return Err(refused("it must be a checkpoint that this user alone may open"));
        }
        let mut written = files::open(folder)?;
        let adoption = written.adoption.take();
        let adoption = adoption.ok_or_else(|| refused("it must be of a process with a parent"))?;
        Ok(Self { written, adoption })
    }

    /// Text of the parent.
    pub fn note(&self) -> &str {
        &self.adoption.note
    }

    /// Number under which the process starts.
    pub fn process(&self) -> u32 {
        self.adoption.process
    }

    /// Processes that were on a GPU.
    pub fn suspended(&self) -> &[Suspended] {
        &self.written.suspended
    }

    /// Reserves the slots of its limits, and checks that the numbers of its processes are free.
    ///
    /// # Errors
    ///
    /// `Criu`: a limit cannot be kept, or a number is taken.
    pub fn reserve(self) -> Result<Reserved, Error> {
        let accounts = accounts::Reserved::new(&self.written.accounts)?;
        numbers::check(&self.written.numbers)?; // last, so that few may take one before CRIU starts
        Ok(Reserved { kept: self, accounts })
    }
}

/// A folder whose process may start.
#[derive(Debug)]
pub struct Reserved {
    kept: ProcessFolder,
    accounts: accounts::Reserved,
}

impl Reserved {
    /// Starts the process as a child of the calling thread, with these ends of a socket pair and of
    /// a pipe. Returns those that have to be brought back to a GPU. Blocks.
    ///
    /// # Errors
    ///
    /// `Criu`, with the log's error, or if the start takes longer than `timeout`; `Record`: a
    /// process has ended. A child of the number of the process may be left then, which the caller
    /// must kill and wait for.
    pub fn start(
        self,
        criu: &Criu,
        ends: (OwnedFd, OwnedFd),
        timeout: Duration,
    ) -> Result<Vec<Suspended>, Error> {
        let Self { kept: ProcessFolder { written, adoption }, accounts } = self;
        let _clocks = HiddenClocks::new(&written.images, written.is_of_this_boot);
        let root = criu.restore_child(&written.images, adoption.streams, ends, timeout)?;
        accounts.hand_over();
        let mut all = written.suspended;
        for record in &mut all {
            let pid = record.process.pid;
            record.process = Process::of(pid)
                .map_err(|error| Error::Record { what: format!("process {pid}"), error })?;
        }
        if all.is_empty() {
            Tree::of(root).pids().iter().for_each(|pid| Absence::end(*pid));
        }
        Ok(all)
    }
}
