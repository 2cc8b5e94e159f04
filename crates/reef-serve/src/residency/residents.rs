//! All processes that are on the GPU on demand, with the thread that moves them.

use super::entry::{Id, Target};
use super::facts::{Facts, Held, Move, Residency, ResidencyState, StartKind};
use super::mover::Mover;
use super::steps::{FreeBytes, Step};
use super::table::Table;
use crate::error::{Error, Result};
use crate::suspend::suspensions::Suspender;
use parking_lot::{Condvar, Mutex, MutexGuard};
use reef_suspend::Suspended;
use reef_suspend::helper::AdoptedFolder;
use std::cell::Cell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a waiting request polls its client, and the causes of suspensions.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Longest sleep of the thread: an operator may bring a process back meanwhile.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Maximum number of moves that are kept for traces. The oldest are forgotten.
const MAX_MOVES: usize = 1024;

/// All processes that are on the GPU on demand.
#[derive(Debug)]
pub(crate) struct Residents {
    mover: Box<dyn Mover>,
    state: Mutex<State>,
    change: Condvar,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    /// The last moves, in the order of their ends.
    moves: VecDeque<Move>,
    /// True while there is the thread.
    has_thread: bool,
}

impl State {
    /// Keeps a move that has taken this time, and ends now.
    fn note_move(&mut self, target: Target, is_return: bool, time: Duration, is_done: bool) {
        if self.moves.len() >= MAX_MOVES {
            self.moves.pop_front();
        }
        let (title, end) = (self.table.title(target.id), Instant::now());
        let begin = end.checked_sub(time).unwrap_or(end);
        self.moves.push_back(Move { title, is_return, begin, end, is_done });
    }
}

impl Residents {
    /// Bounds the host memory of all processes that are off the GPU to `max_away` bytes. `None`: it
    /// has no bound.
    pub(crate) fn new(mover: Box<dyn Mover>, max_away: Option<u64>) -> Arc<Self> {
        let mut state = State::default();
        state.table.max_away = max_away;
        Arc::new(Self { mover, state: Mutex::new(state), change: Condvar::new() })
    }

    /// Adds a process that has not been started. It is removed when the result is dropped.
    ///
    /// # Errors
    ///
    /// `Failed` if the thread cannot be started.
    pub(crate) fn add(self: &Arc<Self>, facts: Facts) -> Result<Resident> {
        let mut state = self.state.lock();
        if !state.has_thread {
            let own = self.clone();
            let thread = thread::Builder::new().name("reef-residency".into());
            let thread = thread.spawn(move || own.run());
            thread.map_err(|e| Error::system("cannot start the thread for residency", e))?;
            state.has_thread = true;
        }
        let id = state.table.add(facts, Instant::now());
        drop(state);
        Ok(Resident { all: self.clone(), id })
    }

    /// Returns the state of all processes.
    pub(crate) fn all(&self) -> Vec<Residency> {
        self.state.lock().table.all()
    }

    /// Returns the last moves that have ended after this time.
    pub(crate) fn moves_since(&self, begin: Instant) -> Vec<Move> {
        let state = self.state.lock();
        state.moves.iter().filter(|one| one.end > begin).cloned().collect()
    }

    /// Has all processes of a model leave their device, and keeps them away until
    /// [`resume`](Self::resume). Its requests are refused meanwhile. Blocks until those that run
    /// have ended, and the processes have left.
    ///
    /// # Errors
    ///
    /// `Invalid` if it has no process on demand; `Deadline` if one has not left within `time`: the
    /// model takes requests again then; `Unavailable` if that is so for another reason.
    pub(crate) fn suspend(&self, model: &str, time: Duration) -> Result<()> {
        let begun = Instant::now();
        let mut state = self.state.lock();
        if !state.table.set_dismissed(model, true) {
            return Err(always_there(model));
        }
        self.change.notify_all();
        loop {
            if !state.table.is_model_dismissed(model) {
                return Err(Error::Unavailable(format!(
                    "model {model}: was resumed, loaded again or unloaded before it had left its device"
                )));
            }
            if state.table.has_left(model) {
                return Ok(());
            }
            if begun.elapsed() >= time {
                state.table.set_dismissed(model, false);
                self.change.notify_all();
                return Err(Error::Deadline(format!(
                    "model {model}: has not left its device within {time:?}: a request runs, or the log has the reason"
                )));
            }
            self.change.wait_for(&mut state, POLL_INTERVAL);
        }
    }

