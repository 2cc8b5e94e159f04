//! Bounded queue of requests that wait for an instance, the most urgent first.
//!
//! Tenants take turns: of the most urgent requests, the one whose tenant had its last turn the
//! longest ago comes first. A full queue evicts a request of the tenant with the most, for a tenant
//! with fewer.

use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use crate::requests::job::{Job, Phases, is_before};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

/// Number of the last turns that are remembered: a tenant without one of them comes first.
const MAX_TURNS: u64 = 1024;

/// Bounded queue of the requests for one model in one class.
#[derive(Debug)]
pub(crate) struct Queue {
    max: usize,
    state: Mutex<State>,
    arrival: Condvar,
    /// Number of requests and ends so far. Written under the lock, read by workers that are awake.
    events: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Number of the last turn of each tenant with requests here.
    turns: BTreeMap<Principal, u64>,
    turn: u64,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(max: usize) -> Self {
        let (state, arrival, events) = (Mutex::default(), Condvar::new(), AtomicU64::new(0));
        Self { max, state, arrival, events }
    }

    /// Adds a request after those of the same priority. Never blocks.
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
        self.events.fetch_add(1, Relaxed);
        drop(state);
        if let Some(displaced) = displaced {
            // Its client may have gone.
            let _ = displaced.reply.send((Err(self.full()), Phases::default()));
        }
        self.arrival.notify_all(); // one waiter alone may wait for another request
        Ok(())
    }

    /// Takes the next request for this worker whose client still waits; blocks until there is one.
    /// Returns `None` once the queue is closed and has none. Until `awake` it does not sleep, so
    /// that a request reaches it without a wake-up.
    pub(crate) fn pop(&self, worker: usize, awake: Option<Instant>) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            match state.next_like(&|job: &Job| job.is_for(worker)) {
                Some(job) if job.is_gone() => {}
                Some(job) => return Some(job),
                None if state.closed => return None,
                None if is_before(awake) => {
                    let seen = self.events.load(Relaxed); // none comes before the lock is released
                    MutexGuard::unlocked(&mut state, || self.stay_awake(seen, awake));
                }
                None => self.arrival.wait(&mut state),
            }
        }
    }

    /// Waits for an event after the first `seen`, until `awake` at most.
    fn stay_awake(&self, seen: u64, awake: Option<Instant>) {
        while self.events.load(Relaxed) == seen && is_before(awake) {
            thread::yield_now(); // the client may need this processor
        }
    }

    /// Takes the most urgent request for this worker that `fits`. If there is none, waits for one
    /// until `until`, unless other requests for it wait.
    pub(crate) fn pop_like(
        &self,
        worker: usize,
        fits: impl Fn(&Job) -> bool,
        until: Instant,
    ) -> Option<Job> {
        let fits = |job: &Job| job.is_for(worker) && fits(job);
        let mut state = self.state.lock();
        loop {
            state.jobs.retain(|job| !job.is_gone());
            if let Some(job) = state.next_like(&fits) {
                return Some(job);
            }
            if state.jobs.iter().any(|job| job.is_for(worker)) || state.closed {
                return None;
            }
            if self.arrival.wait_until(&mut state, until).timed_out() {
                return state.next_like(&fits);
            }
        }
    }

    fn full(&self) -> Error {
        Error::Exhausted(format!("queue full: waiting requests must be at most {}", self.max))
    }

    /// Refuses new requests; waiting ones are still served.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        self.events.fetch_add(1, Relaxed);
        drop(state);
        self.arrival.notify_all();
    }

    /// True if a request for this worker waits whose client still does.
    pub(crate) fn has_for(&self, worker: usize) -> bool {
        self.state.lock().jobs.iter().any(|job| job.is_for(worker) && !job.is_gone())
    }

    /// Number of waiting requests.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().jobs.len()
    }
}

impl State {
    /// Takes the most urgent request that `fits`, of the tenant whose turn it is.
    fn next_like(&mut self, fits: &impl Fn(&Job) -> bool) -> Option<Job> {
        let first = self.jobs.iter().find(|job| fits(job))?.priority;
        let urgent = |(_, job): &(usize, &Job)| job.priority == first && fits(job);
        let turn = |job: &Job| self.turns.get(&job.tenant.principal).copied().unwrap_or_default();
        let urgent = self.jobs.iter().enumerate().filter(urgent);
        let (at, _) = urgent.min_by_key(|(at, job)| (turn(job), *at))?;
        let job = self.jobs.remove(at)?;
        self.turn += 1;
        self.turns.insert(job.tenant.principal.clone(), self.turn);
        if self.jobs.is_empty() {
            self.turns.clear(); // no request waits for a turn
        } else if self.turns.len() as u64 > 2 * MAX_TURNS {
            let last = self.turn;
            self.turns.retain(|_, turn| last - *turn < MAX_TURNS);
        }
        Some(job)
    }

