//! Threads for what would keep a thread of I/O busy: long messages are read and written there, and long lists made.
//!
//! There are few, and a principal has one at a time, so that another's message never waits for all of
//! somebody's. They yield to everything else: what they read is work that the daemon has not accepted yet.

use crate::error::{Error, Result};
use crate::net::principal::Principal;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Messages up to this length are read where they arrive, within microseconds.
const SHORT: usize = 64 << 10;

/// Messages that are read at a time.
const THREADS: usize = 2;

/// How far these threads stand back; the software device's units have 5 (nice(2)).
const NICE: i32 = 15;

/// The threads.
#[derive(Debug)]
pub(crate) struct Parsers {
    threads: Arc<Semaphore>,
    /// Of those that have something read or wait for it.
    turns: Mutex<HashMap<Principal, Weak<Semaphore>>>,
}

impl Default for Parsers {
    fn default() -> Self {
        Self { threads: Arc::new(Semaphore::new(THREADS)), turns: Mutex::default() }
    }
}

impl Parsers {
    /// Does `work` on a message of `bytes` bytes of `who`: here if it is short, or on one of the threads.
    ///
    /// # Errors
    ///
    /// What `work` gives; `Failed` if it panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        who: &Principal,
        bytes: usize,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if bytes <= SHORT { work() } else { self.aside(who, work).await }
    }

    /// Does `work` for `who` on one of the threads, whatever it is about.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        who: &Principal,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = self.turn(who);
        let permits = (acquire(turn).await?, acquire(self.threads.clone()).await?);
        let done = tokio::task::spawn_blocking(move || {
            let _permits = permits; // also of work whose client has gone meanwhile
            let _ = rustix::process::setpriority_process(None, NICE); // of this thread, if it may
            work()
        });
        done.await.unwrap_or_else(|e| Err(Error::system("a thread of the daemon", e)))
    }

    fn turn(&self, who: &Principal) -> Arc<Semaphore> {
        let mut turns = self.turns.lock();
        if let Some(turn) = turns.get(who).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Semaphore::new(THREADS / 2));
        turns.insert(who.clone(), Arc::downgrade(&turn));
        turn
    }
}

async fn acquire(semaphore: Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
    semaphore.acquire_owned().await.map_err(|e| Error::system("a thread of the daemon", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nobody_waits_for_all_of_somebodys_messages() {
        let parsers = Arc::new(Parsers::default());
        let (release, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let start = |who: u32| {
            let (parsers, held) = (parsers.clone(), held.clone());
            tokio::spawn(async move {
                let work = move || Ok(held.lock().recv().is_ok());
                parsers.run(&Principal::User(who), SHORT + 1, work).await
            })
        };
        let many: Vec<_> = (0..4).map(|_| start(1)).collect();
        let other = parsers.run(&Principal::User(2), SHORT + 1, || Ok(true));
        assert_eq!(other.await, Ok(true), "while the first has not ended");
        assert_eq!(parsers.run(&Principal::User(1), SHORT, || Ok(1)).await, Ok(1), "a short one");
        drop(release);
        for one in many {
            one.await.unwrap().unwrap();
        }
        parsers.turn(&Principal::User(3));
        parsers.turn(&Principal::User(4));
        assert_eq!(parsers.turns.lock().len(), 1, "nobody is remembered");
    }
}
