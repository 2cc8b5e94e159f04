//! Slot of a process in the accounts file: it joins a job, reserves memory of its limit and gives
//! it back. Dead processes are found by their locks.

use super::accounts::{Accounts, Job, MAX_JOBS, Member, Terms, hashed, label};
use super::accounts_file::AccountsFile;
use super::process;
use super::quantity::{MAX_BYTES, format_bytes};
use super::reserve::Answer;
use crate::mmap::Mapped;
use crate::page::spans::Time;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Maximum tries while other processes ask at the same time. After that the limit counts as full.
const MAX_TRIES: u32 = 10_000;

/// Slot of a process in the accounts file, as long as this value lives. Dropping it gives the
/// memory back.
#[derive(Debug)]
pub struct Slot {
    file: AccountsFile,
    account: Account,
}

/// Account of a process, for use by any of its threads.
#[derive(Clone, Debug)]
pub struct Account {
    accounts: Arc<Mapped<Accounts>>,
    member: usize,
    job: usize,
    /// The job's limit, in bytes.
    limit: u64,
    /// The job's part of the device's time, in parts per million; zero: no limit.
    part: u64,
}

/// Refusal: the limit would be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Bytes that were requested.
    pub asked: u64,
    /// Bytes that the job has.
    pub used: u64,
    /// The job's limit, in bytes.
    pub limit: u64,
}

impl fmt::Display for Full {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [asked, used, limit] = [self.asked, self.used, self.limit].map(format_bytes);
        write!(out, "{asked} asked, {used} of {limit} used")
    }
}

impl Slot {
    /// Joins the job of this name with these limits: memory in bytes, and parts per million of the
    /// device's time.
    ///
    /// # Errors
    ///
    /// The job has other limits, the file is full, or the system refuses.
    pub fn join(
        file: AccountsFile,
        name: &str,
        memory: Option<u64>,
        compute: Option<u32>,
    ) -> io::Result<Self> {
        let memory = memory.unwrap_or(0).min(MAX_BYTES);
        let compute = compute.map_or(0, u64::from);
        let terms = Terms { name: hashed(name), memory, compute, label: label(name) };
        let (member, job) = file.locked(|| join(&file, name, &terms))??;
        let limit = if memory == 0 { MAX_BYTES } else { memory };
        let account =
            Account { accounts: file.accounts.clone(), member, job, limit, part: terms.compute };
        Ok(Self { file, account })
    }

    /// Returns the account, for the threads that allocate.
    pub fn account(&self) -> Account {
        self.account.clone()
    }

    /// Frees the slots and the memory of ended processes. Returns their number. Doesn't block.
    ///
    /// # Errors
    ///
    /// The system refuses locks.
    pub fn reclaim(&self) -> io::Result<usize> {
        reclaim(&self.file, Some(self.account.member))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let member = &self.account.accounts.members[self.account.member];
        self.account.accounts.turn.leave(self.account.member);
        member.set_job(None);
        member.share.clear();
    }
}

/// Finds a slot and a job. The caller has the file's lock.
fn join(file: &AccountsFile, name: &str, terms: &Terms) -> io::Result<(usize, usize)> {
    reclaim(file, None)?;
    let accounts: &Accounts = &file.accounts;
    let job = job(accounts, name, terms)?;
    for at in free_slots(accounts) {
        if file.take(at + 1)? {
            accounts.members[at].share.clear();
            accounts.begin(at, job, std::process::id(), process::own_start());
            return Ok((at, job));
        }
    }
    let count = accounts.members.len();
    Err(io::Error::other(format!("{count} processes with limits are on this device already")))
}

/// Returns the free slots. Those whose last process began first come first: a process that was
/// written to a folder returns to its slot.
fn free_slots(accounts: &Accounts) -> Vec<usize> {
    let is_free = |at: &usize| accounts.members[*at].job().is_none();
    let mut free: Vec<usize> = (0..accounts.members.len()).filter(is_free).collect();
    free.sort_by_key(|at| accounts.members[*at].started.load(Relaxed));
    free
}

