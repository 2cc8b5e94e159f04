//! Real-time tasks on their way, and how they end.

use crate::backend::command::Command;
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::types::Event;
use crate::dispatch::queues::account::Account;
use crate::scheduler::policy::{RtEnd, RtTaskView};
use crate::sync::drops::drop_caught;
use crate::sync::wait_list::WaitList;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::thread::Thread;
use std::time::Duration;

/// Commands that make up one inference; can be submitted any number of times.
///
/// ```
/// use reef_core::{Cells, Command, Device, Task};
/// use reef_cpu::Cpu;
/// use std::sync::Arc;
///
/// let cells = Cells::new(&Cpu::open(0, "units=1")?, 4)?;
/// let task: Task<Cpu> = Task::new(vec![cells.append(7, 0), cells.append(8, 0)])?;
/// assert_eq!(task.commands().len(), 2);
/// let host: Command<Cpu> = Command::Host(Arc::new(|| ()));
/// assert!(Task::<Cpu>::new(vec![host]).is_err(), "it would wait for the host");
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Task<D: Device> {
    pub(crate) commands: Arc<[Command<D>]>,
    /// Name of the commands, which clones share.
    pub(crate) id: u64,
    pub(crate) ran: RanOn,
}

/// Name of the dispatcher on which a task has succeeded, unless it has failed since: nothing of it
/// has to be prepared there. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct RanOn(Arc<AtomicU64>);

impl RanOn {
    /// Names of dispatchers are not 0.
    const NONE: u64 = 0;

    pub(crate) fn is(&self, dispatcher: u64) -> bool {
        self.0.load(Ordering::Relaxed) == dispatcher
    }

    fn set(&self, dispatcher: u64) {
        self.0.store(dispatcher, Ordering::Relaxed);
    }
}

impl<D: Device> Task<D> {
    /// Takes launches, copies, fills and event records.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is a wait or host code among them: real-time work waits for nothing but
    /// the device.
    pub fn new(commands: impl Into<Arc<[Command<D>]>>) -> Result<Self> {
        let commands = commands.into();
        let waits = |c: &Command<D>| matches!(c, Command::Wait(_) | Command::Host(_));
        match commands.iter().position(waits) {
            None => {
                static NEXT: AtomicU64 = AtomicU64::new(0);
                let id = NEXT.fetch_add(1, Ordering::Relaxed);
                Ok(Self { commands, id, ran: RanOn::default() })
            }
            Some(at) => Err(Error::invalid(
                format!("command {at}"),
                format!("cannot wait in a real-time task, got {:?}", commands[at]),
            )),
        }
    }

    /// Its commands in order.
    pub fn commands(&self) -> &[Command<D>] {
        &self.commands
    }
}

/// Times of a real-time task.
///
/// ```
/// use reef_core::scheduler::Reef;
/// use reef_core::{Cells, Device, Dispatcher, Task};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let dispatcher = Dispatcher::start(&device, Reef::default())?;
/// let task = Task::new([Cells::new(&device, 4)?.append(7, 0)])?;
/// let timing = dispatcher.real_time()?.run(&task)?;
/// println!("started after {:?}, ran for {:?}", timing.delay, timing.device);
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timing {
    /// Time of submission, on the device's clock.
    pub submitted: Duration,
    /// From submission until its first command could start, with the preemption if there was one. A
    /// kernel that notes its own times, as a GPU's own and graphs do, counts as started when its
    /// first block runs.
    pub delay: Duration,
    /// From then until its last command ended.
    pub device: Duration,
    /// From submission until the dispatcher noted its end.
    pub total: Duration,
}

/// Outcome of a task, once it has ended, and its waiters.
#[derive(Debug)]
pub(crate) struct TaskState {
    done: OnceLock<Result<Timing>>,
    waiters: Mutex<Waiters>,
    /// Queue that its waiters go to when it has ended.
    to_wake: Arc<WakeQueue>,
}

/// Waiters of tasks that have ended, oldest first. Passes put them here, and the thread that made
/// one wakes them when it has left: a waker is the executor's code, which may take long, or ask the
/// dispatcher for something.
///
/// If a pass never ends, the tasks whose waiters are here end without it.
#[derive(Debug, Default)]
pub(crate) struct WakeQueue {
    ended: Mutex<VecDeque<Waiters>>,
    /// Tasks that are waited for.
    waiting: WaitList<TaskState>,
}

