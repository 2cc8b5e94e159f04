//! Memory of GPUs: how much a process has, and how much is free.

use crate::api::Uuid;
use crate::record::Held;
use reef_nvml::{Memory, Monitor};
use std::fmt;

/// Free memory of GPUs.
pub trait Free: fmt::Debug + Send + Sync {
    /// Returns the free bytes of a GPU. `None`: not known.
    fn free(&self, device: &Uuid) -> Option<u64>;

    /// Returns the bytes of a process on a GPU, its contexts included. `None`: not known, as
    /// outside of the first PID namespace.
    fn of(&self, device: &Uuid, pid: u32) -> Option<u64>;
}

impl<M: Monitor + Memory> Free for M {
    fn free(&self, device: &Uuid) -> Option<u64> {
        Memory::free(self, device).ok()
    }

    fn of(&self, device: &Uuid, pid: u32) -> Option<u64> {
        let processes = self.processes(device).ok()?;
        processes.iter().find(|process| process.pid == pid)?.memory
    }
}

/// The GPUs of this machine with their memory.
#[derive(Debug)]
pub struct Devices<'a> {
    /// Identities by ordinal.
    pub uuids: Vec<Uuid>,
    /// The source of their figures. `None`: no management library.
    pub memory: Option<&'a dyn Free>,
}

impl Devices<'_> {
    /// Returns the free bytes of each GPU, zero where they are not known.
    pub(crate) fn free(&self) -> Vec<u64> {
        let free = |uuid| self.memory.and_then(|memory| memory.free(uuid));
        self.uuids.iter().map(|uuid| free(uuid).unwrap_or(0)).collect()
    }

    /// Returns the bytes that the management library counts for a process on each GPU.
    pub(crate) fn of(&self, pid: u32) -> Vec<u64> {
        let of = |uuid| self.memory.and_then(|memory| memory.of(uuid, pid));
        self.uuids.iter().map(|uuid| of(uuid).unwrap_or(0)).collect()
    }

    /// Memory that a process had: by the library's own count, or by what its suspension freed,
    /// whichever is more. A neighbour that frees memory at the same moment makes it an upper bound.
    pub(crate) fn held(&self, counted: &[u64], before: &[u64], after: &[u64]) -> Vec<Held> {
        let freed = after.iter().zip(before).map(|(after, before)| after.saturating_sub(*before));
        let bytes = counted.iter().zip(freed).map(|(counted, freed)| (*counted).max(freed));
        let held = self.uuids.iter().zip(bytes).map(|(device, bytes)| Held::new(device, bytes));
        held.filter(|held| held.bytes > 0).collect()
    }

    pub(crate) fn ordinal(&self, device: &Uuid) -> Option<usize> {
        self.uuids.iter().position(|uuid| uuid == device)
    }
}
