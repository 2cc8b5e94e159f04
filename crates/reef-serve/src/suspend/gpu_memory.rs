//! Device memory that is free, and that each process has.

use reef_nvml::{Memory, Monitor, Nvml, Uuid};
use std::fmt;

/// Source of the figures.
pub(crate) trait GpuMemory: fmt::Debug + Send + Sync {
    /// Returns the free bytes of a device. `None`: not known.
    fn free(&self, device: &Uuid) -> Option<u64>;

    /// Returns the processes on a device, with their bytes. `None`: not known.
    fn processes(&self, device: &Uuid) -> Option<Vec<(u32, u64)>>;
}

impl GpuMemory for Nvml {
    fn free(&self, device: &Uuid) -> Option<u64> {
        Memory::free(self, device).ok()
    }

    fn processes(&self, device: &Uuid) -> Option<Vec<(u32, u64)>> {
        let all = Monitor::processes(self, device).ok()?;
        Some(all.iter().filter_map(|process| Some((process.pid, process.memory?))).collect())
    }
}
