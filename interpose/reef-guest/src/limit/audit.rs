//! Audit: a daemon reads the accounts files of all devices in a folder, and charges the memory of
//! contexts.

use super::accounts::{Accounts, Job, Member, hashed, text};
use super::accounts_file::AccountsReader;
use super::dmem::{self, CgroupFiles};
use super::process::is_gone;
use super::variables::Limits;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Maximum files that are open at a time, and maximum names of a folder that are read. Both are
/// more than a machine has devices and MIG instances, and small enough for a folder with many other
/// files.
const MAX_FILES: usize = 128;
const MAX_NAMES: usize = 1024;

/// UUID of a device.
type Uuid = [u8; 16];

/// Open accounts files.
#[derive(Debug)]
pub struct Audit {
    folder: PathBuf,
    devices: Vec<(Uuid, AccountsReader)>,
    /// Locked while this daemon is the one that charges overhead.
    lock: Option<File>,
}

/// Job on a device at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// The device.
    pub device: Uuid,
    id: [u64; 2],
    /// Its name, shortened to 48 bytes; empty: programs without one.
    pub name: String,
    /// Its memory limit, in bytes.
    pub memory: Option<u64>,
    /// Bytes of its processes, with their overhead.
    pub used: u64,
    /// Bytes of their contexts among these, as far as a daemon knows.
    pub overhead: u64,
    /// Its limit of the device's time, in parts per million.
    pub part: Option<u32>,
    /// Device time of its work.
    pub ran: Duration,
    /// Time for which its launches waited for its part of the time, summed over all threads.
    pub waited: Duration,
    /// Allocations that were refused.
    pub refused: u64,
    /// Its processes.
    pub processes: Vec<ProcessView>,
}

/// Process of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessView {
    /// Its ID in its own namespace.
    pub pid: u32,
    started: u64,
    /// Bytes that it has allocated.
    pub used: u64,
    /// Bytes of its context.
    pub overhead: u64,
}

impl JobView {
    /// Returns the bytes that the kernel lets each of its processes have of a GPU, if there is such
    /// a limit for all of them. Processes of other PID namespaces are taken for unlimited.
    pub fn kept_by_kernel(&self, files: &impl CgroupFiles) -> Option<u64> {
        let of = |process: &ProcessView| {
            let is_here = !is_gone(process.pid, process.started);
            dmem::lowest_max(files, &dmem::cgroup_of(process.pid).ok().filter(|_| is_here)?)
        };
        let all: Option<Vec<u64>> = self.processes.iter().map(of).collect();
        all?.into_iter().max()
    }

    /// Returns whether it is the job of these limits.
    pub fn is_of(&self, limits: &Limits) -> bool {
        self.id == hashed(&limits.name)
    }
}

impl Audit {
    /// Audits this folder, which may not exist yet. Nothing is opened before
    /// [`refresh`](Self::refresh).
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, devices: Vec::new(), lock: None }
    }

    /// Opens new files, and closes those that were replaced or deleted.
    ///
    /// # Errors
    ///
    /// The folder or a file in it is invalid. The other files are open all the same.
    pub fn refresh(&mut self) -> io::Result<()> {
        self.devices.retain(|(device, file)| file.is_at(&self.folder, device));
        let mut result = Ok(());
        for device in devices(&self.folder)? {
            if self.devices.len() < MAX_FILES
                && self.devices.iter().all(|(known, _)| *known != device)
            {
                match AccountsReader::open(&self.folder, &device) {
                    Ok(file) => self.devices.push((device, file)),
                    Err(error) => result = Err(error),
                }
            }
        }
        result
    }

    /// Returns whether this daemon is the one that charges overhead in this folder: the first one
    /// does, and the next one once the first has ended.
    ///
    /// # Errors
    ///
    /// The folder is missing, or the lock fails.
    pub fn is_alone(&mut self) -> io::Result<bool> {
        if self.lock.is_some() {
            return Ok(true);
        }
        let path = self.folder.join("daemon.lock");
        let mut options = File::options();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = reef_files::own(path, &mut options)?;
        match file.try_lock() {
            Ok(()) => self.lock = Some(file),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(true)
    }

    /// Returns all jobs that have processes.
    pub fn jobs(&self) -> Vec<JobView> {
        let views = |(device, file): &(Uuid, AccountsReader)| {
            let accounts = file.read().ok(); // what can't be read has no jobs
            let of = |accounts: &Accounts| -> Vec<_> {
                (0..accounts.jobs.len()).filter_map(|job| view(*device, accounts, job)).collect()
            };
            accounts.map_or_else(Vec::new, |accounts| of(&accounts))
        };
        self.devices.iter().flat_map(views).collect()
    }

    /// Charges processes with the memory of their contexts. `taken` returns the bytes of each
    /// process on a device, by process IDs of this namespace; the allocated bytes are subtracted.
    /// `None` for a device or a process means unknown: the last charge stays.
    pub fn charge(&self, taken: impl Fn(&Uuid) -> Option<Vec<(u32, Option<u64>)>>) {
        for (device, file) in &self.devices {
            let _ = charge(file, || taken(device)); // the next call tries again
        }
    }
}

