//! One buffer fills while the other is sent.
//!
//! Threads push into the source, under its lock. One thread at a time takes all that is there as a
//! batch, and sends it without the lock. So batches grow while a send is in flight, with no timer.
//! The writer's own thread sends what others push. A thread that is about to wait for an answer
//! *flushes*: it sends by itself. If a thread is sending already, that one sends this as well.
//!
//! | pusher | sender |
//! |---|---|
//! | 1. pushes, under the lock | 3. takes a batch, or notes that it is not sending, under the lock |
//! | 2. wakes the writer's thread if it is asleep | 4. sends without the lock, then step 3 |
//!
//! All decisions are made under one lock, so a push is seen by step 3 or sees its note. A thread
//! that flushes sends one batch and leaves the rest to the writer's thread, so its time is bounded.

use super::sync::{Condvar, Mutex, MutexGuard, lock, wait};
use std::time::{Duration, Instant};

/// Maximum number of polls of the writer's thread after a batch, before it sleeps. Models have no
/// time: there it sleeps at once.
const MAX_POLLS: u32 = if cfg!(loom) { 0 } else { 40 };

#[cfg(not(loom))]
fn poll_later<'a, T>(work: &Condvar, state: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    /// Time between two polls; the system makes about twice as much of it.
    const POLL_INTERVAL: Duration = Duration::from_micros(50);
    super::sync::wait_for(work, state, POLL_INTERVAL)
}

#[cfg(loom)]
use super::sync::wait as poll_later;

/// Sleeps until the condition is notified. `None` once the time has come.
#[cfg(not(loom))]
fn wait_until<'a, T>(
    condition: &Condvar,
    state: MutexGuard<'a, T>,
    end: Instant,
) -> Option<MutexGuard<'a, T>> {
    let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
    Some(super::sync::wait_for(condition, state, left))
}

/// Models have no time: there it never comes.
#[cfg(loom)]
fn wait_until<'a, T>(
    condition: &Condvar,
    state: MutexGuard<'a, T>,
    _end: Instant,
) -> Option<MutexGuard<'a, T>> {
    Some(wait(condition, state))
}

/// Frames to be sent.
pub(crate) trait Source {
    /// Bytes of one send.
    type Batch;

    /// Takes all that can be sent now, in order.
    fn take(&mut self) -> Option<Self::Batch>;

    /// Returns whether [`take`](Self::take) would give a batch.
    fn is_ready(&self) -> bool;
}

#[derive(Debug)]
pub(crate) struct Writer<S> {
    state: Mutex<State<S>>,
    /// Notified when the writer's thread has something to do.
    work: Condvar,
    /// Notified when a thread stops sending and another wants to be alone.
    idle: Condvar,
}

#[derive(Debug)]
struct State<S> {
    source: S,
    /// A thread is between taking a batch and having sent it.
    is_sending: bool,
    /// The writer's thread sleeps on `work`.
    is_asleep: bool,
    /// A thread sleeps on `idle`.
    is_awaited: bool,
    is_stopped: bool,
}

impl<S: Source> Writer<S> {
    pub(crate) fn new(source: S) -> Self {
        let (is_sending, is_asleep, is_awaited, is_stopped) = (false, false, false, false);
        let state = State { source, is_sending, is_asleep, is_awaited, is_stopped };
        Self { state: Mutex::new(state), work: Condvar::new(), idle: Condvar::new() }
    }

    /// Changes the source, and wakes the writer's thread to send what was pushed.
    pub(crate) fn push<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let mut state = lock(&self.state);
        let result = change(&mut state.source);
        if state.is_asleep && !state.is_sending {
            state.is_asleep = false;
            drop(state);
            self.work.notify_one();
        }
        result
    }

    /// Changes or reads the source without sending: [`flush`](Self::flush) follows, or nothing was
    /// pushed.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        change(&mut lock(&self.state).source)
    }

    /// Sends what is there, unless another thread is sending: then that one does.
    pub(crate) fn flush(&self, send: impl FnOnce(S::Batch)) {
        let mut state = lock(&self.state);
        if state.is_sending {
            return;
        }
        let Some(batch) = state.source.take() else { return };
        state.is_sending = true;
        drop(state);
        send(batch);
        self.end_send();
    }

    /// As [`flush`](Self::flush), but waits while another thread sends, for this time at most: what
    /// is there has been sent when this returns true.
    pub(crate) fn flush_within(&self, time: Duration, send: impl FnOnce(S::Batch)) -> bool {
        let end = Instant::now() + time;
        let mut state = lock(&self.state);
        while state.is_sending {
            state.is_awaited = true;
            let Some(woken) = wait_until(&self.idle, state, end) else { return false };
            state = woken;
        }
        let Some(batch) = state.source.take() else { return true };
        state.is_sending = true;
        drop(state);
        send(batch);
        self.end_send();
        true
    }

    /// Sends until the source has room, or another batch is not to be had. Waits while another
    /// thread sends.
    pub(crate) fn make_room(&self, has_room: impl Fn(&S) -> bool, send: impl Fn(S::Batch)) {
        loop {
            let mut state = lock(&self.state);
            while state.is_sending && !has_room(&state.source) {
                state.is_awaited = true;
                state = wait(&self.idle, state);
            }
            if has_room(&state.source) {
                return;
            }
            let Some(batch) = state.source.take() else { return };
            state.is_sending = true;
            drop(state);
            send(batch);
            self.end_send();
        }
    }

    /// Ends a send of another thread than the writer's, to which it leaves what came meanwhile.
    fn end_send(&self) {
        let mut state = lock(&self.state);
        state.is_sending = false;
        let wakes = state.is_asleep && state.source.is_ready();
        let is_awaited = std::mem::take(&mut state.is_awaited);
        state.is_asleep &= !wakes;
        drop(state);
        if wakes {
            self.work.notify_one();
        }
        if is_awaited {
            self.idle.notify_all();
        }
    }

    /// Sends all that is pushed, until [`stop`](Self::stop). The body of the writer's thread. After
    /// a batch it looks for another one at times before it sleeps, so pushes need not wake it.
    pub(crate) fn run(&self, mut send: impl FnMut(S::Batch)) {
        let mut state = lock(&self.state);
        let mut polls = 0;
        while !state.is_stopped {
            let batch = if state.is_sending { None } else { state.source.take() };
            let Some(batch) = batch else {
                if polls > 0 {
                    polls -= 1;
                    state = poll_later(&self.work, state);
                } else {
                    state.is_asleep = true;
                    state = wait(&self.work, state);
                }
                continue;
            };
            polls = MAX_POLLS;
            (state.is_sending, state.is_asleep) = (true, false);
            drop(state);
            send(batch);
            state = lock(&self.state);
            state.is_sending = false;
            if std::mem::take(&mut state.is_awaited) {
                self.idle.notify_all();
            }
        }
    }

    /// Runs `change` while no thread is sending, and returns its result. Pushes are possible
    /// meanwhile.
    pub(crate) fn run_alone<R>(&self, change: impl FnOnce() -> R) -> R {
        let mut state = lock(&self.state);
        while state.is_sending {
            state.is_awaited = true;
            state = wait(&self.idle, state);
        }
        state.is_sending = true;
        drop(state);
        let result = change();
        self.end_send();
        result
    }

    /// Ends the writer's thread.
    pub(crate) fn stop(&self) {
        lock(&self.state).is_stopped = true;
        self.work.notify_one();
    }
}
