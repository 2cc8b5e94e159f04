//! The books of all devices in a folder, as a daemon reads them: what jobs have; and what it adds
//! to that from outside.

use super::accounts::{Accounts, Job, Member, hashed, text};
use super::accounts_file::AccountsReader;
use super::process::is_gone;
use super::variables::Limits;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Most books that are open at a time, and names of a folder that are looked at: more than machines
/// have devices and parts of them, and few enough that a folder full of anything stops no one.
const MAX_FILES: usize = 128;
const MAX_NAMES: usize = 1024;

/// A device, by what names it.
type Uuid = [u8; 16];

/// Open books.
#[derive(Debug)]
pub struct Audit {
    folder: PathBuf,
    devices: Vec<(Uuid, AccountsReader)>,
    /// Locked while this daemon is the one that charges.
    lock: Option<File>,
}

/// A job on a device at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// The device.
    pub device: Uuid,
    id: [u64; 2],
    /// Its name, shortened to 48 bytes; empty: programs without one.
    pub name: String,
    /// Its limit, in bytes.
    pub memory: Option<u64>,
    /// What its processes have, with their overhead, in bytes.
    pub used: u64,
    /// What their contexts take of that, as far as a daemon has found out.
    pub overhead: u64,
    /// Its part of the device's time, in parts per million.
    pub part: Option<u32>,
    /// What it had of the device's time.
    pub ran: Duration,
    /// For how long its launches waited for its part, in all threads together.
    pub waited: Duration,
    /// Allocations that were refused.
    pub refused: u64,
    /// Its processes.
    pub processes: Vec<ProcessView>,
}

/// A process of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessView {
    /// Its number, as it sees itself.
    pub pid: u32,
    /// What it has allocated, in bytes.
    pub used: u64,
    /// What its context takes.
    pub overhead: u64,
}

impl JobView {
    /// Whether it is the job of these limits.
    pub fn is_of(&self, limits: &Limits) -> bool {
        self.id == hashed(&limits.name)
    }
}

impl Audit {
    /// For books in this folder, which need not be there yet. Nothing is opened before
    /// [`refresh`](Self::refresh).
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, devices: Vec::new(), lock: None }
    }

    /// Opens books that are new, and closes those whose file is another one now, or none.
    ///
    /// # Errors
    ///
    /// The folder or a file in it isn't what books are kept in; the others are open all the same.
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

    /// Whether no other daemon charges overhead in these books; the first one does, and the next
    /// one once it has ended.
    ///
    /// # Errors
    ///
    /// The folder isn't there, or no lock can be had.
    pub fn is_alone(&mut self) -> io::Result<bool> {
        if self.lock.is_some() {
            return Ok(true);
        }
        let path = self.folder.join("daemon.lock");
        let mut options = File::options();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.custom_flags(libc::O_NOFOLLOW).open(path)?;
        match file.try_lock() {
            Ok(()) => self.lock = Some(file),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(true)
    }

    /// All jobs that have processes.
    pub fn jobs(&self) -> Vec<JobView> {
        let views = |(device, file): &(Uuid, AccountsReader)| {
            let books = file.read().ok(); // what can't be read has no jobs
            let of = |books: &Accounts| -> Vec<_> {
                (0..books.jobs.len()).filter_map(|job| view(*device, books, job)).collect()
            };
            books.map_or_else(Vec::new, |books| of(&books))
        };
        self.devices.iter().flat_map(views).collect()
    }

    /// Charges processes with what their contexts take: what `taken` says that each has of a
    /// device, by process numbers of this namespace, less what it has allocated. `None`, of a
    /// device or of a process: nobody knows, and what was known last stays.
    pub fn charge(&self, taken: impl Fn(&Uuid) -> Option<Vec<(u32, Option<u64>)>>) {
        for (device, file) in &self.devices {
            let _ = charge(file, || taken(device)); // the next look tries again
        }
    }
}

/// Charges the processes in a file of books.
fn charge(
    file: &AccountsReader,
    taken: impl Fn() -> Option<Vec<(u32, Option<u64>)>>,
) -> io::Result<()> {
    // Before and after: what is allocated or freed while the driver is asked isn't overhead.
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

/// A process that was seen in the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Snapshot {
    pid: u32,
    started: u64,
    used: u64,
}

impl Snapshot {
    fn of(member: &Member) -> Option<Self> {
        let (pid, started) = (member.process.load(Relaxed), member.started.load(Relaxed));
        // A process of another namespace has a number that is somebody else's here, who started at
        // another time.
        let is_here = member.job().is_some() && !is_gone(pid, started);
        is_here.then(|| Self { pid, started, used: member.share.used() })
    }

    /// What it has besides. `None`: nobody knows, or it is another process now.
    fn overhead(self, member: &Member, taken: &[(u32, Option<u64>)]) -> Option<u64> {
        let found = taken.iter().find(|(pid, _)| *pid == self.pid);
        let bytes = found.map_or(Some(0), |(_, bytes)| *bytes)?;
        let now = Self::of(member)?;
        let is_same = (now.pid, now.started) == (self.pid, self.started);
        is_same.then(|| bytes.saturating_sub(self.used.max(now.used)))
    }
}

/// Whose books are in a folder. None, if it isn't there.
fn devices(folder: &std::path::Path) -> io::Result<Vec<Uuid>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let device = |entry: io::Result<std::fs::DirEntry>| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let hex = name.strip_suffix(".books").filter(|hex| hex.len() == 32)?;
        u128::from_str_radix(hex, 16).ok().map(u128::to_be_bytes)
    };
    Ok(entries.take(MAX_NAMES).filter_map(device).filter(|device| *device != [0; 16]).collect())
}

fn view(device: Uuid, books: &Accounts, at: usize) -> Option<JobView> {
    let its = |member: &&Member| member.job() == Some(at);
    let process = |member: &Member| ProcessView {
        pid: member.process.load(Relaxed),
        used: member.share.used(),
        overhead: member.share.overhead(),
    };
    let processes: Vec<_> = books.members.iter().filter(its).map(process).collect();
    let job: &Job = books.jobs.get(at).filter(|_| !processes.is_empty())?;
    let (terms, nanos) = (job.terms(), |of: &AtomicU64| Duration::from_nanos(of.load(Relaxed)));
    Some(JobView {
        device,
        id: terms.name,
        name: text(terms.label),
        memory: Some(terms.memory).filter(|memory| *memory > 0),
        used: books.used(at),
        overhead: books.overhead(at),
        part: u32::try_from(terms.compute).ok().filter(|part| *part > 0),
        ran: nanos(&job.tally.ran),
        waited: nanos(&job.tally.waited),
        refused: job.tally.refused.load(Relaxed),
        processes,
    })
}