    /// Has a model that was [suspended](Self::suspend) take requests again. The next one brings it
    /// back.
    ///
    /// # Errors
    ///
    /// `Invalid` if it has no process on demand.
    pub(crate) fn resume(&self, model: &str) -> Result<()> {
        if !self.state.lock().table.set_dismissed(model, false) {
            return Err(always_there(model));
        }
        self.change.notify_all();
        Ok(())
    }

    /// Loop of the thread, until there is no process.
    fn run(&self) {
        loop {
            let (free, bytes) = self.measure();
            let mut state = self.state.lock();
            if state.table.is_empty() {
                state.has_thread = false;
                return;
            }
            bytes.into_iter().for_each(|(target, held)| state.table.note_bytes(target, held));
            self.note_suspenders(&mut state.table);
            let step = state.table.next(Instant::now(), &free);
            self.change.notify_all();
            match step {
                Step::Leave(target) => {
                    let refused = state.table.away_refusal(target.id, None);
                    drop(state);
                    match refused {
                        Some(why) => self.note_leave(target, Err(why), Duration::ZERO),
                        None => self.leave(target),
                    }
                }
                Step::Return(target) => {
                    drop(state);
                    self.bring_back(target);
                }
                Step::Turnover { leaver, returner } => {
                    let had = state.table.held(leaver.id);
                    let refused = state.table.away_refusal(leaver.id, Some(returner.id));
                    drop(state);
                    match refused {
                        Some(why) => {
                            self.note_leave(leaver, Err(why.clone()), Duration::ZERO);
                            self.note_return(returner, Err(why), Duration::ZERO, false);
                        }
                        None => self.turn_over(leaver, &had, returner),
                    }
                }
                Step::Admit | Step::Measure => {}
                Step::Sleep(time) => {
                    let time = time.unwrap_or(MAX_SLEEP).min(MAX_SLEEP);
                    self.change.wait_for(&mut state, time);
                }
            }
        }
    }

    /// Reads the memory that the next step depends on, without a lock.
    fn measure(&self) -> (FreeBytes, Vec<(Target, Held)>) {
        let (devices, unknown) = self.state.lock().table.questions();
        let free = devices.into_iter().map(|device| (device, self.mover.free(device)));
        let unknown = unknown.into_iter();
        let bytes = unknown.map(|(target, told)| (target, self.mover.bytes(target.pid, told)));
        (free.collect(), bytes.collect())
    }

    fn note_suspenders(&self, table: &mut Table) {
        let now = Instant::now();
        for Target { id, pid } in table.targets() {
            table.note_suspender(id, self.mover.suspender(pid), now);
        }
    }

    fn leave(&self, target: Target) {
        let begun = Instant::now();
        let left = self.mover.leave(target.pid);
        self.note_leave(target, left, begun.elapsed());
    }

    fn bring_back(&self, target: Target) {
        let begun = Instant::now();
        let back = self.mover.come_back(target.pid);
        self.note_return(target, back, begun.elapsed(), true);
    }

    fn turn_over(&self, leaver: Target, had: &Held, returner: Target) {
        let (begun, has_room) = (Instant::now(), Cell::new(true));
        let mut left = |left: Result<Held>| {
            has_room.set(left.is_ok());
            self.note_leave(leaver, left, begun.elapsed());
        };
        let mut back = |back: Result<()>| {
            self.note_return(returner, back, begun.elapsed(), has_room.get());
        };
        self.mover.turn_over(leaver.pid, had, returner.pid, &mut left, &mut back);
    }

