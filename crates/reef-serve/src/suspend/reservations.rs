//! Memory that is kept free for real-time programs until they allocate it.

use super::gpu_memory::GpuMemory;
use reef_guest::limit::ProcessStat;
use reef_nvml::Uuid;
use reef_suspend::Process;

/// Steps from a process to its ancestors that are looked at.
const MAX_DEPTH: usize = 64;

/// Memory of a device for a process and those it has started.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    process: Process,
    device: Uuid,
    bytes: u64,
}

/// Reservations of processes that live.
#[derive(Debug, Default)]
pub(super) struct Reservations(Vec<Reservation>);

impl Reservations {
    /// Reserves memory for a process, in the place of what it had reserved on this device.
    pub(super) fn set(&mut self, process: Process, device: Uuid, bytes: u64) {
        self.0.retain(|one| one.process != process || one.device != device);
        self.0.push(Reservation { process, device, bytes });
    }

    /// Returns the bytes of a device that are reserved and not allocated yet, those for `asker` and
    /// its ancestors not counted. Reservations of processes that have ended are forgotten.
    pub(super) fn unallocated(&mut self, memory: &dyn GpuMemory, device: &Uuid, asker: u32) -> u64 {
        self.0.retain(|one| one.process.is_alive());
        let mine = |one: &&Reservation| one.device == *device;
        if self.0.iter().find(mine).is_none() {
            return 0;
        }
        let processes = memory.processes(device).unwrap_or_default();
        let of_others = self.0.iter().filter(mine).filter(|one| !descends(asker, one.process.pid));
        of_others.fold(0, |sum, one| {
            let own = processes.iter().filter(|(pid, _)| descends(*pid, one.process.pid));
            let used = own.fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
            sum.saturating_add(one.bytes.saturating_sub(used))
        })
    }
}

/// Returns whether a process is `ancestor`, or was started by it or its descendants.
fn descends(pid: u32, ancestor: u32) -> bool {
    let up = |pid: &u32| parent(*pid).filter(|parent| *parent > 0);
    std::iter::successors(Some(pid), up).take(MAX_DEPTH).any(|pid| pid == ancestor)
}

/// Number of the process that started this one.
fn parent(pid: u32) -> Option<u32> {
    ProcessStat::of(pid).ok().map(|stat| stat.parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: Uuid = [1; 16];

    #[derive(Debug)]
    struct Used(Vec<(u32, u64)>);

    impl GpuMemory for Used {
        fn free(&self, _: &Uuid) -> Option<u64> {
            None
        }

        fn processes(&self, _: &Uuid) -> Option<Vec<(u32, u64)>> {
            Some(self.0.clone())
        }
    }

    #[test]
    fn reservation_shrinks_by_memory_of_the_program_and_children() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let own = Process::of(std::process::id()).unwrap();
        let mut all = Reservations::default();
        all.set(own, GPU, 100);
        all.set(own, [2; 16], 7);
        let used = Used(vec![(own.pid, 10), (child.id(), 30), (1, 500)]);
        assert_eq!(all.unallocated(&used, &GPU, 1), 60);
        assert_eq!(all.unallocated(&used, &GPU, child.id()), 0, "its own");
        assert_eq!(all.unallocated(&Used(vec![(own.pid, 101)]), &GPU, 1), 0);
        all.set(own, GPU, 50);
        assert_eq!(all.unallocated(&used, &GPU, 1), 10);
        child.kill().and_then(|()| child.wait()).unwrap();
    }

    #[test]
    fn reservation_ends_with_its_process() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut all = Reservations::default();
        all.set(Process::of(child.id()).unwrap(), GPU, 100);
        assert_eq!(all.unallocated(&Used(Vec::new()), &GPU, 1), 100);
        child.kill().and_then(|()| child.wait()).unwrap();
        assert_eq!(all.unallocated(&Used(Vec::new()), &GPU, 1), 0);
    }
}
