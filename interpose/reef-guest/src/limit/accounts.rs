//! Layout of a device's accounts file: jobs with their limits, and their processes with what they
//! use.

use super::reserve::Reservation;
use super::usage::bucket::Bucket;
use super::usage::presence::Presence;
use super::usage::turn::Turn;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Size of the file.
pub const ACCOUNTS_BYTES: usize = 24_576;
/// Maximum number of jobs with limits on a device at a time.
pub const MAX_JOBS: usize = 32;
/// Maximum number of their processes.
pub const MAX_MEMBERS: usize = 128;

/// `REEFBOOK` in memory, and the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"REEFBOOK");
const VERSION: u64 = 4;

#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Header {
    magic: AtomicU64,
    version: AtomicU64,
}

/// Maximum bytes of a job's name in the file.
pub(super) const MAX_LABEL: usize = 48;

/// Job: its hashed name, and its limits. Written by the process that joins it first.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Job {
    /// Two hashes of the name.
    name: [AtomicU64; 2],
    /// Bytes; zero: no limit.
    memory: AtomicU64,
    /// Parts per million of the device's time; zero: no limit.
    compute: AtomicU64,
    pub(super) bucket: Bucket,
    pub(super) tally: Tally,
    /// First bytes of the name, for display.
    label: [AtomicU64; MAX_LABEL / 8],
}

/// Sums over a job's requests since its first process joined. Written by all of its processes.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Tally {
    /// Allocations that were refused.
    pub(super) refused: AtomicU64,
    /// Nanoseconds for which launches waited for the job's part of the time, in all threads.
    pub(super) waited: AtomicU64,
    /// Nanoseconds of the device's time that its work took, charged or not.
    pub(super) ran: AtomicU64,
}

impl Tally {
    fn clear(&self) {
        [&self.refused, &self.waited, &self.ran].into_iter().for_each(|of| of.store(0, Relaxed));
    }
}

/// Name and limits of a job, as a process states them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) name: [u64; 2],
    /// Bytes, and parts per million; zero: no limit.
    pub(super) memory: u64,
    pub(super) compute: u64,
    pub(super) label: [u64; MAX_LABEL / 8],
}

impl Job {
    /// Parts per million of the device's time; zero: no limit.
    pub(super) fn part(&self) -> u64 {
        self.compute.load(Relaxed)
    }

    pub(super) fn terms(&self) -> Terms {
        let name = [self.name[0].load(Relaxed), self.name[1].load(Relaxed)];
        let label = std::array::from_fn(|at| self.label[at].load(Relaxed));
        let (memory, compute) = (self.memory.load(Relaxed), self.compute.load(Relaxed));
        Terms { name, memory, compute, label }
    }

    pub(super) fn set(&self, terms: &Terms) {
        self.name.iter().zip(terms.name).for_each(|(to, from)| to.store(from, Relaxed));
        self.memory.store(terms.memory, Relaxed);
        self.compute.store(terms.compute, Relaxed);
        self.label.iter().zip(terms.label).for_each(|(to, from)| to.store(from, Relaxed));
        self.tally.clear();
    }

    /// Returns whether no job has had this place yet.
    pub(super) fn is_new(&self) -> bool {
        self.name.iter().all(|word| word.load(Relaxed) == 0)
    }

    /// Returns the nanoseconds from `now` for which a debt outlives its processes.
    pub(super) fn debt(&self, now: u64) -> u64 {
        self.bucket.debt(now, self.part())
    }
}

/// Process of a job.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Member {
    /// Index of the job plus one; zero: the slot is free. Written last by a process that joins,
    /// under the file's lock.
    job: AtomicU32,
    /// The process's ID in its own namespace, and its start time in ticks since boot.
    pub(super) process: AtomicU32,
    pub(super) started: AtomicU64,
    pub(super) share: Reservation,
    pub(super) presence: Presence,
}

impl Member {
    /// Returns the job's index, if the slot has a process.
    pub(super) fn job(&self) -> Option<usize> {
        (self.job.load(SeqCst) as usize).checked_sub(1)
    }

