//! Turns at reading: a thread that waits for an answer reads it itself.
//!
//! No thread is between the socket and the caller then, so no thread has to be woken. Callers that
//! find a reader wait for its notice: it has read something, or it has its own answer and another
//! must read on. A thread of its own reads while no caller waits; it reads *interruptibly*, and
//! callers interrupt it.
//!
//! | caller | background |
//! |---|---|
//! | 1. counts itself; interrupts a background reader | 5. sleeps while a caller is there or a thread reads |
//! | 2. done? leaves | 6. reads once, without the lock |
//! | 3. a thread reads: sleeps until notified, then 2 | 7. ends its turn, notifies, then 5 |
//! | 4. reads once, without the lock; notifies; then 2 | |
//!
//! Answers are delivered in steps 4 and 6, before the lock is taken again. So a caller that looks
//! under the lock and then sleeps misses none of them. Every end of a turn is notified, so a caller
//! that leaves after its own turn has already woken the one that reads next.

use super::sync::{Condvar, Mutex, lock, wait};

#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State>,
    /// Notified when a turn ends.
    ended: Condvar,
    /// Notified when the background reader may read.
    free: Condvar,
}

#[derive(Debug, Default)]
struct State {
    reading: Reading,
    callers: usize,
    is_stopped: bool,
    /// Callers that came since the background reader last looked.
    arrivals: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Reading {
    #[default]
    No,
    Caller,
    Background,
}

impl Default for Turns {
    fn default() -> Self {
        let state = Mutex::new(State::default());
        Self { state, ended: Condvar::new(), free: Condvar::new() }
    }
}

impl Turns {
    /// Counts a caller that will [`wait`](Self::wait): a background reader makes room meanwhile.
    pub(crate) fn enter(&self, interrupt: impl FnOnce()) {
        let mut state = lock(&self.state);
        state.callers += 1;
        state.arrivals += 1;
        let is_background = state.reading == Reading::Background;
        drop(state);
        if is_background {
            interrupt();
        }
    }

    /// Reads, or lets another thread read, until `done` gives a result. [`enter`](Self::enter) came
    /// before; the caller is counted no more.
    pub(crate) fn wait<R>(&self, mut done: impl FnMut() -> Option<R>, mut read: impl FnMut()) -> R {
        let mut state = lock(&self.state);
        loop {
            if let Some(result) = done() {
                state.callers -= 1;
                let is_last = state.callers == 0;
                drop(state);
                if is_last {
                    self.free.notify_one();
                }
                return result;
            }
            if state.reading != Reading::No {
                state = wait(&self.ended, state);
                continue;
            }
            state.reading = Reading::Caller;
            drop(state);
            read();
            state = lock(&self.state);
            state.reading = Reading::No;
            if state.callers > 1 {
                self.ended.notify_all();
            }
        }
    }

    /// Reads while no caller does, until [`stop`](Self::stop). The body of the background thread.
    /// `read` returns when it has read something or was interrupted. `pause` is called where a
    /// caller has come since the last turn: the next one is likely.
    pub(crate) fn run(&self, mut read: impl FnMut(), mut pause: impl FnMut()) {
        let (mut state, mut seen) = (lock(&self.state), 0);
        loop {
            while !state.is_stopped && (state.callers > 0 || state.reading != Reading::No) {
                state = wait(&self.free, state);
            }
            if state.is_stopped {
                return;
            }
            if state.arrivals != seen {
                seen = state.arrivals;
                drop(state);
                pause();
                state = lock(&self.state);
                continue;
            }
            state.reading = Reading::Background;
            drop(state);
            read();
            state = lock(&self.state);
            state.reading = Reading::No;
            self.ended.notify_all();
        }
    }

    /// Ends the background thread, which may have to be interrupted.
    pub(crate) fn stop(&self) {
        lock(&self.state).is_stopped = true;
        self.free.notify_one();
        self.ended.notify_all();
    }
}
