//! What stands where in the books of a device: jobs with their limits, and their processes with what these have.

use super::bucket::Bucket;
use super::share::Share;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Books are so many bytes long.
pub const BOOKS_BYTES: usize = 24_576;
/// Most jobs with limits on a device at a time.
pub const MOST_JOBS: usize = 32;
/// Most processes of them.
pub const MOST_MEMBERS: usize = 128;

/// `REEFBOOK` in memory, and the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"REEFBOOK");
const VERSION: u64 = 1;

#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Header {
    magic: AtomicU64,
    version: AtomicU64,
}

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
}

/// A job's name and limits, as a process says them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) name: [u64; 2],
    /// Bytes, and parts per million; zero: no limit.
    pub(super) memory: u64,
    pub(super) compute: u64,
}

impl Job {
    pub(super) fn terms(&self) -> Terms {
        let name = [self.name[0].load(Relaxed), self.name[1].load(Relaxed)];
        Terms { name, memory: self.memory.load(Relaxed), compute: self.compute.load(Relaxed) }
    }

    pub(super) fn set(&self, terms: &Terms) {
        self.name.iter().zip(terms.name).for_each(|(to, from)| to.store(from, Relaxed));
        self.memory.store(terms.memory, Relaxed);
        self.compute.store(terms.compute, Relaxed);
        self.bucket.clear();
    }
}

/// A process of a job.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Member {
    /// The job's number and one; zero: nobody. Written last by who joins, under the lock of the books.
    job: AtomicU32,
    /// The process as it sees itself, and when it started, in ticks since the system did.
    pub(super) process: AtomicU32,
    pub(super) started: AtomicU64,
    pub(super) share: Share,
    /// When its work was last seen on the device, and when it last asked to begin some.
    pub(super) worked: AtomicU64,
    pub(super) wanted: AtomicU64,
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
pub struct Books {
    header: Header,
    pub(super) jobs: [Job; MOST_JOBS],
    pub(super) members: [Member; MOST_MEMBERS],
}

impl Books {
    /// Books that were never written say who they are from now on; others have to be of this version.
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

    /// The shares of a job's processes.
    pub(super) fn shares(&self, job: usize) -> impl Iterator<Item = &Share> {
        let its = move |member: &&Member| member.job() == Some(job);
        self.members.iter().filter(its).map(|member| &member.share)
    }

    /// What a job has, in bytes.
    pub(super) fn used(&self, job: usize) -> u64 {
        self.shares(job).fold(0, |sum, share| sum.saturating_add(share.used()))
    }
}

/// A name as two numbers (FNV-1a from two starts). Names that collide would share a limit, which no one can arrange
/// for a user but that user.
pub(super) fn hashed(name: &str) -> [u64; 2] {
    [0xcbf2_9ce4_8422_2325_u64, 0x6c62_272e_07bb_0142].map(|start| {
        name.bytes()
            .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    })
}
