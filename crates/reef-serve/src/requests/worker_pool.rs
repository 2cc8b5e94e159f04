//! Worker threads for long messages, long lists and calls of a device that prepare a request. Each
//! of these would block an I/O thread.
//!
//! There are few, and a principal uses at most one at a time, so another's message never waits for
//! all messages of one principal. They run at a low priority, because they work for requests that
//! the daemon has not accepted yet. They do nothing else, because a thread cannot raise its
//! priority again without a privilege.

use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Messages up to this length are read on the I/O thread, within microseconds.
const MAX_INLINE_BYTES: usize = 64 << 10;

/// Messages that are read at a time.
const THREADS: usize = 2;

/// Nice value of these threads; the software device's units have 5 (nice(2)).
const NICE: i32 = 15;

type Work = Box<dyn FnOnce() + Send>;

/// A pool of threads, which end when it is dropped.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    work: Sender<Work>,
    /// One permit for each thread, so that work waits for its turn and not for a thread.
    threads: Arc<Semaphore>,
    /// Turns of principals whose messages are read or wait.
    turns: Mutex<HashMap<Principal, Weak<Semaphore>>>,
}

impl WorkerPool {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// `Failed` if no thread can be created.
    pub(crate) fn start() -> Result<Self> {
        let (work, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..THREADS {
            let receiver = receiver.clone();
            let thread = thread::Builder::new().name("reef-parser".into());
            let thread = thread.spawn(move || work_loop(&receiver));
            thread.map_err(|e| Error::system("cannot start a worker thread", e))?;
        }
        let threads = Arc::new(Semaphore::new(THREADS));
        Ok(Self { work, threads, turns: Mutex::default() })
    }

    /// Runs `work` on a message of `bytes` bytes of `principal`: here if it is short, else on one
    /// of the threads. `held`, such as the charge for its bytes, is kept until the work is done and
    /// its result is dropped or returned; the caller may have gone meanwhile.
    ///
    /// # Errors
    ///
    /// Errors of `work`; `Failed` if it panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        principal: &Principal,
        held: impl Send + 'static,
        bytes: usize,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if bytes <= MAX_INLINE_BYTES {
            work()
        } else {
            self.run_blocking(principal, held, work).await
        }
    }

    /// Runs `work` for `principal` on one of the threads, whatever its length. `held` is kept as in
    /// [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// Errors of [`run`](Self::run).
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        principal: &Principal,
        held: impl Send + 'static,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = self.turn(principal);
        let permits = (acquire(turn).await?, acquire(self.threads.clone()).await?);
        let (reply, done) = oneshot::channel();
        let work: Work = Box::new(move || {
            let _held = held; // dropped last, also if the work panics
            let permits = permits; // kept if the client has gone, or the work panics
            let done = work();
            drop(permits); // before the caller is told
            let _ = reply.send(done); // its client may be gone
        });
        let gone = || Error::Failed("a worker thread panicked".into());
        self.work.send(work).map_err(|_| gone())?;
        done.await.map_err(|_| gone())?
    }

    fn turn(&self, principal: &Principal) -> Arc<Semaphore> {
        let mut turns = self.turns.lock();
        if let Some(turn) = turns.get(principal).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Semaphore::new(THREADS / 2));
        turns.insert(principal.clone(), Arc::downgrade(&turn));
        turn
    }
}

/// Loop of one thread. A panic ends only the work that caused it.
fn work_loop(receiver: &Mutex<Receiver<Work>>) {
    let _ = rustix::process::setpriority_process(None, NICE); // of this thread, if it may
    loop {
        let next = receiver.lock().recv(); // one thread waits for work, the others for the lock
        let Ok(work) = next else { return };
        let _ = catch_unwind(AssertUnwindSafe(work)); // which has been printed
    }
}

async fn acquire(semaphore: Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
    semaphore.acquire_owned().await.map_err(|e| Error::system("worker threads", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getpriority_process;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn message_does_not_wait_for_all_of_another_principal() {
        let pool = Arc::new(WorkerPool::start().unwrap());
        let (release, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let start = |principal: u32| {
            let (pool, held) = (pool.clone(), held.clone());
            tokio::spawn(async move {
                let work = move || Ok(held.lock().recv().is_ok());
                pool.run(&Principal::User(principal), (), MAX_INLINE_BYTES + 1, work).await
            })
        };
        let many: Vec<_> = (0..4).map(|_| start(1)).collect();
        let other = pool.run(&Principal::User(2), (), MAX_INLINE_BYTES + 1, || Ok(true));
        assert_eq!(other.await, Ok(true), "while the first has not ended");
        assert_eq!(
            pool.run(&Principal::User(1), (), MAX_INLINE_BYTES, || Ok(1)).await,
            Ok(1),
            "a short one"
        );
        drop(release);
        for one in many {
            one.await.unwrap().unwrap();
        }
        pool.turn(&Principal::User(3));
        pool.turn(&Principal::User(4));
        assert_eq!(pool.turns.lock().len(), 1, "past turns are forgotten");
    }

    /// The charge for a message's bytes is returned after them, not with the client.
    #[tokio::test]
    async fn charge_of_a_message_outlives_its_bytes() {
        let pool = WorkerPool::start().unwrap();
        let (charge, bytes) = (Arc::new(()), Arc::new(()));
        let (begun, has_begun) = oneshot::channel();
        let (release, wait) = channel::<()>();
        let message = bytes.clone();
        let work = move || {
            let _ = begun.send(());
            let _ = wait.recv();
            Ok(message) // as what it is decoded to
        };
        let principal = Principal::User(1);
        let mut asked = Box::pin(pool.run_blocking(&principal, charge.clone(), work));
        tokio::select! {
            _ = &mut asked => panic!("it waits"),
            begun = has_begun => begun.unwrap(),
        }
        drop(asked); // its client goes
        assert_eq!((Arc::strong_count(&charge), Arc::strong_count(&bytes)), (2, 2));
        release.send(()).unwrap();
        while Arc::strong_count(&charge) > 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(Arc::strong_count(&bytes), 1, "they were dropped before");
    }

    /// The runtime's own blocking threads keep their priority, because they get other work next.
    #[tokio::test]
    async fn only_worker_threads_have_low_priority() {
        let nice = || getpriority_process(None).unwrap();
        let ours = nice();
        let pool = WorkerPool::start().unwrap();
        let long = pool.run(&Principal::User(1), (), MAX_INLINE_BYTES + 1, move || Ok(nice()));
        assert_eq!(long.await, Ok(NICE.max(ours)));
        assert_eq!(tokio::task::spawn_blocking(nice).await.unwrap(), ours);
    }

    #[tokio::test]
    async fn panic_fails_only_its_own_message() {
        let pool = WorkerPool::start().unwrap();
        let principal = Principal::User(1);
        for _ in 0..2 * THREADS {
            let said =
                pool.run_blocking(&principal, (), || -> Result<()> { panic!("in a test") }).await;
            assert!(matches!(said, Err(Error::Failed(_))), "{said:?}");
        }
        assert_eq!(pool.run_blocking(&principal, (), || Ok(7)).await, Ok(7));
    }
}
