//! Operations on guests: out of the GPU's memory, and back.

use super::watch::{MOVE_TIMEOUT, Moving};
use crate::error::{Error, Result};
use parking_lot::Mutex;
use reef_guest::page::Class;
use reef_guest::registry::{GuestView, Registry};
use reef_suspend::helper::{AdoptedFolder, Answer, Op, Request, run, run_each, write_adopted};
use reef_suspend::{Held, Records, Steps, Suspended};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::Duration;

/// This program, also once its file has been replaced.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Longest time for the work of a guest to end.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// Cause of a suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspender {
    /// An operator: `reef resume` brings it back.
    Operator,
    /// A real-time program that needed its memory.
    Memory,
    /// Nothing used it: a model that is on the GPU on demand.
    Idle,
    /// It moves to another GPU, and is back once the move has ended.
    Move,
}

/// Suspends guests of one registry.
#[derive(Debug)]
pub(crate) struct Suspensions {
    registry: Mutex<Weak<Registry>>,
    folder: PathBuf,
    /// Serves requests of [`run`].
    program: PathBuf,
    /// Locked during an operation, which takes as long as the copies.
    operation: Mutex<()>,
    /// Never locked during an operation: a scrape of `/metrics` reads them meanwhile.
    figures: Mutex<Figures>,
    /// Processes that this daemon has suspended, or is about to.
    suspenders: Mutex<BTreeMap<u32, Suspender>>,
}

/// Sums since the start of the daemon.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) suspensions: u64,
    pub(crate) resumes: u64,
    pub(crate) refused: u64,
    /// Seconds of each step.
    pub(crate) steps: Steps,
}

impl Figures {
    fn note_suspension(&mut self, all: &[Suspended]) {
        self.suspensions += 1;
        self.steps.lock += all.iter().map(|one| one.steps.lock).fold(0.0, f64::max);
        self.steps.checkpoint += all.iter().map(|one| one.steps.checkpoint).sum::<f64>();
    }

    fn note_return(&mut self, steps: Steps) {
        self.resumes += 1;
        self.steps.restore += steps.restore;
        self.steps.unlock += steps.unlock;
    }
}

/// Returns a timeout in milliseconds.
///
/// # Errors
///
/// `Invalid` if it is 0, or above [`MAX_TIMEOUT`].
pub(crate) fn millis(timeout: Duration) -> Result<u64> {
    if timeout > MAX_TIMEOUT || timeout.is_zero() {
        let most = MAX_TIMEOUT.as_secs();
        let text = format!("timeout must be more than 0 and at most {most} s, got {timeout:?}");
        return Err(Error::Invalid(text));
    }
    Ok(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1))
}

impl Suspensions {
    /// Records lie in `folder`; `program` is this one, `reef`.
    pub(crate) fn new(registry: Weak<Registry>, folder: PathBuf, program: PathBuf) -> Self {
        let (operation, figures, suspenders) = Default::default();
        let registry = Mutex::new(registry);
        Self { registry, folder, program, operation, figures, suspenders }
    }

    /// Takes the guests of `registry` from now on.
    pub(crate) fn attach(&self, registry: Weak<Registry>) {
        *self.registry.lock() = registry;
    }

    /// Returns the folder of the records.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the cause of a process's suspension. `None`: it is not suspended.
    pub(crate) fn suspender(&self, pid: u32) -> Option<Suspender> {
        self.suspenders.lock().get(&pid).copied()
    }

    /// True while a process cannot react, because an operator keeps it off the GPU or moves it to
    /// another one, or a real-time program has its memory.
    pub(crate) fn is_held(&self, pid: u32) -> bool {
        match self.suspender(pid) {
            Some(Suspender::Operator | Suspender::Memory | Suspender::Move) => true,
            Some(Suspender::Idle) | None => false,
        }
    }

    /// Forgets a process that has ended.
    pub(crate) fn forget(&self, pid: u32) {
        self.suspenders.lock().remove(&pid);
    }

    /// Sets the cause of these processes' suspension. Returns the causes before.
    fn set_suspender(&self, pids: &[u32], by: Option<Suspender>) -> Vec<(u32, Option<Suspender>)> {
        let mut all = self.suspenders.lock();
        let set = |pid: &u32| {
            let before = match by {
                Some(by) => all.insert(*pid, by),
                None => all.remove(pid),
            };
            (*pid, before)
        };
        pids.iter().map(set).collect()
    }

