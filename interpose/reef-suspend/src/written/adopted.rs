//! Start of a process from a folder; for a parent, as a child of the thread that starts it.
//!
//! | step | refused: the folder |
//! |---|---|
//! | [`ProcessFolder::check_numbers`] ends what an interrupted start has left, and checks the numbers of the process, without its images | may be used later |
//! | [`ProcessFolder::open`] compares the images with their description | is of no use |
//! | [`ProcessFolder::reserve`] ends what an interrupted start has left, takes accounts of limits, and checks the numbers of the process | may be used later |
//! | [`Reserved::start`] has CRIU start the process, off its GPU | is of no use |

use crate::error::Error;
use crate::record::{Process, Suspended};
use crate::written::absence::Absence;
use crate::written::accounts;
use crate::written::criu::Criu;
use crate::written::files::{self, Adoption, HiddenClocks, Written};
use crate::written::numbers;
use crate::written::start::{StartRecord, end_interrupted};
use crate::written::tree::Tree;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

impl Written {
    /// Reserves the slots of its limits, and checks that the numbers of its processes are free.
    ///
    /// # Errors
    ///
    /// `Criu`: a limit cannot be kept, or a number is taken.
    pub(crate) fn reserve(&self) -> Result<accounts::Reserved, Error> {
        let accounts = accounts::Reserved::new(&self.accounts)?;
        numbers::check(&self.numbers)?; // last, so that few may take one before CRIU starts
        Ok(accounts)
    }

    /// Has CRIU start the process of these images by `restore`. Returns its number, and those that
    /// have to be brought back to a GPU, each of which `note` gets.
    ///
    /// # Errors
    ///
    /// Errors of `restore` and of `note`; `Record`: a process has ended.
    pub(crate) fn start(
        self,
        accounts: accounts::Reserved,
        restore: impl FnOnce(&Path) -> Result<u32, Error>,
        mut note: impl FnMut(&Suspended) -> Result<(), Error>,
    ) -> Result<(u32, Vec<Suspended>), Error> {
        let clocks = HiddenClocks::new(&self.images, self.is_of_this_boot);
        let root = restore(&self.images)?;
        drop(clocks);
        accounts.hand_over();
        let mut all = self.suspended;
        for record in &mut all {
            let pid = record.process.pid;
            record.process = Process::of(pid)
                .map_err(|error| Error::Record { what: format!("process {pid}"), error })?;
            note(record)?;
        }
        Ok((root, all))
    }
}

/// A folder from which a parent starts its process again.
#[derive(Debug)]
pub struct ProcessFolder {
    written: Written,
    adoption: Adoption,
}

impl ProcessFolder {
    /// Opens a folder, and compares all images with their description. Blocks for the reading, at
    /// most until `is_over`, which is asked before each MiB.
    ///
    /// # Errors
    ///
    /// `Record`: the folder is not this user's alone, or it is not as it was written; of the kind
    /// `Interrupted` if it was over before all of it was read.
    pub fn open(folder: &Path, is_over: &(dyn Fn() -> bool + Sync)) -> Result<Self, Error> {
        let refused = |why: &str| Error::Record {
            what: folder.display().to_string(),
            error: io::Error::other(why),
        };
        if files::own_description(folder).is_none() {
            return Err(refused("it must be a checkpoint that this user alone may open"));
        }
        let mut written = files::open(folder, is_over)?;
        let adoption = written.adoption.take();
        let adoption = adoption.ok_or_else(|| refused("it must be of a process with a parent"))?;
        Ok(Self { written, adoption })
    }

    /// Checks that the numbers of a folder's processes are free, before all of it is read. Before,
    /// it ends processes with these numbers that an interrupted start has left.
    ///
    /// # Errors
    ///
    /// `Criu`: a number is taken; `Record`: the folder has no description, or an altered one.
    pub fn check_numbers(folder: &Path) -> Result<(), Error> {
        end_interrupted(folder);
        numbers::check(&files::numbers(folder)?)
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
    /// Before, it ends processes that the start of a parent has left that was killed meanwhile.
    ///
    /// # Errors
    ///
    /// `Criu`: a limit cannot be kept, or a number is taken; `Record`: another parent starts a
    /// process from the folder, or the system refuses.
    pub fn reserve(self) -> Result<Reserved, Error> {
        let folder = self.written.images.parent().unwrap_or(Path::new("."));
        let record = StartRecord::take(folder).map_err(files::at(folder))?;
        let accounts = self.written.reserve()?;
        Ok(Reserved { kept: self, accounts, record })
    }
}

/// A folder whose process may start.
#[derive(Debug)]
pub struct Reserved {
    kept: ProcessFolder,
    accounts: accounts::Reserved,
    record: StartRecord,
}

impl Reserved {
    /// Starts the process as a child of the calling thread, with these ends of a socket pair and of
    /// a pipe. Returns those that have to be brought back to a GPU. Blocks.
    ///
    /// # Errors
    ///
    /// `Criu`, with the log's error, or if the start takes longer than `timeout`; `Record`: a
    /// process has ended, or the start cannot be noted. A child of the number of the process may be
    /// left then, which the caller must kill and wait for.
    pub fn start(
        self,
        criu: &Criu,
        ends: (OwnedFd, OwnedFd),
        timeout: Duration,
    ) -> Result<Vec<Suspended>, Error> {
        // The record stays until CRIU has ended.
        let Self { kept: ProcessFolder { written, adoption }, accounts, record } = self;
        record.note(&written.images, &ends).map_err(files::at(&written.images))?;
        let restore = |images: &Path| criu.restore_child(images, adoption.streams, ends, timeout);
        let (root, all) = written.start(accounts, restore, |_| Ok(()))?;
        if all.is_empty() {
            Tree::of(root).pids().iter().for_each(|pid| Absence::end(*pid));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::files::{Draft, START, boot};
    use std::fs;
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    /// Else the folder could not be used for as long as it runs.
    #[test]
    fn interrupted_start_is_ended_before_numbers_are_checked() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("one");
        let images = folder.join("images");
        Draft::new(&folder).unwrap().finish(&[], Vec::new(), Vec::new(), None).unwrap();
        let text = format!("{}\nsocket\npipe\n{}", boot().trim_end(), images.display());
        fs::write(folder.join(START), text).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo; read _", "criu", "restore", "-D"]).arg(&images);
        let mut criu = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        criu.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        ProcessFolder::check_numbers(&folder).unwrap();
        assert_eq!(criu.wait().unwrap().signal(), Some(9));
    }
}