    pub(super) fn set_job(&self, job: Option<usize>) {
        self.job.store(job.map_or(0, |job| job as u32 + 1), SeqCst);
    }
}

/// Accounts of one device.
#[derive(Debug)]
#[repr(C)]
pub struct Accounts {
    header: Header,
    pub(super) turn: Turn,
    pub(super) jobs: [Job; MAX_JOBS],
    pub(super) members: [Member; MAX_MEMBERS],
}

impl Accounts {
    /// Writes the header of a new file. That of another one must be of this version.
    pub(super) fn check(&self) -> Result<(), String> {
        let (magic, version) = (self.header.magic.load(Relaxed), self.header.version.load(Relaxed));
        match (magic, version) {
            (MAGIC, VERSION) => Ok(()),
            (0, 0) => {
                self.header.version.store(VERSION, Relaxed);
                self.header.magic.store(MAGIC, Relaxed);
                Ok(())
            }
            (MAGIC, other) => {
                Err(format!("accounts of version {other}, this program has {VERSION}"))
            }
            _ => Err(format!("not accounts: they begin with {magic:#x}")),
        }
    }

    /// Returns the offset of a process's overhead in the file: a word that the daemon writes.
    pub(super) fn overhead_at(member: usize) -> usize {
        let within = offset_of!(Member, share) + Reservation::OVERHEAD_AT;
        offset_of!(Self, members) + member * size_of::<Member>() + within
    }

    /// Begins a process of a job in a slot, whose reservation is set already.
    pub(super) fn begin(&self, at: usize, job: usize, process: u32, started: u64) {
        let member = &self.members[at];
        member.presence.clear();
        self.turn.leave(at); // of the process that had this slot before
        member.process.store(process, Relaxed);
        member.started.store(started, Relaxed);
        member.set_job(Some(job));
    }

    pub(super) fn lives(&self, job: usize) -> bool {
        self.members.iter().any(|member| member.job() == Some(job))
    }

    /// Returns the reservations of a job's processes.
    pub(super) fn shares(&self, job: usize) -> impl Iterator<Item = &Reservation> {
        let its = move |member: &&Member| member.job() == Some(job);
        self.members.iter().filter(its).map(|member| &member.share)
    }

    /// Returns the bytes that a job uses, with those of its contexts.
    pub(super) fn used(&self, job: usize) -> u64 {
        let all = |share: &Reservation| share.used().saturating_add(share.overhead());
        self.shares(job).fold(0, |sum, share| sum.saturating_add(all(share)))
    }

    /// Returns the bytes of its contexts among them.
    pub(super) fn overhead(&self, job: usize) -> u64 {
        self.shares(job).fold(0, |sum, share| sum.saturating_add(share.overhead()))
    }
}

/// Hashes a name to two numbers (FNV-1a with two offsets). Jobs whose names collide share a limit;
/// only names of the same user meet in a file.
pub(super) fn hashed(name: &str) -> [u64; 2] {
    [0xcbf2_9ce4_8422_2325_u64, 0x6c62_272e_07bb_0142].map(|start| {
        name.bytes()
            .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    })
}

/// Returns a name for display: the value of the variable that it came from, shortened to
/// [`MAX_LABEL`] bytes.
pub(super) fn label(name: &str) -> [u64; MAX_LABEL / 8] {
    let name = name.split_once('=').map_or(name, |(_, value)| value);
    let end = (0..=name.len().min(MAX_LABEL)).rev().find(|at| name.is_char_boundary(*at));
    let mut bytes = [0; MAX_LABEL];
    let prefix = &name.as_bytes()[..end.unwrap_or(0)];
    bytes[..prefix.len()].copy_from_slice(prefix);
    let word = |at: usize| std::array::from_fn(|byte| bytes[8 * at + byte]);
    std::array::from_fn(|at| u64::from_le_bytes(word(at)))
}

/// Returns the text of a label. Other processes write labels, so the bytes may be anything.
pub(super) fn text(label: [u64; MAX_LABEL / 8]) -> String {
    let bytes: Vec<u8> = label.iter().flat_map(|word| word.to_le_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