    fn reset_suspenders(&self, before: Vec<(u32, Option<Suspender>)>) {
        for (pid, by) in before {
            self.set_suspender(&[pid], by);
        }
    }

    /// Marks a process as suspended by this cause.
    #[cfg(test)]
    pub(crate) fn mark(&self, pid: u32, by: Suspender) {
        self.set_suspender(&[pid], Some(by));
    }

    /// Processes that are suspended now.
    pub(crate) fn all(&self) -> Vec<Suspended> {
        Records::at(&self.folder).all()
    }

    /// Sums since the start of the daemon.
    pub(crate) fn figures(&self) -> Figures {
        *self.figures.lock()
    }

    /// Processes of this process number or of this job.
    fn find(&self, target: &str) -> Result<Vec<u32>> {
        let guests = self.guests();
        let is_meant = |guest: &&GuestView| {
            guest.who.pid.to_string() == target || (!guest.job.is_empty() && guest.job == target)
        };
        let meant: Vec<_> = guests.iter().filter(is_meant).collect();
        if meant.is_empty() {
            let text = format!("no guest {target:?}: name a process number or a job of `reef top`");
            return Err(Error::NotFound(text));
        }
        if let Some(guest) = meant.iter().find(|guest| guest.who.class == Class::RealTime) {
            let pid = guest.who.pid;
            let text = format!("process {pid} must be best-effort to be suspended, is real-time");
            return Err(Error::Invalid(text));
        }
        let pids: BTreeSet<u32> = meant.iter().map(|guest| guest.who.pid).collect();
        Ok(pids.into_iter().collect())
    }

    /// Current guests.
    pub(crate) fn guests(&self) -> Vec<GuestView> {
        let registry = self.registry.lock().upgrade();
        registry.map(|registry| registry.guests()).unwrap_or_default()
    }

    /// Suspends a guest, or all of a job. Blocks.
    ///
    /// # Errors
    ///
    /// `NotFound`, `Invalid`: it is not a best-effort guest. `Unavailable`: the driver refuses; the
    /// guest runs on.
    pub(crate) fn suspend(&self, target: &str, timeout: Duration) -> Result<Vec<Suspended>> {
        let timeout_ms = millis(timeout)?;
        let pids = self.find(target)?;
        if let Some(all) = self.take_over(&pids) {
            return Ok(all);
        }
        self.suspend_processes(pids, Op::Suspend { timeout_ms, for_memory: false })
    }

    /// Makes idle models that have left the GPU an operator's: no request brings them back. `None`
    /// unless all of them have left.
    fn take_over(&self, pids: &[u32]) -> Option<Vec<Suspended>> {
        let _operation = self.operation.lock();
        if !pids.iter().all(|pid| self.suspender(*pid) == Some(Suspender::Idle)) {
            return None;
        }
        self.set_suspender(pids, Some(Suspender::Operator));
        let mut all = self.all();
        all.retain(|one| pids.contains(&one.process.pid));
        Some(all)
    }

    /// Has an idle process leave the GPU. Blocks.
    ///
    /// # Errors
    ///
    /// `Unavailable`: it has been suspended meanwhile, the driver refuses, or the host has too
    /// little memory; it stays.
    pub(crate) fn leave(&self, pid: u32, timeout: Duration) -> Result<Option<Suspended>> {
        let op = Op::Suspend { timeout_ms: millis(timeout)?, for_memory: false };
        Ok(self.suspend_by(&[pid], op, Suspender::Idle)?.pop())
    }

    /// Brings a process back that has [left](Self::leave). Blocks.
    ///
    /// # Errors
    ///
    /// `Unavailable`: an operator keeps it away, there is too little memory, or the driver refuses.
    pub(crate) fn come_back(&self, pid: u32) -> Result<()> {
        let _operation = self.operation.lock();
        match self.suspender(pid) {
            Some(Suspender::Idle) => {
                let back = || self.resume_locked(vec![pid]).map(drop);
                Moving::new(&[pid]).watch(MOVE_TIMEOUT, back)
            }
            None => Ok(()), // an operator was faster
            Some(_) => Err(Error::Unavailable("an operator keeps it away".into())),
        }
    }