    fn note_leave(&self, target: Target, left: Result<Held>, time: Duration) {
        let why = left.as_ref().err().cloned();
        let mut state = self.state.lock();
        state.note_move(target, false, time, why.is_none());
        let is_logged = state.table.note_leave(target, left.ok(), Instant::now());
        let (model, pid) = (state.table.title(target.id), target.pid);
        match why {
            None => tracing::info!(%model, pid, ?time, "the process has left the GPU"),
            Some(why) if is_logged => {
                tracing::warn!(%model, pid, %why, "the process stays on the GPU");
            }
            Some(_) => {}
        }
        self.change.notify_all();
    }

    /// Notes the end of a return. `had_room`: not refused because another process stays.
    fn note_return(&self, target: Target, back: Result<()>, time: Duration, had_room: bool) {
        let mut state = self.state.lock();
        state.note_move(target, true, time, back.is_ok());
        let (model, pid) = (state.table.title(target.id), target.pid);
        match back {
            Ok(()) => {
                tracing::info!(%model, pid, ?time, "the process is back on the GPU");
                state.table.note_return(target, Some(time), Instant::now());
            }
            Err(why) if had_room => {
                tracing::warn!(%model, pid, %why, "the process does not return");
                state.table.note_return(target, None, Instant::now());
            }
            Err(why) => {
                tracing::info!(%model, pid, %why, "the process waits for other room");
                state.table.note_no_room(target);
            }
        }
        self.change.notify_all();
    }
}

/// A process that is on the GPU on demand.
#[derive(Debug)]
pub(crate) struct Resident {
    all: Arc<Residents>,
    id: Id,
}

/// Reason for which a request does not use a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is away, and stays so for now.
    Away(Error),
    /// It does not return: it must be killed.
    Lost(Error),
}

