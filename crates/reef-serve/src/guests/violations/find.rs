//! Detection of current violations, from the registry, the accounts and the driver.

use reef_guest::limit::{JobView, format_bytes};
use reef_guest::registry::GuestView;
use reef_nvml::{Process, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// Kind of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::guests) enum Kind {
    /// A guest changed a part of its page that the daemon wrote.
    Page,
    /// A job has more memory than its limit.
    Memory,
    /// A process uses a device of guests and is not one.
    Unmanaged,
}

/// All kinds.
pub(in crate::guests) const KINDS: [Kind; 3] = [Kind::Page, Kind::Memory, Kind::Unmanaged];

impl Kind {
    /// Its name in metrics and logs.
    pub(in crate::guests) fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Memory => "memory",
            Self::Unmanaged => "unmanaged",
        }
    }
}

/// A violation by a process or a job on a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::guests) struct Violation {
    pub(in crate::guests) kind: Kind,
    pub(in crate::guests) device: Uuid,
    /// The process; zero for a job.
    pub(in crate::guests) pid: u32,
    /// The job; empty for a process.
    pub(in crate::guests) job: String,
}

/// Violations of one scan, with a line of each for people.
pub(super) type ScanResult = BTreeMap<Violation, String>;

pub(super) fn find(
    guests: &[GuestView],
    jobs: &[JobView],
    processes: impl Fn(&Uuid) -> Option<Vec<Process>>,
) -> ScanResult {
    let pages = guests.iter().filter_map(|guest| {
        let (why, pid) = (guest.fault.as_ref()?, guest.who.pid);
        let line = format!("process {pid} changed its page: {why}");
        Some((violation(Kind::Page, guest.device, pid, ""), line))
    });
    let over_limit = jobs.iter().filter_map(|job| {
        let limit = job.memory.filter(|limit| job.used > *limit)?;
        let (used, limit, name) = (format_bytes(job.used), format_bytes(limit), &job.name);
        let line = format!("job {name:?} must have at most {limit} of device memory, got {used}");
        Some((violation(Kind::Memory, job.device, 0, name), line))
    });
    let devices: BTreeSet<_> = guests.iter().map(|guest| guest.device).collect();
    let unmanaged = devices.iter().flat_map(|device| {
        let all = processes(device).unwrap_or_default();
        all.into_iter().filter(|process| is_unmanaged(process.pid, guests, jobs)).map(|process| {
            let memory = process.memory.map_or("some memory".into(), format_bytes);
            let line = format!(
                "process {} has {memory} on a device of guests and is not one",
                process.pid
            );
            (violation(Kind::Unmanaged, *device, process.pid, ""), line)
        })
    });
    pages.chain(over_limit).chain(unmanaged.collect::<Vec<_>>()).collect()
}

pub(super) fn violation(kind: Kind, device: Uuid, pid: u32, job: &str) -> Violation {
    Violation { kind, device, pid, job: job.to_owned() }
}

/// A guest of another device has opened this one too. MPS's server has a context for its clients.
fn is_unmanaged(pid: u32, guests: &[GuestView], jobs: &[JobView]) -> bool {
    let is_limited =
        || jobs.iter().flat_map(|job| &job.processes).any(|process| process.pid == pid);
    let is_known = guests.iter().any(|guest| guest.who.pid == pid) || pid == std::process::id();
    !is_known && !is_limited() && !is_mps(pid)
}

/// The system keeps 15 letters of `nvidia-cuda-mps-server`.
#[expect(clippy::disallowed_methods, reason = "of /proc")]
fn is_mps(pid: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.is_ok_and(|name| name.trim_end() == "nvidia-cuda-mps")
}