    /// Brings a process back that was started from a folder, off the GPU. Blocks.
    ///
    /// # Errors
    ///
    /// `Unavailable`: there is too little memory, or the driver refuses.
    pub(crate) fn adopt(&self, pid: u32, records: &[Suspended]) -> Result<()> {
        let kept = Records::at(&self.folder);
        let saved = records.iter().try_for_each(|record| kept.save(record));
        saved.map_err(|error| Error::Unavailable(error.to_string()))?;
        self.set_suspender(&[pid], Some(Suspender::Idle));
        let back = self.come_back(pid);
        if back.is_err() {
            self.forget(pid);
        }
        back
    }

    /// Writes a process that is off the GPU, or has no memory there, to a folder. It stays as it
    /// is, and no move of it may begin. Blocks.
    ///
    /// # Errors
    ///
    /// `Unavailable`, with the reason.
    pub(crate) fn write(&self, pid: u32, into: AdoptedFolder) -> Result<()> {
        let write = || answered(write_adopted(&self.program, &self.folder, into)).map(drop);
        Moving::new(&[pid]).watch(MOVE_TIMEOUT, write)
    }

    /// Has an idle process leave the GPU, and one that has [left](Self::leave) return meanwhile, in
    /// the room that becomes free. `had` is the memory of the leaver, as far as it is known. Tells
    /// the end of each when it comes: a refused departure before the return that lacks its room.
    /// Blocks until both have ended.
    pub(crate) fn turn_over(
        &self,
        leaver: u32,
        had: Vec<Held>,
        returner: u32,
        timeout: Duration,
        left: &mut dyn FnMut(Result<Option<Suspended>>),
        back: &mut dyn FnMut(Result<()>),
    ) {
        let operation = self.operation.lock();
        let are_idle =
            self.suspender(leaver).is_none() && self.suspender(returner) == Some(Suspender::Idle);
        let (true, Ok(timeout_ms)) = (are_idle, millis(timeout)) else {
            drop(operation);
            left(self.leave(leaver, timeout));
            return back(self.come_back(returner));
        };
        self.set_suspender(&[leaver], Some(Suspender::Idle));
        self.exempt(&[leaver], true);
        let op = Op::Turnover { timeout_ms, back: returner, had };
        let request = Request { folder: self.folder.clone(), pids: vec![leaver], op };
        let moving = Moving::new(&[leaver, returner]);
        let (mut has_left, mut is_back, mut why) = (false, false, None);
        let mut end_leave = |made: Result<Vec<Suspended>>| {
            let made = self.end_suspension(&[leaver], vec![(leaver, None)], made);
            left(made.map(|mut all| all.pop()));
        };
        let mut end_return = |made: Result<Steps>| back(self.end_return(&[returner], made));
        let mut tell = |answer: Answer| match answer {
            Answer::Suspended(all) => {
                has_left = true;
                moving.end(leaver);
                end_leave(Ok(all));
            }
            Answer::Stays(why) => {
                has_left = true;
                moving.end(leaver);
                end_leave(Err(Error::Unavailable(why)));
            }
            Answer::Resumed(_, steps) => {
                is_back = true;
                moving.end(returner);
                end_return(Ok(steps));
            }
            Answer::StaysAway(why) => {
                is_back = true;
                moving.end(returner);
                end_return(Err(Error::Unavailable(why)));
            }
            Answer::Refused(refused) => why = Some(Error::Unavailable(refused)),
        };
        let ran = moving.watch(MOVE_TIMEOUT, || run_each(&self.program, &request, &mut tell));
        let failed = ran.err().map(|error| Error::system("the process that suspends", error));
        let why = why.or(failed).unwrap_or_else(|| Error::Unavailable("no answer".into()));
        if !has_left {
            end_leave(Err(why.clone()));
        }
        if !is_back {
            end_return(Err(why));
        }
    }

