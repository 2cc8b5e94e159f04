//! Folder of a process, from which later ones start.
//!
//! | | |
//! |---|---|
//! | a start finds no folder | the program starts, and its process is written once it is idle |
//! | it finds one | the process starts from there, with its memory of that time |
//! | it refuses the folder | the folder is removed, unless it may be used later; the program starts |
//!
//! Numbers of processes are checked before the images are read, as they are often taken, and again
//! before the start.

use super::spawn::{Started, reap};
use crate::error::{Error, Result};
use crate::residency::facts::Held;
use reef_suspend::helper::AdoptedFolder;
use reef_suspend::store::{Store, name_of};
use reef_suspend::{Adoption, Criu, ProcessFolder, Streams, Suspended};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Facts of a conversation, which goes on in another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::process) struct Note {
    /// Number of the last request.
    pub(in crate::process) request: u64,
    /// First message of the process, which has its tensors.
    pub(in crate::process) ready: String,
}

/// Place of the folder of a process.
#[derive(Debug, Clone)]
pub(in crate::process) struct WarmFolder {
    store: Arc<Store>,
    name: String,
}

/// A folder that is as it was written.
#[derive(Debug)]
pub(in crate::process) struct Found {
    kept: ProcessFolder,
    pub(in crate::process) note: Note,
}

/// A process that was started from its folder, and what has to be brought back to a device.
#[derive(Debug)]
pub(in crate::process) struct WarmStart {
    pub(in crate::process) started: Started,
    pub(in crate::process) number: u32,
    pub(in crate::process) suspended: Vec<Suspended>,
}

impl WarmFolder {
    /// Returns the place for a process of this command, which depends on the files of `folder` and
    /// on `facts`.
    ///
    /// # Errors
    ///
    /// `Failed` if a file cannot be read.
    pub(in crate::process) fn of(
        store: &Arc<Store>,
        command: &Command,
        folder: &Path,
        facts: &[u8],
    ) -> Result<Self> {
        let name = name_of(command, folder, facts);
        let name = name.map_err(|e| Error::system(&folder.display().to_string(), e))?;
        Ok(Self { store: store.clone(), name })
    }

    /// Returns whether this is the place of another one.
    pub(in crate::process) fn is_same(&self, other: &Self) -> bool {
        self.name == other.name
    }

    /// Returns whether there is a folder, of use or not.
    pub(in crate::process) fn is_taken(&self) -> bool {
        reef_files::is_taken(self.store.path(&self.name))
    }

    /// Opens the folder, and compares it with its description. Blocks for the reading. `None` if
    /// there is none, another process has a number of its own, or `is_over`; the log says why one
    /// is refused.
    pub(in crate::process) fn find(
        &self,
        title: &str,
        is_over: &(dyn Fn() -> bool + Sync),
    ) -> Option<Found> {
        if !self.is_taken() {
            return None;
        }
        let numbers = ProcessFolder::check_numbers(&self.store.path(&self.name));
        if let Err(why @ reef_suspend::Error::Criu { .. }) = numbers {
            tracing::warn!(model = %title, %why, "the program starts anew: its folder stays");
            return None;
        }
        match self.open(is_over) {
            Ok(found) => Some(found),
            Err(_) if is_over() => None, // the folder may be as it was written
            Err(why) => {
                tracing::warn!(model = %title, %why, "the program starts anew: its folder is refused");
                self.remove(title);
                None
            }
        }
    }

    fn open(&self, is_over: &(dyn Fn() -> bool + Sync)) -> Result<Found> {
        let refused = |why: String| Error::Failed(why);
        let kept = ProcessFolder::open(&self.store.path(&self.name), is_over)
            .map_err(|e| refused(e.to_string()))?;
        let note = serde_json::from_str(kept.note()).map_err(|e| refused(e.to_string()))?;
        Ok(Found { kept, note })
    }

    /// Starts the process of a folder as a child of this thread with these ends, in `timeout` at
    /// most. Blocks.
    ///
    /// # Errors
    ///
    /// `Failed`, with the reason: there is no process. The folder is removed, unless a limit or a
    /// number was in its way.
    pub(in crate::process) fn start(
        &self,
        title: &str,
        found: Found,
        theirs: (OwnedFd, OwnedFd),
        timeout: Duration,
    ) -> Result<WarmStart> {
        let failed = |error: reef_suspend::Error| Error::Failed(error.to_string());
        let number = found.kept.process();
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Error::Failed(format!("no process has number {number}")))?;
        let criu = Criu::from_environment().map_err(failed)?;
        let reserved = found.kept.reserve().map_err(failed)?;
        match reserved.start(&criu, theirs, timeout) {
            Ok(suspended) => {
                self.store.note_use(&self.name);
                Ok(WarmStart { started: Started::Warm(pid), number, suspended })
            }
            Err(error) => {
                reap(pid);
                self.remove(title);
                Err(failed(error))
            }
        }
    }

    /// Removes the folder, which is of no use.
    pub(in crate::process) fn remove(&self, title: &str) {
        if let Err(why) = self.store.remove(&self.name) {
            tracing::warn!(model = %title, %why, "the folder of the process stays");
        }
    }

    /// Returns the folder for a process, with facts for its start.
    ///
    /// # Errors
    ///
    /// `Failed` if the note is none of JSON.
    pub(in crate::process) fn writing(
        &self,
        process: u32,
        streams: Streams,
        note: &Note,
    ) -> Result<AdoptedFolder> {
        let note = serde_json::to_string(note).map_err(|e| Error::system("JSON", e))?;
        let adoption = Adoption { process, streams, note };
        Ok(AdoptedFolder { folder: self.store.path(&self.name), adoption })
    }

    /// Removes folders that are too many with this one.
    pub(in crate::process) fn trim(&self, title: &str) {
        let own = self.store.path(&self.name);
        for removed in self.store.trim() {
            if removed == own {
                let why = "it takes more than models.checkpoints_mib";
                tracing::warn!(model = %title, why, "the folder of the process is removed");
            } else {
                let folder = removed.display();
                tracing::info!(%folder, "removed, as it was unused for the longest time");
            }
        }
    }
}

impl Found {
    /// Returns the bytes that the process had on its devices.
    pub(in crate::process) fn held(&self) -> Held {
        let held = self.kept.suspended().iter().flat_map(|one| &one.held);
        held.filter_map(|held| Some((held.uuid()?, held.bytes))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is not read is not refused. An empty folder is the rest of a removal.
    #[test]
    fn folder_whose_reading_is_over_stays() {
        let parent = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(&parent.path().join("all"), u64::MAX).unwrap());
        let folder = WarmFolder { store, name: "one".into() };
        let path = folder.store.path(&folder.name);
        std::fs::create_dir(&path).unwrap();
        assert!(folder.find("m/1", &|| true).is_none() && path.exists());
        assert!(folder.find("m/1", &|| false).is_none() && !path.exists());
    }
}