    /// Removes the last request of the tenant with the most, if the tenant of `job` has fewer,
    /// including `job`.
    fn displace(&mut self, job: &Job) -> Option<Job> {
        let mut counts: BTreeMap<&Principal, usize> = BTreeMap::new();
        self.jobs.iter().for_each(|job| *counts.entry(&job.tenant.principal).or_default() += 1);
        let own = counts.get(&job.tenant.principal).copied().unwrap_or_default();
        let (principal, max) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let last = self.jobs.iter().rposition(|job| job.tenant.principal == *principal)?;
        if own + 1 < max { self.jobs.remove(last) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::class::Priority;
    use crate::engine::api::{Instance, Instances};
    use crate::engine::call::{CallHead, CallSequence, ProcessId, WorkerId};
    use crate::net::identity::client_id::{ClientId, Protocol};
    use crate::requests::batch::{Batch, Batching};
    use crate::requests::job::Rows;
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
            has_stated_rate: false,
            instances: Arc::new(NoInstances),
            rows: None,
            call: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            arrived: now,
            deadline: now + Duration::from_secs(1),
            reply,
        };
        (job, answer)
    }

    /// Instances of no model: these requests never run.
    #[derive(Debug)]
    struct NoInstances;

    impl Instances for NoInstances {
        fn take(&self, _: Class) -> Result<Box<dyn Instance>> {
            Err(Error::Failed("there is no model".into()))
        }

        fn give(&self, _: Class, _: Box<dyn Instance>) {}
    }

    fn next(queue: &Queue) -> Option<Priority> {
        queue.pop(0, None).map(|job| job.priority)
    }