/// Returns the job of this name, or a free place for it. The debt of a job whose processes have
/// ended waits for its next one, and so does the place, unless other jobs need it.
fn job(accounts: &Accounts, name: &str, terms: &Terms) -> io::Result<usize> {
    let lives = |at: usize| accounts.lives(at);
    let is_same = |job: &Job| job.terms().name == terms.name;
    if let Some(at) = accounts.jobs.iter().position(is_same) {
        let known = accounts.jobs[at].terms();
        if lives(at) {
            return if known == *terms { Ok(at) } else { Err(other_limits(name, &known, terms)) };
        }
        accounts.jobs[at].bucket.keep_debt(known.compute);
        accounts.jobs[at].set(terms);
        return Ok(at);
    }
    let now = Time::now().0;
    let free = (0..accounts.jobs.len()).filter(|at| !lives(*at));
    let cost = |at: &usize| (!accounts.jobs[*at].is_new(), accounts.jobs[*at].debt(now));
    let at = free.min_by_key(cost).ok_or_else(|| {
        io::Error::other(format!("{} jobs with limits are on this device", accounts.jobs.len()))
    })?;
    accounts.jobs[at].bucket.clear();
    accounts.jobs[at].set(terms);
    Ok(at)
}

fn other_limits(name: &str, known: &Terms, asked: &Terms) -> io::Error {
    let text = |terms: &Terms| match (terms.memory, terms.compute) {
        (memory, 0) => format_bytes(memory),
        (0, compute) => format!("{} %", compute / 10_000),
        (memory, compute) => format!("{} and {} %", format_bytes(memory), compute / 10_000),
    };
    let (asked, known) = (text(asked), text(known));
    let name = if name.is_empty() { "programs without a name" } else { name };
    io::Error::other(format!("{name}: {asked} asked, but others of it run with {known}"))
}

/// Frees the slots of dead processes: those whose lock is free and that have no thread left.
pub(super) fn reclaim(file: &AccountsFile, own: Option<usize>) -> io::Result<usize> {
    let mut freed = 0;
    for (at, member) in file.accounts.members.iter().enumerate() {
        if member.job().is_none() || Some(at) == own || !file.take(at + 1)? {
            continue;
        }
        let is_gone = process::is_gone(member.process.load(Relaxed), member.started.load(Relaxed));
        if is_gone {
            member.set_job(None);
            member.share.clear();
            freed += 1;
        }
        file.let_go(at + 1)?;
    }
    Ok(freed)
}

impl Account {
    /// Reserves bytes for this process.
    ///
    /// # Errors
    ///
    /// The job has no room for them.
    pub fn reserve(&self, bytes: u64) -> Result<(), Full> {
        let share = &self.member().share;
        let full = || Full { asked: bytes, used: self.used(), limit: self.limit };
        if bytes > self.limit {
            return Err(full());
        }
        for tried in 0..MAX_TRIES {
            match share.ask(bytes, self.limit, self.accounts.shares(self.job)) {
                Answer::Granted => return Ok(()),
                Answer::Full => return Err(full()),
                // A process on another core is ready soon. A process without a core needs this one.
                Answer::Contended if tried % 8 == self.member as u32 % 8 => std::hint::spin_loop(),
                Answer::Contended => std::thread::yield_now(),
            }
        }
        Err(full())
    }

    /// Adds bytes that were taken without a request, because they weren't known before.
    pub fn add(&self, bytes: u64) {
        self.member().share.add(bytes.min(MAX_BYTES));
    }

    /// Gives bytes back.
    pub fn give_back(&self, bytes: u64) {
        self.member().share.give_back(bytes);
    }

    pub(super) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    pub(super) fn member(&self) -> &Member {
        &self.accounts.members[self.member]
    }

    pub(super) fn place(&self) -> usize {
        self.member
    }

    pub(super) fn job(&self) -> usize {
        self.job
    }

    pub(super) fn part(&self) -> u64 {
        self.part
    }

    /// Counts an allocation that was refused.
    pub fn note_refused(&self) {
        self.accounts.jobs[self.job].tally.refused.fetch_add(1, Relaxed);
    }

    /// Returns the job's bytes, its overhead included. May be out of date when it returns.
    pub fn used(&self) -> u64 {
        self.accounts.used(self.job)
    }

    /// Returns the bytes that all jobs of the device's accounts file use.
    pub fn used_by_all(&self) -> u64 {
        (0..MAX_JOBS).fold(0, |sum, job| sum.saturating_add(self.accounts.used(job)))
    }

    /// Returns whether a process has a slot in the device's accounts file: then it is charged with
    /// what it has.
    pub fn has_process(&self, process: u32, started: u64) -> bool {
        self.accounts.members.iter().any(|member| {
            let known = (member.process.load(Relaxed), member.started.load(Relaxed));
            member.job().is_some() && known == (process, started)
        })
    }

    /// Returns the bytes of the contexts of the job's processes, as far as a daemon knows.
    pub fn overhead(&self) -> u64 {
        self.accounts.overhead(self.job)
    }

    /// Returns the bytes that this process has allocated.
    pub fn own(&self) -> u64 {
        self.member().share.used()
    }

    /// The job's limit, in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }
}
