//! Threads for what would keep a thread of I/O busy: long messages are read and written there, and
//! long lists made.
//!
//! There are few, and a principal has one at a time, so that another's message never waits for all
//! of somebody's. They yield to everything else, for what they read is work that the daemon has not
//! accepted yet; so they do nothing else, as a thread that has once stood back may not come forward
//! again without a right.

use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Messages up to this length are read where they arrive, within microseconds.
const SHORT: usize = 64 << 10;

/// Messages that are read at a time.
const THREADS: usize = 2;

/// How far these threads stand back; the software device's units have 5 (nice(2)).
const NICE: i32 = 15;

type Work = Box<dyn FnOnce() + Send>;

/// The threads, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct Parsers {
    work: Sender<Work>,
    /// One for each thread, so that work waits for its turn and not for a thread.
    threads: Arc<Semaphore>,
    /// Of those that have something read or wait for it.
    turns: Mutex<HashMap<Principal, Weak<Semaphore>>>,
}

impl Parsers {
    /// # Errors
    ///
    /// `Failed`: there are no threads.
    pub(crate) fn start() -> Result<Self> {
        let (work, given) = channel();
        let given = Arc::new(Mutex::new(given));
        for _ in 0..THREADS {
            let given = given.clone();
            let thread = thread::Builder::new().name("reef-parser".into());
            let thread = thread.spawn(move || parse(&given));
            thread.map_err(|e| Error::system("no thread for messages", e))?;
        }
        let threads = Arc::new(Semaphore::new(THREADS));
        Ok(Self { work, threads, turns: Mutex::default() })
    }

    /// Does `work` on a message of `bytes` bytes of `who`: here if it is short, or on one of the
    /// threads. `held`, such as what its bytes are charged to, is kept until it is done and what it
    /// made is gone or with whoever waits, who may have left meanwhile.
    ///
    /// # Errors
    ///
    /// What `work` gives; `Failed` if it panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        who: &Principal,
        held: impl Send + 'static,
        bytes: usize,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if bytes <= SHORT { work() } else { self.aside(who, held, work).await }
    }

    /// Does `work` for `who` on one of the threads, whatever it is about, and keeps `held`
    /// likewise.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        who: &Principal,
        held: impl Send + 'static,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = self.turn(who);
        let permits = (acquire(turn).await?, acquire(self.threads.clone()).await?);
        let (reply, done) = oneshot::channel();
        let work: Work = Box::new(move || {
            let _held = held; // dropped last, also if the work panics
            let permits = permits; // also of work whose client has gone meanwhile, or that panics
            let done = work();
            drop(permits); // before anybody knows
            let _ = reply.send(done); // its client may be gone
        });
        let gone = || Error::Failed("a thread that reads messages panicked".into());
        self.work.send(work).map_err(|_| gone())?;
        done.await.map_err(|_| gone())?
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

/// One of the threads. A panic ends the message that it is about.
fn parse(given: &Mutex<Receiver<Work>>) {
    let _ = rustix::process::setpriority_process(None, NICE); // of this thread, if it may
    loop {
        let next = given.lock().recv(); // whoever has the lock waits, the others for the lock
        let Ok(work) = next else { return };
        let _ = catch_unwind(AssertUnwindSafe(work)); // which has been printed
    }
}

async fn acquire(semaphore: Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
    semaphore.acquire_owned().await.map_err(|e| Error::system("a thread of the daemon", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getpriority_process;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nobody_waits_for_all_of_somebodys_messages() {
        let parsers = Arc::new(Parsers::start().unwrap());
        let (release, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let start = |who: u32| {
            let (parsers, held) = (parsers.clone(), held.clone());
            tokio::spawn(async move {
                let work = move || Ok(held.lock().recv().is_ok());
                parsers.run(&Principal::User(who), (), SHORT + 1, work).await
            })
        };
        let many: Vec<_> = (0..4).map(|_| start(1)).collect();
        let other = parsers.run(&Principal::User(2), (), SHORT + 1, || Ok(true));
        assert_eq!(other.await, Ok(true), "while the first has not ended");
        assert_eq!(
            parsers.run(&Principal::User(1), (), SHORT, || Ok(1)).await,
            Ok(1),
            "a short one"
        );
        drop(release);
        for one in many {
            one.await.unwrap().unwrap();
        }
        parsers.turn(&Principal::User(3));
        parsers.turn(&Principal::User(4));
        assert_eq!(parsers.turns.lock().len(), 1, "no principal is remembered");
    }

    /// What a message's bytes are charged to goes after them, not with the client.
    #[tokio::test]
    async fn what_is_held_for_a_message_stays_until_its_bytes_are_gone() {
        let parsers = Parsers::start().unwrap();
        let (charge, bytes) = (Arc::new(()), Arc::new(()));
        let (begun, has_begun) = oneshot::channel();
        let (release, wait) = channel::<()>();
        let message = bytes.clone();
        let work = move || {
            let _ = begun.send(());
            let _ = wait.recv();
            Ok(message) // as what it is decoded to
        };
        let who = Principal::User(1);
        let mut asked = Box::pin(parsers.aside(&who, charge.clone(), work));
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
        assert_eq!(Arc::strong_count(&bytes), 1, "they went before");
    }

    /// The runtime's own threads for what blocks stay as they are, as they get other work next.
    #[tokio::test]
    async fn parsing_stands_back_and_nothing_else_does() {
        let nice = || getpriority_process(None).unwrap();
        let ours = nice();
        let parsers = Parsers::start().unwrap();
        let long = parsers.run(&Principal::User(1), (), SHORT + 1, move || Ok(nice()));
        assert_eq!(long.await, Ok(NICE.max(ours)));
        assert_eq!(tokio::task::spawn_blocking(nice).await.unwrap(), ours);
    }

    #[tokio::test]
    async fn a_panic_is_that_messages_alone() {
        let parsers = Parsers::start().unwrap();
        let who = Principal::User(1);
        for _ in 0..2 * THREADS {
            let said = parsers.aside(&who, (), || -> Result<()> { panic!("in a test") }).await;
            assert!(matches!(said, Err(Error::Failed(_))), "{said:?}");
        }
        assert_eq!(parsers.aside(&who, (), || Ok(7)).await, Ok(7));
    }
}
