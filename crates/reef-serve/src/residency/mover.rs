//! Moves of processes off the GPU and back, and the memory that this takes.

use super::facts::Held;
use crate::error::Result;
use crate::suspend::gpu_memory::GpuMemory;
use crate::suspend::suspensions::{Suspender, Suspensions};
use reef_nvml::Nvml;
use reef_suspend::helper::AdoptedFolder;
use reef_suspend::{Suspended, Uuid};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Maximum time for the work of an idle process to end.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Moves of processes, and the facts that decide about them.
pub(crate) trait Mover: Debug + Send + Sync {
    /// Has a process leave the GPU. Returns the bytes that it had there. Blocks.
    ///
    /// # Errors
    ///
    /// Why it stays.
    fn leave(&self, pid: u32) -> Result<Held>;

    /// Brings a process back. Blocks.
    ///
    /// # Errors
    ///
    /// Why it is still away.
    fn come_back(&self, pid: u32) -> Result<()>;

    /// Has `leaver`, which had these bytes, leave, and `returner` come back meanwhile. Tells
    /// the end of each once, when it comes: a refused departure before the return that lacks its
    /// room. Blocks until both have ended.
    fn turn_over(
        &self,
        leaver: u32,
        had: &Held,
        returner: u32,
        left: &mut dyn FnMut(Result<Held>),
        back: &mut dyn FnMut(Result<()>),
    );

    /// Returns the free bytes of a device. `None`: not known.
    fn free(&self, device: Uuid) -> Option<u64>;

    /// Returns the bytes of a process on its devices, of which `told` may be one; none if they are
    /// not known.
    fn bytes(&self, pid: u32, told: Option<Uuid>) -> Held;

    /// Returns the cause of a process's suspension. `None`: it is not suspended.
    fn suspender(&self, pid: u32) -> Option<Suspender>;

    /// Forgets the process that had this number.
    fn forget(&self, pid: u32);

    /// Brings a process back that was started off its devices, with records of its memory. Blocks.
    ///
    /// # Errors
    ///
    /// Why it is not there.
    fn adopt(&self, pid: u32, records: &[Suspended]) -> Result<()>;

    /// Writes a process to a folder, which does not move meanwhile. Blocks.
    ///
    /// # Errors
    ///
    /// Why it is not written. It goes on all the same.
    fn write(&self, pid: u32, into: AdoptedFolder) -> Result<()>;

    /// Returns the folder of the daemon's sockets, for programs with other working folders.
    fn sockets(&self) -> PathBuf;
}

/// Moves by suspension.
#[derive(Debug)]
pub(crate) struct SuspendingMover {
    suspensions: Arc<Suspensions>,
    /// Opened when it is first needed. `None`: there is no management library.
    memory: OnceLock<Option<Nvml>>,
}

impl SuspendingMover {
    pub(crate) fn new(suspensions: Arc<Suspensions>) -> Self {
        Self { suspensions, memory: OnceLock::new() }
    }

    fn memory(&self) -> Option<&dyn GpuMemory> {
        let opened = self.memory.get_or_init(|| Nvml::from_environment().ok());
        opened.as_ref().map(|nvml| nvml as &dyn GpuMemory)
    }
}

impl Mover for SuspendingMover {
    fn leave(&self, pid: u32) -> Result<Held> {
        self.suspensions.leave(pid, LEAVE_TIMEOUT).map(held)
    }

    fn come_back(&self, pid: u32) -> Result<()> {
        self.suspensions.come_back(pid)
    }

    fn turn_over(
        &self,
        leaver: u32,
        had: &Held,
        returner: u32,
        left: &mut dyn FnMut(Result<Held>),
        back: &mut dyn FnMut(Result<()>),
    ) {
        let had = had.iter().map(|(device, bytes)| reef_suspend::Held::new(device, *bytes));
        let had = had.collect();
        let mut left = |one: Result<Option<Suspended>>| left(one.map(held));
        self.suspensions.turn_over(leaver, had, returner, LEAVE_TIMEOUT, &mut left, back);
    }

    fn free(&self, device: Uuid) -> Option<u64> {
        self.memory()?.free(&device)
    }

    fn bytes(&self, pid: u32, told: Option<Uuid>) -> Held {
        let Some(memory) = self.memory() else { return Held::new() };
        let guests = self.suspensions.guests();
        let joined = guests.iter().filter(|guest| guest.who.pid == pid).map(|guest| guest.device);
        let devices: BTreeSet<Uuid> = joined.chain(told).collect();
        let on = |device: Uuid| {
            let all = memory.processes(&device)?;
            let (_, bytes) = all.into_iter().find(|(of, _)| *of == pid)?;
            Some((device, bytes))
        };
        devices.into_iter().filter_map(on).collect()
    }

    fn suspender(&self, pid: u32) -> Option<Suspender> {
        self.suspensions.suspender(pid)
    }

    fn forget(&self, pid: u32) {
        self.suspensions.forget(pid);
    }

    fn adopt(&self, pid: u32, records: &[Suspended]) -> Result<()> {
        self.suspensions.adopt(pid, records)
    }

    fn write(&self, pid: u32, into: AdoptedFolder) -> Result<()> {
        self.suspensions.write(pid, into)
    }

    fn sockets(&self) -> PathBuf {
        let folder = self.suspensions.folder().parent().unwrap_or(Path::new("."));
        std::path::absolute(folder).unwrap_or_else(|_| folder.into())
    }
}

/// Returns the bytes that a process had.
fn held(left: Option<Suspended>) -> Held {
    let held = left.iter().flat_map(|one| &one.held);
    held.filter_map(|held| Some((held.uuid()?, held.bytes))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Weak;

    #[test]
    fn folder_of_sockets_is_absolute() {
        let suspensions = Suspensions::new(Weak::new(), "run/suspended".into(), "reef".into());
        let mover = SuspendingMover::new(Arc::new(suspensions));
        assert_eq!(mover.sockets(), std::env::current_dir().unwrap().join("run"));
    }
}