impl Resident {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.all.state.lock()
    }

    /// Waits until there is room for a start, as far as its size is known. While an operator keeps
    /// the model off the device, none begins.
    ///
    /// # Errors
    ///
    /// `Unavailable` if there is none within `time`, or if `is_over`.
    pub(crate) fn wait_for_room(&self, time: Duration, is_over: &dyn Fn() -> bool) -> Result<()> {
        let mut state = self.lock();
        while state.table.is_dismissed(self.id) && !MutexGuard::unlocked(&mut state, is_over) {
            self.all.change.wait_for(&mut state, POLL_INTERVAL);
        }
        let begun = Instant::now();
        state.table.begin_start(self.id);
        self.all.change.notify_all();
        while !state.table.may_start(self.id) {
            if begun.elapsed() >= time || MutexGuard::unlocked(&mut state, is_over) {
                state.table.note_end(self.id);
                let why = "no room on the GPU for the start of the model's process";
                return Err(Error::Unavailable(why.into()));
            }
            self.all.change.wait_for(&mut state, POLL_INTERVAL);
        }
        Ok(())
    }

    /// Returns the folder of the daemon's sockets.
    pub(crate) fn sockets(&self) -> PathBuf {
        self.all.mover.sockets()
    }

    /// Counts a start, which took this time until the process was ready.
    pub(crate) fn count_start(&self, kind: StartKind, time: Duration) {
        self.lock().table.count_start(self.id, kind, time);
    }

    /// Brings a process to its devices that was started off them. Blocks.
    ///
    /// # Errors
    ///
    /// `Unavailable` if there is too little memory, or the driver refuses: it must be killed.
    pub(crate) fn adopt(&self, pid: u32, records: &[Suspended]) -> Result<()> {
        self.all.mover.adopt(pid, records)
    }

    /// Waits until no request needs the process, it is off its devices, and no other one is frozen.
    /// Has it stay so until the result is dropped; its requests wait. `None` if `is_over`.
    pub(crate) fn freeze(&self, is_over: &dyn Fn() -> bool) -> Option<FrozenResident<'_>> {
        let mut state = self.lock();
        while !MutexGuard::unlocked(&mut state, is_over) {
            if state.table.try_freeze(self.id) {
                return Some(FrozenResident(self));
            }
            self.all.change.wait_for(&mut state, MAX_SLEEP);
        }
        None
    }

    /// Has those that wait for a change ask whether it is over.
    pub(crate) fn wake(&self) {
        drop(self.lock());
        self.all.change.notify_all();
    }

    /// Notes that the process is ready.
    pub(crate) fn note_start(&self, pid: u32) {
        self.lock().table.note_start(self.id, pid, Instant::now());
        self.all.change.notify_all();
    }

    /// Notes that the process has ended, or was not started.
    pub(crate) fn note_end(&self) {
        let mut state = self.lock();
        let pid = state.table.pid(self.id);
        state.table.note_end(self.id);
        drop(state);
        pid.into_iter().for_each(|pid| self.all.mover.forget(pid));
        self.all.change.notify_all();
    }

    /// True if it has left the GPU, or moves.
    pub(crate) fn is_off(&self) -> bool {
        matches!(
            self.lock().table.state_of(self.id),
            ResidencyState::Leaving | ResidencyState::Away | ResidencyState::Returning
        )
    }

    /// True if it waits for room on the GPU for its start.
    pub(crate) fn waits_for_start(&self) -> bool {
        let state = self.lock();
        let is_starting = state.table.state_of(self.id) == ResidencyState::Starting;
        is_starting && !state.table.may_start(self.id)
    }

    /// True if it is to leave for another one once its request has ended.
    pub(crate) fn must_leave(&self) -> bool {
        self.lock().table.must_leave(self.id)
    }

    /// True if it has left the GPU.
    pub(crate) fn is_away(&self) -> bool {
        self.lock().table.state_of(self.id) == ResidencyState::Away
    }

    /// Waits until the process is on the GPU, and keeps it there until the result is dropped. One
    /// that starts does not have to be there.
    ///
    /// # Errors
    ///
    /// A refusal: it is not there within `time`, no client waits any more, or an operator keeps it
    /// away.
    pub(crate) fn enter(
        &self,
        time: Duration,
        gone: &dyn Fn() -> bool,
    ) -> Result<ResidentUse<'_>, Refusal> {
        self.begin_use(time, gone).map(|()| ResidentUse(self))
    }

    /// Begins a use as [`enter`](Self::enter) does, until [`end_use`](Self::end_use).
    ///
    /// # Errors
    ///
    /// Errors of [`enter`](Self::enter).
    pub(crate) fn begin_use(&self, time: Duration, gone: &dyn Fn() -> bool) -> Result<(), Refusal> {
        let (begun, mut is_told) = (Instant::now(), false);
        let mut state = self.lock();
        let result = loop {
            let refusal = self.refusal(&state.table);
            if refusal.is_none() && state.table.try_use(self.id) {
                break Ok(());
            }
            let is_over = begun.elapsed() >= time || MutexGuard::unlocked(&mut state, gone);
            let late = is_over.then(|| Refusal::Away(no_room()));
            if let Some(refusal) = refusal.or(late) {
                break Err(refusal);
            }
            if !std::mem::replace(&mut is_told, true) {
                state.table.begin_wait(self.id);
                self.all.change.notify_all(); // once, or those that wait would wake each other
            }
            self.all.change.wait_for(&mut state, POLL_INTERVAL);
        };
        if is_told {
            state.table.note_waited(self.id);
        }
        if result.is_err() {
            state.table.end_wait(self.id);
            self.all.change.notify_all();
        }
        result
    }

    pub(crate) fn end_use(&self) {
        let mut state = self.lock();
        state.table.end_use(self.id, Instant::now());
        if state.table.has_turns() || state.table.is_dismissed(self.id) {
            self.all.change.notify_all();
        }
    }

    /// Waits until there is room for the start of a network with these bytes.
    ///
    /// # Errors
    ///
    /// Errors of [`wait_for_room`](Self::wait_for_room).
    pub(crate) fn wait_for(
        &self,
        needs: Held,
        time: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Result<()> {
        self.note_needs(needs);
        self.wait_for_room(time, is_over)
    }

    /// Notes that a network is on its device, with these bytes. `number` stands for a process's.
    pub(crate) fn note_network(&self, number: u32, held: Held) {
        let mut state = self.lock();
        state.table.note_start(self.id, number, Instant::now());
        state.table.note_needs(self.id, held);
        drop(state);
        self.all.change.notify_all();
    }

    /// Notes the bytes that a network has, or that its return needs.
    pub(crate) fn note_needs(&self, held: Held) {
        self.lock().table.note_needs(self.id, held);
    }

    /// Counts a client that keeps a network on its device, beyond its uses by requests.
    pub(crate) fn begin_keep(&self) {
        self.lock().table.begin_keep(self.id);
    }

    /// Ends the stay of a client.
    pub(crate) fn end_keep(&self) {
        self.lock().table.end_keep(self.id);
    }

    /// Counts a real-time request of a network, before it waits.
    pub(crate) fn begin_real_time(&self) {
        self.lock().table.begin_real_time(self.id);
    }

    /// Ends a real-time request of a network.
    pub(crate) fn end_real_time(&self) {
        self.lock().table.end_real_time(self.id, Instant::now());
    }

    /// Has a process that does not return be tried again.
    pub(crate) fn forget_failures(&self) {
        self.lock().table.forget_failures(self.id);
    }

    /// Returns the reason for which no request may wait for the process, if there is one.
    fn refusal(&self, table: &Table) -> Option<Refusal> {
        if table.is_lost(self.id) {
            let why = "the model's process does not return to the GPU";
            return Some(Refusal::Lost(Error::Unavailable(why.into())));
        }
        if table.is_dismissed(self.id) {
            let why = "the model was suspended by an operator: `reef ctl resume` brings it back";
            return Some(Refusal::Away(Error::Unavailable(why.into())));
        }
        let pid = table.pid(self.id)?;
        let error = match self.all.mover.suspender(pid)? {
            Suspender::Idle | Suspender::Move => return None,
            Suspender::Operator => Error::Unavailable(format!(
                "the model's process {pid} was suspended by an operator: `reef resume {pid}` brings it back"
            )),
            Suspender::Memory => left_for_memory(),
        };
        Some(Refusal::Away(error))
    }
}

