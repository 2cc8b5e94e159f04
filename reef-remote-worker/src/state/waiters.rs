//! Threads that make calls which block, so that the executor never does.

use super::lock::lock;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Threads, each of which makes one call at a time: as many as calls have blocked at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiters(Arc<Mutex<Vec<Sender<Job>>>>);

impl Waiters {
    /// Has a thread run this. `begin` runs first in a new thread.
    pub(crate) fn run(&self, job: Job, begin: impl FnOnce() + Send + 'static) {
        let idle = lock(&self.0).pop();
        let job = match idle {
            None => job,
            Some(waiter) => match waiter.send(job) {
                Ok(()) => return,
                Err(unsent) => unsent.0,
            },
        };
        self.start(job, begin);
    }

    fn start(&self, job: Job, begin: impl FnOnce() + Send + 'static) {
        let idle = self.0.clone();
        let body = move || {
            begin();
            let mut job = job;
            loop {
                job();
                let (sender, jobs) = channel();
                lock(&idle).push(sender);
                match jobs.recv() {
                    Ok(next) => job = next,
                    Err(_) => return,
                }
            }
        };
        // Without a thread the call gets no reply: the client's session ends with this process.
        if thread::Builder::new().name("reef-waiter".into()).spawn(body).is_err() {
            std::process::abort();
        }
    }
}