    #[test]
    fn queue_orders_by_priority_and_refuses_when_full() {
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
    fn tenants_of_equal_priority_take_turns() {
        let queue = Queue::new(9);
        let [a, b] = [Tenant::named("a"), Tenant::named("b")];
        let jobs =
            [(&a, 2), (&a, 2), (&a, 2), (&b, 2), (&b, 1)].map(|(principal, n)| of(principal, n));
        let (jobs, _answers): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        jobs.into_iter().for_each(|job| queue.push(job).unwrap());
        let next = || queue.pop(0, None).unwrap().tenant.principal.to_string();
        let order: Vec<_> = (0..5).map(|_| next()).collect();
        assert_eq!(order, ["token b", "token a", "token b", "token a", "token a"]);
    }

    /// The queue is never empty: addresses come and go.
    #[test]
    fn turns_of_tenants_that_have_gone_are_forgotten() {
        let queue = Queue::new(3);
        let (waiting, _answer) = job(3);
        queue.push(waiting).unwrap();
        for number in 0..3 * MAX_TURNS {
            let (job, _answer) = of(&Tenant::named(&number.to_string()), 2);
            queue.push(job).unwrap();
            assert_eq!(next(&queue), Some(Priority::new(2, Class::BestEffort)));
        }
        assert!(queue.state.lock().turns.len() as u64 <= 2 * MAX_TURNS);
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn full_queue_evicts_for_tenant_with_fewer_requests() {
        let queue = Queue::new(3);
        let [a, b] = [Tenant::named("a"), Tenant::named("b")];
        let (jobs, mut answers): (Vec<_>, Vec<_>) = [(); 3].map(|()| of(&a, 2)).into_iter().unzip();
        jobs.into_iter().for_each(|job| queue.push(job).unwrap());
        let (job, _first) = of(&b, 2);
        queue.push(job).unwrap();
        let (last, _) = answers.pop().unwrap().try_recv().unwrap();
        assert_eq!(
            last,
            Err(Error::Exhausted("queue full: waiting requests must be at most 3".into()))
        );
        let (job, _second) = of(&b, 2);
        assert!(queue.push(job).is_err(), "two and one is as even as it gets");
        assert_eq!(queue.len(), 3);
    }

    /// A request of a sequence whose state is with this worker.
    fn of_sequence(number: usize, priority: u64) -> (Job, Answer) {
        let worker = WorkerId { class: Class::BestEffort, number };
        let sequence = CallSequence {
            number: 1,
            starts: false,
            ends: false,
            process: Some(ProcessId { worker, number: 1 }),
            cell: Arc::default(),
        };
        let call = CallHead {
            id: String::new(),
            inputs: Vec::new(),
            sizes: Arc::default(),
            parts: None,
            sequence: Some(sequence),
        };
        let (job, answer) = job(priority);
        (Job { call: Some(call), ..job }, answer)
    }

    #[test]
    fn request_of_a_sequence_waits_for_its_worker() {
        let queue = Queue::new(3);
        let (jobs, _answers): (Vec<_>, Vec<_>) =
            [of_sequence(1, 2), job(3), of_sequence(1, 4)].into_iter().unzip();
        jobs.into_iter().for_each(|job| queue.push(job).unwrap());
        let priority = |n| Some(Priority::new(n, Class::BestEffort));
        assert_eq!(
            queue.pop(0, None).map(|job| job.priority),
            priority(3),
            "the others are not for it"
        );
        assert_eq!([0, 1].map(|worker| queue.has_for(worker)), [false, true]);
        queue.close();
        assert!(queue.pop(0, None).is_none());
        let like = queue.pop_like(1, |_| true, Instant::now());
        assert_eq!(like.map(|job| job.priority), priority(2));
        assert_eq!(queue.pop(1, None).map(|job| job.priority), priority(4));
    }

    /// As when the client of the first one has gone while it waits in its batch.
    #[test]
    fn batch_has_one_request_of_a_sequence() {
        let queue = Queue::new(3);
        let with_rows = |job: Job| Job { rows: Some(Rows { count: 1, others: Vec::new() }), ..job };
        let (first, _gone) = of_sequence(0, 2);
        let (second, _waits) = of_sequence(0, 2);
        let (other, _too) = job(2);
        queue.push(with_rows(second)).unwrap();
        queue.push(with_rows(other)).unwrap();
        let batching = Batching { max: 4, delay: Duration::ZERO };
        let batch = Batch::gather(with_rows(first), &queue, 0, batching);
        assert_eq!((batch.jobs.len(), queue.len()), (2, 1));
        assert!(batch.jobs[1].sequence().is_none());
    }

    #[test]
    fn request_of_a_gone_client_is_evicted() {
        let queue = Queue::new(1);
        let (first, answer) = job(2);
        queue.push(first).unwrap();
        drop(answer);
        let (second, _answer) = job(7);
        queue.push(second).unwrap();
        assert_eq!(next(&queue), Some(Priority::new(7, Class::BestEffort)));
    }

    #[test]
    fn closed_queue_serves_waiting_requests_only() {
        let queue = Queue::new(2);
        let (first, _answer) = job(2);
        queue.push(first).unwrap();
        queue.close();
        let (second, _answer) = job(2);
        assert!(matches!(queue.push(second), Err(Error::Unavailable(_))));
        assert!(next(&queue).is_some());
        assert!(next(&queue).is_none());
    }

    /// Holds also if another worker waits for a different request.
    #[test]
    fn new_request_wakes_worker_that_takes_any() {
        let queue = Queue::new(1);
        let (sender, taken) = std::sync::mpsc::channel();
        let (picky, any) = (&queue, &queue);
        std::thread::scope(|scope| {
            let later = Instant::now() + Duration::from_secs(120);
            scope.spawn(move || assert!(picky.pop_like(0, |_| false, later).is_none()));
            // sleep: so that it is the first to be woken; any order passes
            std::thread::sleep(Duration::from_millis(20));
            scope.spawn(move || sender.send(any.pop(1, None).is_some()));
            // sleep: so that both wait; one that does not yet takes the request as well
            std::thread::sleep(Duration::from_millis(20));
            let (job, _answer) = job(2);
            queue.push(job).unwrap();
            let said = taken.recv_timeout(Duration::from_secs(60));
            queue.close(); // whatever came of it
            assert_eq!(said, Ok(true), "the request waits although a worker is idle");
        });
    }

    #[test]
    fn close_wakes_waiting_worker() {
        let queue = Queue::new(1);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| queue.pop(0, None).is_none());
            // sleep: so that it waits; a worker that does not yet ends as well
            std::thread::sleep(Duration::from_millis(20));
            queue.close();
            assert!(waiter.join().unwrap());
        });
    }

    #[test]
    fn worker_that_stays_awake_sees_requests_and_the_end() {
        let queue = Queue::new(1);
        let awake = Some(Instant::now() + Duration::from_secs(3600));
        let (job, _answer) = job(3);
        thread::scope(|scope| {
            let (taken, has_taken) = std::sync::mpsc::channel();
            let queue = &queue;
            let worker = scope.spawn(move || {
                let _ = taken.send(queue.pop(0, awake).is_some());
                queue.pop(0, awake).is_some()
            });
            queue.push(job).unwrap();
            let first = has_taken.recv_timeout(Duration::from_secs(60));
            queue.close(); // whatever came of it
            assert_eq!((first, worker.join().unwrap()), (Ok(true), false));
        });
    }

    #[test]
    fn worker_sleeps_once_its_time_awake_is_over() {
        let queue = Queue::new(1);
        let (job, _answer) = job(3);
        thread::scope(|scope| {
            let worker = scope.spawn(|| queue.pop(0, Some(Instant::now())).is_some());
            queue.push(job).unwrap();
            assert!(worker.join().unwrap());
        });
    }
}
