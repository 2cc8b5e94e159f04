//! The device's end of the queue.

use super::Fault;
use crate::sync::primitives::{Mutex, thread::Thread};

/// Runs one command at a time; a long one ends when the model says so, others at once.
#[derive(Debug)]
pub(super) struct Device {
    state: Mutex<State>,
    /// Thread that is unparked when what it asked for is there.
    worker: Thread,
}

#[derive(Debug, Default)]
struct State {
    /// Commands before this one run until they are ended.
    long: u64,
    /// Queues are stopped.
    evicted: bool,
    /// This queue's work is stopped, until it is taken back.
    void: bool,
    /// Stopped work goes on by itself when queues do.
    holds: bool,
    /// An idle queue stays void.
    stays_void: bool,
    /// Launches start although queues are stopped.
    starts_late: bool,
    /// A drain was asked for the void work, and has not been answered.
    asked: bool,
    /// Real-time work has it: nothing starts after it.
    taken: bool,
    /// It was not told to stop, and will not be.
    let_be: bool,
    /// A command was launched after real-time work, and is not void.
    is_queued: bool,
    running: bool,
    /// End position of the newest launch.
    launched: u64,
    /// The worker is unparked when a command that ends is the last before this position.
    wake_at: Option<u64>,
    /// A drain found a command running: the worker is unparked when that ends.
    drain_wanted: bool,
    done: u64,
}

impl Device {
    /// A device on which commands before `long` run until they are ended.
    pub(super) fn new(fault: Fault, long: u64) -> Self {
        let stays_void = fault == Fault::IdleQueuesStayStopped;
        let starts_late = fault == Fault::LateLaunchesStart;
        Self::with(State { long, stays_void, starts_late, ..State::default() })
    }

    /// A device that holds what it was given.
    pub(super) fn holding(long: u64) -> Self {
        Self::with(State { long, holds: true, ..State::default() })
    }

    fn with(state: State) -> Self {
        Self { state: Mutex::new(state), worker: Thread::default() }
    }

    pub(super) fn worker(&self) -> &Thread {
        &self.worker
    }

    /// A launch that is void waits to be taken back.
    pub(super) fn launch(&self, at: u64) {
        let mut state = self.state.lock();
        assert!(!state.asked, "launched after a drain, and missing in it");
        if state.is_idle() && !state.stays_void {
            state.void = state.evicted && !state.starts_late;
        }
        state.launched = at + 1;
        if state.void {
            return;
        }
        assert!(!state.let_be && !state.evicted, "launched next to real-time work");
        if state.taken {
            state.is_queued = true;
            return;
        }
        state.running |= at < state.long;
        if !state.running {
            state.done = state.launched;
        }
    }

    pub(super) fn completed(&self) -> u64 {
        self.state.lock().done
    }

    pub(super) fn wake_at(&self, at: u64) {
        self.state.lock().wake_at = Some(at);
    }

    /// The first command that has not finished, once nothing runs.
    pub(super) fn try_drain(&self) -> Option<u64> {
        let mut state = self.state.lock();
        state.asked = state.void;
        if state.running || (!state.void && !state.is_idle()) {
            state.drain_wanted = true;
            return None;
        }
        (state.asked, state.void) = (false, state.void && state.stays_void);
        state.launched = state.done;
        Some(state.done)
    }

    /// Nothing that waits to start ends by itself from now on, and no thread is told so.
    pub(super) fn evict(&self) {
        let mut state = self.state.lock();
        (state.evicted, state.is_queued) = (true, false);
        state.void |= !state.is_idle() || state.stays_void;
    }

    pub(super) fn take(&self) {
        self.state.lock().taken = true;
    }

    /// The group has done what it does to stop the device.
    pub(super) fn note_told(&self) {
        let mut state = self.state.lock();
        assert!(!state.is_queued, "launched next to real-time work");
        state.let_be = !state.evicted;
    }

    /// Real-time work has ended, and queues go on; what was stopped and not taken back stays so, or
    /// goes on as well.
    pub(super) fn reactivate(&self) {
        let mut state = self.state.lock();
        (state.evicted, state.taken, state.let_be) = (false, false, false);
        state.void &= !state.holds;
    }

    /// Stops what runs. Nothing has finished, so only a thread that drains is told.
    pub(super) fn reset(&self) {
        let mut state = self.state.lock();
        state.running = false;
        if std::mem::take(&mut state.drain_wanted) {
            self.worker.unpark();
        }
    }

    /// Finishes what runs; nothing takes long from now on.
    pub(super) fn finish(&self) {
        let mut state = self.state.lock();
        state.long = 0;
        if std::mem::take(&mut state.running) {
            state.done = if state.void { state.done + 1 } else { state.launched };
            let reached = state.wake_at.is_some_and(|at| state.done >= at);
            if std::mem::take(&mut state.drain_wanted) || reached {
                self.worker.unpark();
            }
        }
    }

    /// Commands before this one ran as padding.
    pub(super) fn note_padded(&self, end: u64) {
        let mut state = self.state.lock();
        (state.done, state.launched) = (end, end);
    }
}

impl State {
    fn is_idle(&self) -> bool {
        self.done == self.launched
    }
}
