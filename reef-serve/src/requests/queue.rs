//! Requests that wait for an instance: as many as are allowed, the most urgent first.

use crate::error::{Error, Result};
use crate::requests::job::Job;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;

/// A bounded queue of requests of one model in one class.
#[derive(Debug)]
pub(crate) struct Queue {
    max: usize,
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, state: Mutex::default(), news: Condvar::new() }
    }

    /// Adds a request behind those of the same priority. Never waits.
    ///
    /// # Errors
    ///
    /// `Exhausted` if it is full; `Unavailable` if it is closed.
    pub(crate) fn push(&self, job: Job) -> Result<()> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Error::Unavailable("the model is being unloaded".into()));
        }
        if state.jobs.len() >= self.max {
            state.jobs.retain(|job| !job.is_gone());
        }
        if state.jobs.len() >= self.max {
            return Err(Error::Exhausted(format!("queue full: {} requests wait", self.max)));
        }
        let at = state.jobs.partition_point(|other| other.priority <= job.priority);
        state.jobs.insert(at, job);
        self.news.notify_one();
        Ok(())
    }

    /// Takes the next request whose client still waits; blocks until there is one. `None`: the queue was
    /// closed and is empty.
    pub(crate) fn pop(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            match state.jobs.pop_front() {
                Some(job) if job.is_gone() => {}
                Some(job) => return Some(job),
                None if state.closed => return None,
                None => self.news.wait(&mut state),
            }
        }
    }

    /// Takes no more requests; those that wait are still served.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.news.notify_all();
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().jobs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::class::Priority;
    use crate::net::clients::{ClientId, Protocol};
    use crate::requests::job::{Input, Output, Phases};
    use std::time::{Duration, Instant};
    use tokio::sync::oneshot;

    type Answer = oneshot::Receiver<(Result<Vec<u8>>, Phases)>;

    fn job(priority: u64) -> (Job, Answer) {
        let (reply, answer) = oneshot::channel();
        let now = Instant::now();
        let job = Job {
            client: ClientId { protocol: Protocol::Grpc, number: 1 },
            priority: Priority::new(priority, Class::BestEffort),
            input: Input::Bytes(vec![priority as u8].into()),
            output: Output::Bytes,
            arrived: now,
            deadline: now + Duration::from_secs(1),
            reply,
        };
        (job, answer)
    }

    fn next(queue: &Queue) -> Option<Priority> {
        queue.pop().map(|job| job.priority)
    }

    #[test]
    fn the_most_urgent_goes_first_and_the_full_queue_refuses() {
        let queue = Queue::new(3);
        let (jobs, _answers): (Vec<_>, Vec<_>) = [3, 2, 3, 2].map(job).into_iter().unzip();
        let mut refused = 0;
        for job in jobs {
            let said = queue.push(job);
            refused += usize::from(matches!(said, Err(Error::Exhausted(_))));
        }
        assert_eq!((refused, queue.len()), (1, 3));
        let order: Vec<_> = (0..3).map(|_| next(&queue).unwrap()).collect();
        assert_eq!(order, [2, 3, 3].map(|n| Priority::new(n, Class::BestEffort)));
    }

    #[test]
    fn requests_that_nobody_waits_for_make_room() {
        let queue = Queue::new(1);
        let (first, answer) = job(2);
        queue.push(first).unwrap();
        drop(answer);
        let (second, _answer) = job(7);
        queue.push(second).unwrap();
        assert_eq!(next(&queue), Some(Priority::new(7, Class::BestEffort)));
    }

    #[test]
    fn a_closed_queue_serves_what_waits_and_takes_nothing() {
        let queue = Queue::new(2);
        let (first, _answer) = job(2);
        queue.push(first).unwrap();
        queue.close();
        let (second, _answer) = job(2);
        assert!(matches!(queue.push(second), Err(Error::Unavailable(_))));
        assert!(next(&queue).is_some());
        assert!(next(&queue).is_none());
    }

    #[test]
    fn closing_wakes_whoever_waits() {
        let queue = Queue::new(1);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| queue.pop().is_none());
            std::thread::sleep(Duration::from_millis(20));
            queue.close();
            assert!(waiter.join().unwrap());
        });
    }
}