    /// Suspends processes of guests by this operation. Blocks.
    ///
    /// # Errors
    ///
    /// `Unavailable`: the driver refuses; they run on.
    pub(super) fn suspend_processes(&self, pids: Vec<u32>, op: Op) -> Result<Vec<Suspended>> {
        let is_for_memory = matches!(op, Op::Suspend { for_memory: true, .. });
        let by = if is_for_memory { Suspender::Memory } else { Suspender::Operator };
        self.suspend_by(&pids, op, by)
    }

    fn suspend_by(&self, pids: &[u32], op: Op, by: Suspender) -> Result<Vec<Suspended>> {
        let _operation = self.operation.lock();
        if by == Suspender::Idle && pids.iter().any(|pid| self.suspender(*pid).is_some()) {
            return Err(Error::Unavailable("it is suspended".into()));
        }
        let before = self.set_suspender(pids, Some(by));
        self.exempt(pids, true);
        let run = || self.run(pids.to_vec(), op).map(|(all, _)| all);
        let made = match by {
            Suspender::Idle => Moving::new(pids).watch(MOVE_TIMEOUT, run),
            Suspender::Operator | Suspender::Memory | Suspender::Move => run(),
        };
        self.end_suspension(pids, before, made)
    }

    /// Notes the end of a suspension. `before` has the causes before it.
    fn end_suspension(
        &self,
        pids: &[u32],
        before: Vec<(u32, Option<Suspender>)>,
        made: Result<Vec<Suspended>>,
    ) -> Result<Vec<Suspended>> {
        match made {
            Ok(all) => {
                self.figures.lock().note_suspension(&all);
                Ok(all)
            }
            Err(error) => {
                self.figures.lock().refused += 1;
                self.exempt(pids, false);
                self.reset_suspenders(before);
                Err(error)
            }
        }
    }

    /// Moves a guest, or all of a job, to the GPU that `to` names. Blocks.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`suspend`](Self::suspend). If the other GPU has too little memory,
    /// the guest runs where it was.
    pub(crate) fn move_to(
        &self,
        target: &str,
        timeout: Duration,
        to: String,
    ) -> Result<Vec<Suspended>> {
        let timeout_ms = millis(timeout)?;
        let pids = self.find(target)?;
        self.moving(&pids, || self.run(pids.clone(), Op::Move { timeout_ms, to }))
    }

    /// Runs the move of processes to another GPU.
    fn moving(
        &self,
        pids: &[u32],
        run: impl FnOnce() -> Result<(Vec<Suspended>, Steps)>,
    ) -> Result<Vec<Suspended>> {
        let _operation = self.operation.lock();
        let marked = self.begin_move(pids);
        self.exempt(pids, true);
        let moved = run();
        self.end_move(pids, &marked);
        let mut figures = self.figures.lock();
        match moved {
            Ok((all, steps)) => {
                figures.note_suspension(&all);
                figures.note_return(steps);
                Ok(all)
            }
            Err(error) => {
                figures.refused += 1;
                Err(error)
            }
        }
    }

    /// Marks processes as those of a move. Returns them, apart from those that are suspended
    /// already: their move is refused.
    fn begin_move(&self, pids: &[u32]) -> Vec<u32> {
        let mut all = self.suspenders.lock();
        let there: Vec<u32> = pids.iter().copied().filter(|pid| !all.contains_key(pid)).collect();
        all.extend(there.iter().map(|pid| (*pid, Suspender::Move)));
        there
    }

    /// Ends the marks of a move. A process that could not return to either GPU is suspended, and
    /// `reef resume` brings it back.
    fn end_move(&self, pids: &[u32], marked: &[u32]) {
        let away: BTreeSet<u32> = self.all().iter().map(|one| one.process.pid).collect();
        let (left, back): (Vec<u32>, Vec<u32>) =
            pids.iter().copied().partition(|pid| away.contains(pid));
        self.exempt(&back, false);
        for pid in marked {
            let by = left.contains(pid).then_some(Suspender::Operator);
            self.set_suspender(&[*pid], by);
        }
    }

    /// Brings a guest back. Blocks.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`suspend`](Self::suspend), also for too little memory.
    pub(crate) fn resume(&self, target: &str) -> Result<Vec<Suspended>> {
        self.resume_processes(self.find(target)?)
    }

