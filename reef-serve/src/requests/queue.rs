//! Requests that wait for an instance: as many as are allowed, the most urgent first.
//!
//! Tenants take turns: of the most urgent requests, that of the tenant goes first whose last turn
//! is longest ago. A full queue makes room for a tenant that has fewer requests in it, at the cost
//! of the one with most.

use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use crate::requests::job::{Job, Phases};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

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
    /// When tenants with requests here had their last turn, in turns.
    turns: BTreeMap<Principal, u64>,
    turn: u64,
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
        let displaced = if state.jobs.len() >= self.max { state.displace(&job) } else { None };
        if state.jobs.len() >= self.max {
            return Err(self.full());
        }
        let at = state.jobs.partition_point(|other| other.priority <= job.priority);
        state.jobs.insert(at, job);
        drop(state);
        if let Some(displaced) = displaced {
            let _ = displaced.reply.send((Err(self.full()), Phases::default())); // it may have gone
        }
        self.news.notify_all(); // one alone may be one that wants another
        Ok(())
    }

    /// Takes the next request whose client still waits; blocks until there is one. `None`: the
    /// queue was closed and is empty.
    pub(crate) fn pop(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            match state.next() {
                Some(job) if job.is_gone() => {}
                Some(job) => return Some(job),
                None if state.closed => return None,
                None => self.news.wait(&mut state),
            }
        }
    }

    /// Takes the most urgent request that `fits`. If there is none, waits for one until then,
    /// unless others wait.
    pub(crate) fn pop_like(&self, fits: impl Fn(&Job) -> bool, until: Instant) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            state.jobs.retain(|job| !job.is_gone());
            if let Some(job) = state.next_like(&fits) {
                return Some(job);
            }
            if !state.jobs.is_empty() || state.closed {
                return None;
            }
            if self.news.wait_until(&mut state, until).timed_out() {
                return state.next_like(&fits);
            }
        }
    }

    fn full(&self) -> Error {
        Error::Exhausted(format!("queue full: {} requests wait", self.max))
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

impl State {
    /// Takes the most urgent request of the tenant whose turn it is.
    fn next(&mut self) -> Option<Job> {
        self.next_like(&|_| true)
    }

    /// The same of those that fit.
    fn next_like(&mut self, fits: &impl Fn(&Job) -> bool) -> Option<Job> {
        let first = self.jobs.iter().find(|job| fits(job))?.priority;
        let urgent = |(_, job): &(usize, &Job)| job.priority == first && fits(job);
        let turn = |job: &Job| self.turns.get(&job.tenant.who).copied().unwrap_or_default();
        let urgent = self.jobs.iter().enumerate().filter(urgent);
        let (at, _) = urgent.min_by_key(|(at, job)| (turn(job), *at))?;
        let job = self.jobs.remove(at)?;
        self.turn += 1;
        self.turns.insert(job.tenant.who.clone(), self.turn);
        if self.jobs.is_empty() {
            self.turns.clear(); // no request waits for a turn
        }
        Some(job)
    }

    /// Takes out the last request of the tenant that has most, if `job`'s has fewer, counting it.
    fn displace(&mut self, job: &Job) -> Option<Job> {
        let mut counts: BTreeMap<&Principal, usize> = BTreeMap::new();
        self.jobs.iter().for_each(|job| *counts.entry(&job.tenant.who).or_default() += 1);
        let own = counts.get(&job.tenant.who).copied().unwrap_or_default();
        let (who, most) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let last = self.jobs.iter().rposition(|job| job.tenant.who == *who)?;
        if own + 1 < most { self.jobs.remove(last) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::class::Priority;
    use crate::engine::api::{Instance, Instances};
    use crate::net::identity::client_id::{ClientId, Protocol};
    use crate::tenants::tenant::Tenant;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::sync::oneshot;

    type Answer = oneshot::Receiver<(Result<Vec<Vec<u8>>>, Phases)>;

    fn job(priority: u64) -> (Job, Answer) {
        let (reply, answer) = oneshot::channel();
        let now = Instant::now();
        let job = Job {
            tenant: Tenant::owner(),
            client: ClientId { protocol: Protocol::Grpc, number: 1 },
            priority: Priority::new(priority, Class::BestEffort),
            account: reef::Account::new(None),
            stated: false,
            instances: Arc::new(Nothing),
            rows: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            arrived: now,
            deadline: now + Duration::from_secs(1),
            reply,
        };
        (job, answer)
    }

    /// Of no model: these requests are never run.
    #[derive(Debug)]
    struct Nothing;

    impl Instances for Nothing {
        fn take(&self, _: Class) -> Result<Box<dyn Instance>> {
            Err(Error::Failed("of no model".into()))
        }

        fn give(&self, _: Class, _: Box<dyn Instance>) {}
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

    fn of(tenant: &Arc<Tenant>, priority: u64) -> (Job, Answer) {
        let (job, answer) = job(priority);
        (Job { tenant: tenant.clone(), ..job }, answer)
    }

    #[test]
    fn tenants_take_turns() {
        let queue = Queue::new(9);
        let [a, b] = [Tenant::named("a"), Tenant::named("b")];
        let jobs = [(&a, 2), (&a, 2), (&a, 2), (&b, 2), (&b, 1)].map(|(who, n)| of(who, n));
        let (jobs, _answers): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        jobs.into_iter().for_each(|job| queue.push(job).unwrap());
        let next = || queue.pop().unwrap().tenant.who.to_string();
        let order: Vec<_> = (0..5).map(|_| next()).collect();
        assert_eq!(order, ["token b", "token a", "token b", "token a", "token a"]);
    }

    #[test]
    fn a_full_queue_makes_room_for_who_has_less_in_it() {
        let queue = Queue::new(3);
        let [a, b] = [Tenant::named("a"), Tenant::named("b")];
        let (jobs, mut answers): (Vec<_>, Vec<_>) = [(); 3].map(|()| of(&a, 2)).into_iter().unzip();
        jobs.into_iter().for_each(|job| queue.push(job).unwrap());
        let (job, _first) = of(&b, 2);
        queue.push(job).unwrap();
        let (last, _) = answers.pop().unwrap().try_recv().unwrap();
        assert_eq!(last, Err(Error::Exhausted("queue full: 3 requests wait".into())));
        let (job, _second) = of(&b, 2);
        assert!(queue.push(job).is_err(), "two and one is as even as it gets");
        assert_eq!(queue.len(), 3);
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

    /// Also if one waits who wants another.
    #[test]
    fn a_new_request_wakes_who_takes_any() {
        let queue = Queue::new(1);
        let (sender, taken) = std::sync::mpsc::channel();
        let (picky, any) = (&queue, &queue);
        std::thread::scope(|scope| {
            let later = Instant::now() + Duration::from_secs(30);
            scope.spawn(move || assert!(picky.pop_like(|_| false, later).is_none()));
            std::thread::sleep(Duration::from_millis(20)); // so that it is the first to be woken
            scope.spawn(move || sender.send(any.pop().is_some()));
            std::thread::sleep(Duration::from_millis(20));
            let (job, _answer) = job(2);
            queue.push(job).unwrap();
            let said = taken.recv_timeout(Duration::from_secs(10));
            queue.close(); // whatever came of it
            assert_eq!(said, Ok(true), "the request waits beside an idle lane");
        });
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
