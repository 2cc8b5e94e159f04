//! Threads that make calls which block, so that the executor never does.

use super::lock::lock;
use reef_wire::{Error, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Threads of a session: as many of a program's threads can wait at a time. More calls wait for
/// one.
const MAX_THREADS: usize = 256;
/// Calls that wait for a thread. More end the session.
const MAX_JOBS: usize = 4096;

/// Threads, each of which makes one call at a time: as many as calls have blocked at once.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads without a job.
    idle: usize,
    /// No job comes any more.
    is_over: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (jobs, threads) = (self.jobs.len(), self.threads);
        f.debug_struct("State").field("jobs", &jobs).field("threads", &threads).finish()
    }
}

impl Waiters {
    /// Has a thread run this. There is a new one only if `may_begin` says so, and `begin` runs
    /// first in it.
    ///
    /// # Errors
    ///
    /// `Protocol` if too many wait for a thread already; `Ended` if there is none at all.
    pub(crate) fn run(
        &self,
        job: Job,
        may_begin: impl FnOnce() -> bool,
        begin: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let mut state = lock(&self.0.state);
        if state.jobs.len() >= MAX_JOBS {
            return Err(Error::Protocol(format!("more than {MAX_JOBS} calls wait for a thread")));
        }
        state.jobs.push_back(job);
        if state.jobs.len() <= state.idle || state.threads == MAX_THREADS {
            self.0.changed.notify_one();
            return Ok(());
        }
        state.threads += 1;
        drop(state);
        let shared = self.0.clone();
        let body = move || {
            begin();
            shared.run();
        };
        let start = || thread::Builder::new().name("reef-waiter".into()).spawn(body).is_ok();
        if !(may_begin() && start()) {
            let mut state = lock(&self.0.state);
            state.threads -= 1;
            if state.threads == 0 {
                return Err(Error::Ended("no thread for a call that blocks".into()));
            }
        }
        Ok(())
    }
}

impl Shared {
    fn run(&self) {
        let mut state = lock(&self.state);
        loop {
            while let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = lock(&self.state);
            }
            if state.is_over {
                return;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            state.idle -= 1;
        }
    }
}

impl Drop for Waiters {
    fn drop(&mut self) {
        lock(&self.0.state).is_over = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Calls that block for ever take a bounded number of threads; those behind them wait, and run.
    #[test]
    fn calls_that_block_take_a_bounded_number_of_threads() {
        let (waiters, gate) = (Waiters::default(), Arc::new((Mutex::new(false), Condvar::new())));
        let (tell, told) = channel();
        let blocked = |number: usize| -> Job {
            let (gate, tell) = (gate.clone(), tell.clone());
            Box::new(move || {
                let is_shut = |is_open: &mut bool| !*is_open;
                drop(gate.1.wait_while(gate.0.lock().unwrap(), is_shut).unwrap());
                tell.send(number).unwrap();
            })
        };
        let begun = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let mut taken = 0;
        let refused = loop {
            let begun = begun.clone();
            let begin = move || {
                begun.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            };
            match waiters.run(blocked(taken), || true, begin) {
                Ok(()) => taken += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.to_string(), "protocol: more than 4096 calls wait for a thread");
        assert!(taken <= MAX_THREADS + MAX_JOBS, "{taken}");
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        let mut all: Vec<usize> = (0..taken).map(|_| told.recv().unwrap()).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..taken), "each runs once");
        assert!(begun.load(std::sync::atomic::Ordering::SeqCst) <= MAX_THREADS);
    }

    /// A call for which there may be no new thread waits for one that there is.
    #[test]
    fn call_without_a_new_thread_waits_for_an_old_one() {
        let waiters = Waiters::default();
        let (open, gate) = channel::<()>();
        let (tell, told) = channel();
        let first = tell.clone();
        let blocked = move || {
            gate.recv().unwrap();
            first.send(1).unwrap();
        };
        waiters.run(Box::new(blocked), || true, || ()).unwrap();
        waiters.run(Box::new(move || tell.send(2).unwrap()), || false, || ()).unwrap();
        assert!(told.try_recv().is_err());
        open.send(()).unwrap();
        assert_eq!([told.recv(), told.recv()], [Ok(1), Ok(2)]);
        let none = Waiters::default().run(Box::new(|| ()), || false, || ()).unwrap_err();
        assert!(none.to_string().contains("no thread for a call that blocks"), "{none}");
    }
}
