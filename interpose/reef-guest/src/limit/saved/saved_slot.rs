//! Slot of a process in a folder.
//!
//! A process keeps the numbers of its slot and of its job in its own memory, and may be stopped in
//! the middle of a request. So it needs the same slot with the same words when it starts again:
//!
//! 1. The slot is read while the process is stopped.
//! 2. Before the process starts, its slot is written to the accounts file, which is made if it is
//!    missing. The slot is that of the starting program.
//! 3. The process locks its slot, and the slot becomes the process's.

use crate::limit::accounts::{Accounts, MAX_JOBS, MAX_LABEL, Terms};
use crate::limit::accounts_file::AccountsFile;
use crate::limit::process;
use crate::limit::quantity::format_bytes;
use crate::limit::slot::reclaim;
use crate::mmap::copy_of;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// Words before those of the label.
const HEAD: usize = 12;

/// Slot of a process in the accounts file of a device, with the limits of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSlot {
    path: PathBuf,
    member: usize,
    job: usize,
    process: u32,
    user: u32,
    group: u32,
    asking: u64,
    used: u64,
    overhead: u64,
    terms: Terms,
}

impl SavedSlot {
    /// Number of [`words`](Self::words).
    pub const WORDS: usize = HEAD + MAX_LABEL / 8;

    /// Reads the slot of a stopped process from an accounts file, which is at `path`. `None`: the
    /// process has none there.
    ///
    /// # Errors
    ///
    /// The file isn't an accounts file of this version.
    pub fn read(
        file: &File,
        path: PathBuf,
        process: u32,
        started: u64,
    ) -> io::Result<Option<Self>> {
        let owner = file.metadata()?;
        let accounts: Box<Accounts> = copy_of(file)?;
        accounts.check().map_err(io::Error::other)?;
        let is_its = |at: &usize| {
            let member = &accounts.members[*at];
            (member.process.load(Relaxed), member.started.load(Relaxed)) == (process, started)
        };
        let job_of =
            |at: usize| Some((at, accounts.members[at].job().filter(|job| *job < MAX_JOBS)?));
        let Some((member, job)) = (0..accounts.members.len()).filter(is_its).find_map(job_of)
        else {
            return Ok(None);
        };
        let share = &accounts.members[member].share;
        Ok(Some(Self {
            path,
            member,
            job,
            process,
            user: owner.uid(),
            group: owner.gid(),
            asking: share.asking(),
            used: share.used(),
            overhead: share.overhead(),
            terms: accounts.jobs[job].terms(),
        }))
    }

    /// Creates the slot of these words, in the accounts file at `path`.
    ///
    /// # Errors
    ///
    /// They aren't those of a slot.
    pub fn new(path: PathBuf, words: &[u64; Self::WORDS]) -> io::Result<Self> {
        let [
            member,
            job,
            process,
            user,
            group,
            asking,
            used,
            overhead,
            memory,
            compute,
            one,
            two,
            label @ ..,
        ] = *words;
        let wrong = || io::Error::other(format!("{}: not words of a slot", path.display()));
        let number = |word: u64| u32::try_from(word).map_err(|_| wrong());
        let index = |word: u64| usize::try_from(word).map_err(|_| wrong());
        let (member, job) = (index(member)?, index(job)?);
        let (process, user, group) = (number(process)?, number(user)?, number(group)?);
        let terms = Terms { name: [one, two], memory, compute, label };
        Ok(Self { path, member, job, process, user, group, asking, used, overhead, terms })
    }

    /// Returns the slot as words.
    pub fn words(&self) -> [u64; Self::WORDS] {
        let mut words = [0; Self::WORDS];
        let (head, label) = words.split_at_mut(HEAD);
        head.copy_from_slice(&[
            self.member as u64,
            self.job as u64,
            self.process.into(),
            self.user.into(),
            self.group.into(),
            self.asking,
            self.used,
            self.overhead,
            self.terms.memory,
            self.terms.compute,
            self.terms.name[0],
            self.terms.name[1],
        ]);
        label.copy_from_slice(&self.terms.label);
        words
    }

