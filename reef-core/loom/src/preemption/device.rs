//! The device's end of the queue.

use super::Worker;
use loom::sync::Mutex;

/// Runs one command at a time; a long one ends when the model says so, others at once.
pub(super) struct Device(Mutex<State>);

#[derive(Default)]
struct State {
    /// Commands before this one run until they are ended.
    long: u64,
    evicted: bool,
    /// It was asked for what it has since it was evicted.
    drained: bool,
    /// Real-time work has it: nothing of the queue may run but what was launched before it was evicted.
    taken: bool,
    running: bool,
    /// Launches that are not void end here.
    end: u64,
    /// A drain found a command running: the worker is unparked when that ends.
    drain_wanted: bool,
    done: u64,
}

impl Device {
    pub(super) fn new(long: u64) -> Self {
        Self(Mutex::new(State { long, ..State::default() }))
    }

    /// A launch that is void waits to be taken back.
    pub(super) fn launch(&self, at: u64) {
        let mut state = self.0.lock().unwrap();
        assert!(!(state.evicted && state.drained), "launched behind a drain, and missing in it");
        if state.evicted {
            return;
        }
        assert!(!state.taken, "launched beside real-time work");
        state.end = at + 1;
        state.running |= at < state.long;
        if !state.running {
            state.done = state.end;
        }
    }

    pub(super) fn completed(&self) -> u64 {
        self.0.lock().unwrap().done
    }

    /// The first command that has not finished, once nothing runs.
    pub(super) fn try_drain(&self, launched: u64) -> Option<u64> {
        let mut state = self.0.lock().unwrap();
        state.drained |= state.evicted;
        if state.running || (!state.evicted && state.done < launched) {
            state.drain_wanted = true;
            return None;
        }
        Some(state.done)
    }

    pub(super) fn evict(&self) {
        self.0.lock().unwrap().evicted = true;
    }

    pub(super) fn take(&self) {
        self.0.lock().unwrap().taken = true;
    }

    pub(super) fn reactivate(&self) {
        let mut state = self.0.lock().unwrap();
        (state.evicted, state.drained, state.taken) = (false, false, false);
    }

    /// What runs stops. Nothing has finished, so only who drains is told.
    pub(super) fn reset(&self, worker: &Worker) {
        let mut state = self.0.lock().unwrap();
        state.running = false;
        if std::mem::take(&mut state.drain_wanted) {
            worker.unpark();
        }
    }

    /// What runs has finished, and nothing takes long from now on.
    pub(super) fn finish(&self, worker: &Worker) {
        let mut state = self.0.lock().unwrap();
        state.long = 0;
        if std::mem::take(&mut state.running) {
            state.done = if state.evicted { state.done + 1 } else { state.end };
            worker.unpark();
        }
    }

    /// Commands before this one ran as padding.
    pub(super) fn note_padded(&self, end: u64) {
        self.0.lock().unwrap().done = end;
    }
}