/// Charges the processes of one file.
fn charge(
    file: &AccountsReader,
    taken: impl Fn() -> Option<Vec<(u32, Option<u64>)>>,
) -> io::Result<()> {
    // Read before and after: memory that is allocated or freed while the driver is asked isn't
    // overhead.
    let before: Vec<_> = file.read()?.members.iter().map(Snapshot::of).collect();
    let Some(taken) = before.iter().any(Option::is_some).then(taken).flatten() else {
        return Ok(());
    };
    let after = file.read()?;
    for (at, (member, seen)) in after.members.iter().zip(before).enumerate() {
        if let Some(bytes) = seen.and_then(|seen| seen.overhead(member, &taken)) {
            file.set_overhead(at, bytes)?;
        }
    }
    Ok(())
}

/// Process of the file at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Snapshot {
    pid: u32,
    started: u64,
    used: u64,
}

impl Snapshot {
    fn of(member: &Member) -> Option<Self> {
        let (pid, started) = (member.process.load(Relaxed), member.started.load(Relaxed));
        // The ID of a process in another namespace may be that of another process here, with
        // another start time.
        let is_here = member.job().is_some() && !is_gone(pid, started);
        is_here.then(|| Self { pid, started, used: member.share.used() })
    }

    /// Returns its overhead. `None`: unknown, or the slot has another process now.
    fn overhead(self, member: &Member, taken: &[(u32, Option<u64>)]) -> Option<u64> {
        let found = taken.iter().find(|(pid, _)| *pid == self.pid);
        let bytes = found.map_or(Some(0), |(_, bytes)| *bytes)?;
        let now = Self::of(member)?;
        let is_same = (now.pid, now.started) == (self.pid, self.started);
        is_same.then(|| bytes.saturating_sub(self.used.max(now.used)))
    }
}

/// Returns the devices with a file in the folder. A missing folder has none.
fn devices(folder: &std::path::Path) -> io::Result<Vec<Uuid>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let device = |entry: io::Result<std::fs::DirEntry>| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let hex = name.strip_suffix(".accounts").filter(|hex| hex.len() == 32)?;
        u128::from_str_radix(hex, 16).ok().map(u128::to_be_bytes)
    };
    Ok(entries.take(MAX_NAMES).filter_map(device).filter(|device| *device != [0; 16]).collect())
}

fn view(device: Uuid, accounts: &Accounts, at: usize) -> Option<JobView> {
    let its = |member: &&Member| member.job() == Some(at);
    let process = |member: &Member| ProcessView {
        pid: member.process.load(Relaxed),
        started: member.started.load(Relaxed),
        used: member.share.used(),
        overhead: member.share.overhead(),
    };
    let processes: Vec<_> = accounts.members.iter().filter(its).map(process).collect();
    let job: &Job = accounts.jobs.get(at).filter(|_| !processes.is_empty())?;
    let (terms, nanos) = (job.terms(), |of: &AtomicU64| Duration::from_nanos(of.load(Relaxed)));
    Some(JobView {
        device,
        id: terms.name,
        name: text(terms.label),
        memory: Some(terms.memory).filter(|memory| *memory > 0),
        used: accounts.used(at),
        overhead: accounts.overhead(at),
        part: u32::try_from(terms.compute).ok().filter(|part| *part > 0),
        ran: nanos(&job.tally.ran),
        waited: nanos(&job.tally.waited),
        refused: job.tally.refused.load(Relaxed),
        processes,
    })
}