    /// Returns the path of the accounts file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reserves the slot for its process, which is about to start. The accounts file is made if it
    /// is missing.
    ///
    /// # Errors
    ///
    /// The slot or the place of its job is another's, the job has other limits or too little room,
    /// or the system refuses.
    pub fn reserve(&self) -> io::Result<ReservedSlot> {
        let file = AccountsFile::of_user(&self.path, self.user, self.group)?;
        file.locked(|| self.begin(&file))??;
        Ok(ReservedSlot { file, member: self.member, process: self.process, is_used: false })
    }

    /// Writes the slot. The caller has the file's lock.
    fn begin(&self, file: &AccountsFile) -> io::Result<()> {
        reclaim(file, None)?;
        let accounts: &Accounts = &file.accounts;
        self.check(accounts).map_err(io::Error::other)?;
        if !file.take(self.member + 1)? {
            return Err(io::Error::other("another process has locked the slot in the accounts"));
        }
        file.let_go(self.member + 1)?; // the process locks it when it starts
        let job = &accounts.jobs[self.job];
        if !accounts.lives(self.job) {
            if job.terms().name == self.terms.name {
                job.bucket.keep_debt(job.part());
            } else {
                job.bucket.clear();
                self.clear_other_place(accounts);
            }
            job.set(&self.terms);
        }
        accounts.members[self.member].share.set(self.asking, self.used, self.overhead);
        accounts.begin(self.member, self.job, std::process::id(), process::own_start());
        Ok(())
    }

    /// Clears a place that the job had meanwhile, and has no process in: a job has one place.
    fn clear_other_place(&self, accounts: &Accounts) {
        let others = accounts.jobs.iter().filter(|job| job.terms().name == self.terms.name);
        others.for_each(|job| job.set(&Terms::default()));
    }

    /// Checks that the slot and its job's place are free or the job's, and that the job has room.
    fn check(&self, accounts: &Accounts) -> Result<(), String> {
        let (Some(member), Some(job)) =
            (accounts.members.get(self.member), accounts.jobs.get(self.job))
        else {
            return Err("the accounts have fewer slots".into());
        };
        if member.job().is_some() {
            let other = member.process.load(Relaxed);
            return Err(format!("the slot in the accounts must be free, process {other} has it"));
        }
        let is_elsewhere = |at: usize| {
            at != self.job
                && accounts.lives(at)
                && accounts.jobs[at].terms().name == self.terms.name
        };
        if (0..MAX_JOBS).any(is_elsewhere) {
            return Err(
                "other programs of its job must end first: they have another account".into()
            );
        }
        if !accounts.lives(self.job) {
            return Ok(());
        }
        if job.terms() != self.terms {
            return Err(
                "the account of its job must be free, programs of another job or limit have it"
                    .into(),
            );
        }
        let (needs, used) = (self.used.saturating_add(self.overhead), accounts.used(self.job));
        let limit = self.terms.memory;
        if limit > 0 && used > 0 && used.saturating_add(needs) > limit {
            let [needs, used, limit] = [needs, used, limit].map(format_bytes);
            return Err(format!("its job has {used} of {limit}, and it needs {needs}"));
        }
        Ok(())
    }
}

/// Slot that is reserved for a process which is about to start. Dropping it frees the slot.
#[derive(Debug)]
pub struct ReservedSlot {
    file: AccountsFile,
    member: usize,
    process: u32,
    is_used: bool,
}

impl ReservedSlot {
    /// Gives the slot to its process, which runs, and began at this time in ticks since boot.
    pub fn hand_over(self, started: u64) {
        let mut slot = self;
        let member = &slot.file.accounts.members[slot.member];
        member.started.store(started, Relaxed);
        member.process.store(slot.process, Relaxed);
        slot.is_used = true;
    }
}

impl Drop for ReservedSlot {
    fn drop(&mut self) {
        // A process that runs all the same has the slot's lock, and keeps the slot.
        if !self.is_used && self.file.take(self.member + 1).unwrap_or(true) {
            let member = &self.file.accounts.members[self.member];
            member.set_job(None);
            member.share.clear();
        }
    }
}