impl WakeQueue {
    /// Returns whether no pass ends a task any more.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting.is_over()
    }

    /// No pass ends a task any more: those that are waited for end with `error`.
    pub(crate) fn end(&self, error: &Error) {
        self.waiting.end(|task| task.fail(error.clone()));
    }

    /// Wakes them. Never inside of a pass.
    pub(crate) fn wake(&self) {
        while let Some(waiters) = self.take() {
            waiters.wake();
        }
    }

    fn take(&self) -> Option<Waiters> {
        self.ended.lock().pop_front()
    }
}

/// The newest waiter of each kind, and older threads after it: most tickets have one waiter, which
/// costs no allocation.
#[derive(Debug, Default)]
struct Waiters {
    waker: Option<Waker>,
    thread: Option<Thread>,
    more: Vec<Thread>,
}

impl Waiters {
    /// Returns the waker that is replaced, if one is.
    fn add(&mut self, waiter: Waiter) -> Option<Waker> {
        match waiter {
            Waiter::Waker(waker) => self.waker.replace(waker),
            Waiter::Thread(thread) => {
                self.remove(&thread);
                self.more.extend(self.thread.replace(thread));
                None
            }
        }
    }

    fn remove(&mut self, thread: &Thread) {
        self.thread.take_if(|waiting| waiting.id() == thread.id());
        self.more.retain(|waiting| waiting.id() != thread.id());
    }

    fn is_empty(&self) -> bool {
        self.waker.is_none() && self.thread.is_none() && self.more.is_empty()
    }

    /// A waker that panics is the executor's error. The thread here is another client's, or the
    /// service thread, which goes on.
    fn wake(self) {
        self.thread.into_iter().chain(self.more).for_each(|thread| thread.unpark());
        if let Some(waker) = self.waker {
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake())); // the panic has been printed
        }
    }
}

/// Waiter that is told of the end.
#[derive(Debug)]
pub(crate) enum Waiter {
    Thread(Thread),
    Waker(Waker),
}

impl TaskState {
    pub(crate) fn new(to_wake: &Arc<WakeQueue>) -> Self {
        Self { done: OnceLock::new(), waiters: Mutex::default(), to_wake: to_wake.clone() }
    }

    /// `None` while it hasn't ended.
    pub(crate) fn outcome(&self) -> Option<&Result<Timing>> {
        self.done.get()
    }

    pub(crate) fn fail(&self, error: Error) {
        self.complete(Err(error));
    }

    fn complete(&self, outcome: Result<Timing>) {
        if self.done.set(outcome).is_ok() {
            let waiters = std::mem::take(&mut *self.waiters.lock());
            if !waiters.is_empty() {
                self.to_wake.ended.lock().push_back(waiters);
            }
        }
    }

    /// Wakes `waiter` when the task ends, together with the waiters before it; of wakers the newest
    /// counts. If the task has ended by now, check again.
    pub(crate) fn wake_at_end(&self, waiter: Waiter) {
        let replaced = self.waiters.lock().add(waiter);
        drop(replaced); // without the lock: its drop is the executor's code too
    }

    /// No future waits any more. The waker is dropped here, and not by the pass that is the last to
    /// know of the task.
    pub(crate) fn forget_waker(&self) {
        let waker = self.waiters.lock().waker.take();
        drop(waker);
    }

    /// This thread waits no more.
    pub(crate) fn leave(&self, thread: &Thread) {
        self.waiters.lock().remove(thread);
    }

    /// It is waited for from now on, until [`end_wait`](Self::end_wait).
    pub(crate) fn begin_wait(self: &Arc<Self>) {
        self.to_wake.waiting.add(self);
    }

    pub(crate) fn end_wait(self: &Arc<Self>) {
        self.to_wake.waiting.remove(self);
    }
}

/// A real-time task on its way.
#[derive(Debug)]
pub(crate) struct Request<D: Device> {
    pub(crate) commands: Arc<[Command<D>]>,
    /// Name of the commands.
    pub(crate) task: u64,
    /// Reached when the first command could start and when the last has finished.
    pub(crate) events: [D::Event; 2],
    pub(crate) ticket: Arc<TaskState>,
    /// Account that it is charged to.
    pub(crate) account: Account,
    pub(crate) view: RtTaskView,
    /// It has been launched before: the driver needn't prepare anything.
    pub(crate) has_run: bool,
    pub(crate) ran: RanOn,
    /// Name of the dispatcher that it is on.
    pub(crate) dispatcher: u64,
}

impl<D: Device> Request<D> {
    /// Returns its view for the scheduler.
    pub(crate) fn view(&self, now: Duration) -> RtTaskView {
        let account = &self.account;
        RtTaskView {
            account: account.id(),
            in_budget: account.is_in_budget(now),
            served: account.served(),
            ..self.view
        }
    }

