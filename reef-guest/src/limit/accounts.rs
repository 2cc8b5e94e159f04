//! What stands where in the books of a device: jobs with their limits, and their processes with
//! what these have.

use super::reserve::Reservation;
use super::usage::bucket::Bucket;
use super::usage::presence::Presence;
use super::usage::turn::Turn;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Accounts are so many bytes long.
pub const ACCOUNTS_BYTES: usize = 24_576;
/// Most jobs with limits on a device at a time.
pub const MAX_JOBS: usize = 32;
/// Most processes of them.
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

/// Bytes of a job's name that are format_bytes.
pub(super) const MAX_LABEL: usize = 48;

/// A job: its name by a number, and its limits. Written by whoever joins it first.
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
    /// The name's first bytes, for people.
    label: [AtomicU64; MAX_LABEL / 8],
}

/// What became of a job's requests since its first process joined. Written by all of its processes.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Tally {
    /// Allocations that were refused.
    pub(super) refused: AtomicU64,
    /// Nanoseconds for which launches waited for the job's part of the time, in all threads.
    pub(super) waited: AtomicU64,
    /// Nanoseconds of the device's time that it was charged with, or would have been.
    pub(super) ran: AtomicU64,
}

impl Tally {
    fn clear(&self) {
        [&self.refused, &self.waited, &self.ran].into_iter().for_each(|of| of.store(0, Relaxed));
    }
}

/// A job's name and limits, as a process says them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        self.bucket.clear();
        self.tally.clear();
    }
}

/// A process of a job.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Member {
    /// The job's number and one; zero: nobody. Written last by who joins, under the lock of the
    /// books.
    job: AtomicU32,
    /// The process as it sees itself, and when it started, in ticks since the system did.
    pub(super) process: AtomicU32,
    pub(super) started: AtomicU64,
    pub(super) share: Reservation,
    pub(super) presence: Presence,
}

impl Member {
    /// The job's number, if there is a process.
    pub(super) fn job(&self) -> Option<usize> {
        (self.job.load(SeqCst) as usize).checked_sub(1)
    }

    pub(super) fn set_job(&self, job: Option<usize>) {
        self.job.store(job.map_or(0, |job| job as u32 + 1), SeqCst);
    }
}

/// The books of one device.
#[derive(Debug)]
#[repr(C)]
pub struct Accounts {
    header: Header,
    pub(super) turn: Turn,
    pub(super) jobs: [Job; MAX_JOBS],
    pub(super) members: [Member; MAX_MEMBERS],
}

impl Accounts {
    /// Accounts that were never written say who they are from now on; others have to be of this
    /// version.
    pub(super) fn check(&self) -> Result<(), String> {
        let (magic, version) = (self.header.magic.load(Relaxed), self.header.version.load(Relaxed));
        match (magic, version) {
            (MAGIC, VERSION) => Ok(()),
            (0, 0) => {
                self.header.version.store(VERSION, Relaxed);
                self.header.magic.store(MAGIC, Relaxed);
                Ok(())
            }
            (MAGIC, other) => Err(format!("books of version {other}, this program has {VERSION}")),
            _ => Err(format!("no books: they begin with {magic:#x}")),
        }
    }

    /// Where in the file a process's overhead stands: a word of the daemon's.
    pub(super) fn overhead_at(member: usize) -> usize {
        let within = offset_of!(Member, share) + Reservation::OVERHEAD_AT;
        offset_of!(Self, members) + member * size_of::<Member>() + within
    }

    /// The shares of a job's processes.
    pub(super) fn shares(&self, job: usize) -> impl Iterator<Item = &Reservation> {
        let its = move |member: &&Member| member.job() == Some(job);
        self.members.iter().filter(its).map(|member| &member.share)
    }

    /// What a job has, in bytes, with what its contexts take.
    pub(super) fn used(&self, job: usize) -> u64 {
        let all = |share: &Reservation| share.used().saturating_add(share.overhead());
        self.shares(job).fold(0, |sum, share| sum.saturating_add(all(share)))
    }

    /// What its contexts take of that.
    pub(super) fn overhead(&self, job: usize) -> u64 {
        self.shares(job).fold(0, |sum, share| sum.saturating_add(share.overhead()))
    }
}

/// A name as two numbers (FNV-1a from two starts). Names that collide would share a limit, which no
/// one can arrange for a user but that user.
pub(super) fn hashed(name: &str) -> [u64; 2] {
    [0xcbf2_9ce4_8422_2325_u64, 0x6c62_272e_07bb_0142].map(|start| {
        name.bytes()
            .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    })
}

/// A name for people: what stands behind the variable's name that it came from, as far as there is
/// room.
pub(super) fn label(name: &str) -> [u64; MAX_LABEL / 8] {
    let name = name.split_once('=').map_or(name, |(_, value)| value);
    let end = (0..=name.len().min(MAX_LABEL)).rev().find(|at| name.is_char_boundary(*at));
    let mut bytes = [0; MAX_LABEL];
    let prefix = &name.as_bytes()[..end.unwrap_or(0)];
    bytes[..prefix.len()].copy_from_slice(prefix);
    let word = |at: usize| std::array::from_fn(|byte| bytes[8 * at + byte]);
    std::array::from_fn(|at| u64::from_le_bytes(word(at)))
}

/// The text of a label; other processes write it, so it may be anything.
pub(super) fn text(label: [u64; MAX_LABEL / 8]) -> String {
    let bytes: Vec<u8> = label.iter().flat_map(|word| word.to_le_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