/// Returns the error for a model that does not move.
fn always_there(model: &str) -> Error {
    Error::Invalid(format!(
        "model {model}: must have residency = \"on-demand\" to leave its device"
    ))
}

/// Returns whether a request with this error may succeed a moment later, without an operator.
pub(crate) fn may_be_repeated(error: &Error) -> bool {
    [no_room(), left_for_memory()].contains(error)
}

/// Returns the error for a request whose process returns once a real-time program leaves it room.
fn left_for_memory() -> Error {
    Error::Unavailable("the model has left the GPU for a real-time program: try again".into())
}

/// Returns the error for a request whose process has not returned.
pub(crate) fn no_room() -> Error {
    Error::Unavailable("the model is off the GPU, and did not return in time: try again".into())
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.lock().table.remove(self.id);
        self.all.change.notify_all();
    }
}

/// Use of a process by a request, which keeps it on the GPU.
#[derive(Debug)]
pub(crate) struct ResidentUse<'a>(&'a Resident);

impl Drop for ResidentUse<'_> {
    fn drop(&mut self) {
        self.0.end_use();
    }
}

/// A process that stays as it is while it is written to a folder.
#[derive(Debug)]
pub(crate) struct FrozenResident<'a>(&'a Resident);

impl FrozenResident<'_> {
    /// Writes the process to a folder. Blocks.
    ///
    /// # Errors
    ///
    /// `Unavailable`, with the reason for which it cannot be written.
    pub(crate) fn write(&self, pid: u32, into: AdoptedFolder) -> Result<()> {
        self.0.all.mover.write(pid, into)
    }
}

impl Drop for FrozenResident<'_> {
    fn drop(&mut self) {
        self.0.lock().table.end_freeze(self.0.id);
        self.0.all.change.notify_all();
    }
}

#[cfg(test)]
mod tests;