    /// Times of its start and end; 0 for an event that was not recorded.
    fn times(&self) -> [Duration; 2] {
        self.events.each_ref().map(|e| e.reached().unwrap_or_default())
    }

    /// Charges what was launched of a task that was refused. If its start was not recorded, the
    /// event has no time or that of an older task, and the time since the submission counts.
    pub(crate) fn charge_refused(&self) {
        let [started, ended] = self.times();
        self.account.charge(started.max(self.view.since), ended);
    }

    /// Ends a task that has failed on the device.
    pub(crate) fn fail(&self, error: Error) {
        self.ran.set(RanOn::NONE);
        self.ticket.fail(error);
    }

    pub(crate) fn finish(&self, now: Duration) -> RtEnd {
        let [started, ended] = self.times();
        self.account.charge(started, ended);
        self.ran.set(self.dispatcher); // before the client sees the end
        let submitted = self.view.since;
        let total = now.saturating_sub(submitted);
        self.ticket.complete(Ok(Timing {
            submitted,
            delay: started.saturating_sub(submitted),
            device: ended.saturating_sub(started),
            total,
        }));
        RtEnd { task: self.task, submitted, total }
    }
}

/// A request completes its ticket in any case: one that is dropped unfinished is lost.
impl<D: Device> Drop for Request<D> {
    fn drop(&mut self) {
        self.ticket.fail(Error::Cancelled);
        drop_caught(std::mem::take(&mut self.commands)); // perhaps in a pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;
    use std::time::Instant;

    const TEST_TIMEOUT: Duration = Duration::from_secs(60);

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// An executor's waker that panics.
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }

    #[test]
    fn waker_that_panics_keeps_no_other_from_waking() {
        let to_wake = Arc::default();
        let count = Arc::new(Count::default());
        for waker in [Arc::new(Panics).into(), count.clone().into()] {
            let state = TaskState::new(&to_wake);
            state.wake_at_end(Waiter::Waker(waker));
            state.fail(Error::Cancelled);
        }
        to_wake.wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    /// Waker whose drop ends its task, as one may that has the last of a client.
    struct EndsTask(Arc<TaskState>);

    impl Wake for EndsTask {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for EndsTask {
        fn drop(&mut self) {
            self.0.fail(Error::Cancelled);
        }
    }

    #[test]
    fn dropped_waker_may_end_its_task() {
        let (to_wake, count) = (Arc::default(), Arc::new(Count::default()));
        let state = Arc::new(TaskState::new(&to_wake));
        state.wake_at_end(Waiter::Waker(Arc::new(EndsTask(state.clone())).into()));
        let (later, waker) = (state.clone(), count.clone().into());
        let (done, replaced) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            later.wake_at_end(Waiter::Waker(waker));
            done.send(())
        });
        replaced.recv_timeout(TEST_TIMEOUT).expect("no lock is held while it is dropped");
        assert_eq!(state.outcome(), Some(&Err(Error::Cancelled)));
        to_wake.wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn forgotten_waker_is_dropped_and_not_woken() {
        let (to_wake, count) = (Arc::default(), Arc::new(Count::default()));
        let state = TaskState::new(&to_wake);
        state.wake_at_end(Waiter::Waker(count.clone().into()));
        state.forget_waker();
        assert_eq!(Arc::strong_count(&count), 1);
        state.fail(Error::Cancelled);
        to_wake.wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
    }

    /// A ticket that is polled and then waited for by threads, which is not told of by the type.
    #[test]
    fn end_of_a_task_wakes_all_waiters() {
        let to_wake = Arc::default();
        let (state, count) = (TaskState::new(&to_wake), Arc::new(Count::default()));
        let waker = || Waiter::Waker(count.clone().into());
        let sleep = || {
            let start = Instant::now();
            while state.outcome().is_none() {
                std::thread::park_timeout(TEST_TIMEOUT);
            }
            start.elapsed() < TEST_TIMEOUT
        };
        let woken = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(sleep)).collect();
            state.wake_at_end(waker());
            for thread in &threads {
                state.wake_at_end(Waiter::Thread(thread.thread().clone()));
            }
            state.wake_at_end(waker()); // polled again: the newest waker counts
            state.fail(Error::Cancelled);
            assert_eq!(count.0.load(Ordering::SeqCst), 0, "when the pass is over, not before");
            to_wake.wake();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
        assert_eq!(woken, [true, true]);
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