    /// Brings processes of guests back. Blocks.
    ///
    /// # Errors
    ///
    /// `Unavailable`: too little memory, or the driver refuses.
    pub(super) fn resume_processes(&self, pids: Vec<u32>) -> Result<Vec<Suspended>> {
        let _operation = self.operation.lock();
        self.resume_locked(pids)
    }

    /// Brings processes back, while the caller has the lock of operations.
    fn resume_locked(&self, pids: Vec<u32>) -> Result<Vec<Suspended>> {
        let (all, steps) = match self.run(pids.clone(), Op::Resume { to: None }) {
            Ok((all, steps)) => (all, Ok(steps)),
            Err(error) => (Vec::new(), Err(error)),
        };
        self.end_return(&pids, steps).map(|()| all)
    }

    fn end_return(&self, pids: &[u32], made: Result<Steps>) -> Result<()> {
        match made {
            Ok(steps) => {
                self.figures.lock().note_return(steps);
                self.exempt(pids, false);
                self.set_suspender(pids, None);
                Ok(())
            }
            Err(error) => {
                self.figures.lock().refused += 1;
                Err(error)
            }
        }
    }

    fn run(&self, pids: Vec<u32>, op: Op) -> Result<(Vec<Suspended>, Steps)> {
        let request = Request { folder: self.folder.clone(), pids, op };
        answered(run(&self.program, &request))
    }

    /// Opens the gates of these processes, or ends that.
    fn exempt(&self, pids: &[u32], is_exempt: bool) {
        let Some(registry) = self.registry.lock().upgrade() else { return };
        let all = registry.guests();
        let guests = all.iter().filter(|guest| pids.contains(&guest.who.pid));
        let guests: Vec<u32> = guests.map(|guest| guest.who.guest).collect();
        registry.exempt(&guests, is_exempt);
    }
}

/// Returns the records and the times of an answer, or its refusal.
fn answered(answer: io::Result<Answer>) -> Result<(Vec<Suspended>, Steps)> {
    match answer {
        Ok(Answer::Suspended(all)) => Ok((all, Steps::default())),
        Ok(Answer::Resumed(all, steps)) => Ok((all, steps)),
        Ok(Answer::Refused(why) | Answer::Stays(why) | Answer::StaysAway(why)) => {
            Err(Error::Unavailable(why))
        }
        Err(error) => Err(Error::system("the process that suspends", error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_suspend::Process;

    fn refused() -> Result<(Vec<Suspended>, Steps)> {
        Err(Error::Unavailable("no room on either GPU".into()))
    }

    /// Else a request whose time is over would end the process in the middle of its move.
    #[test]
    fn process_that_is_moved_is_held_until_the_move_ends() {
        let folder = tempfile::tempdir().unwrap();
        let suspensions = Suspensions::new(Weak::new(), folder.path().into(), "/nowhere".into());
        let moves = || {
            assert_eq!([1, 2, 3].map(|pid| suspensions.is_held(pid)), [true, true, false]);
            Ok((Vec::new(), Steps::default()))
        };
        suspensions.moving(&[1, 2], moves).unwrap();
        assert_eq!([1, 2].map(|pid| suspensions.suspender(pid)), [None; 2]);
        suspensions.moving(&[1], refused).unwrap_err();
        assert_eq!(suspensions.suspender(1), None, "it runs where it was");
    }

    #[test]
    fn process_that_a_move_has_left_off_the_gpu_is_suspended() {
        let folder = tempfile::tempdir().unwrap();
        let suspensions = Suspensions::new(Weak::new(), folder.path().into(), "/nowhere".into());
        let own = std::process::id();
        let record = serde_json::json!({
            "process": Process::of(own).unwrap(), "name": "test", "since": 0, "held": [],
            "steps": Steps::default(),
        });
        let leaves = || {
            let record: Suspended = serde_json::from_value(record).unwrap();
            Records::at(folder.path()).save(&record).unwrap();
            refused()
        };
        suspensions.moving(&[own], leaves).unwrap_err();
        assert_eq!(suspensions.suspender(own), Some(Suspender::Operator));
        suspensions.mark(own, Suspender::Idle);
        assert!(!suspensions.is_held(own), "a request brings it back");
        suspensions.moving(&[own], refused).unwrap_err();
        assert_eq!(suspensions.suspender(own), Some(Suspender::Idle), "its move was refused");
    }
}
