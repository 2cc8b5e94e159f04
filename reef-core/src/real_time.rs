//! Real-time tasks: what clients hold, and the lane on which they run.

use crate::best_effort::Member;
use crate::dispatcher::Core;
use crate::dkp::{self, Padding};
use crate::scheduler::TaskView;
use crate::{Command, Device, DeviceInfo, Error, Event, Launch, Priority, Queue, Result, Seq};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

/// Kernels that could be padded and are launched ahead of being finished.
///
/// One more than runs, so that the device never waits for us; not more, because each is padded with
/// what is known when it is launched.
const PADDABLE_AHEAD: usize = 2;

/// Commands that make up one inference; can be submitted any number of times.
#[derive(Debug, Clone)]
pub struct Task<D: Device> {
    commands: Arc<[Command<D>]>,
}

impl<D: Device> Task<D> {
    /// Takes launches, copies, fills and event records.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is a wait or host code among them: real-time work waits for nobody.
    pub fn new(commands: impl Into<Arc<[Command<D>]>>) -> Result<Self> {
        let commands = commands.into();
        let waits = |c: &Command<D>| matches!(c, Command::Wait(_) | Command::Host(_));
        match commands.iter().position(waits) {
            None => Ok(Self { commands }),
            Some(at) => Err(Error::Invalid(format!(
                "command {at} of a real-time task waits: {:?}",
                commands[at]
            ))),
        }
    }

    /// Its commands in order.
    pub fn commands(&self) -> &[Command<D>] {
        &self.commands
    }
}

/// When a real-time task was where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// When it was submitted, on the device's clock.
    pub submitted: Duration,
    /// From submission until its first command could start: the preemption, if there was one.
    pub delay: Duration,
    /// From then until its last command ended.
    pub device: Duration,
    /// From submission until the dispatcher noted its end.
    pub total: Duration,
}

/// How a task ended, once it did.
#[derive(Debug, Default)]
pub(crate) struct State {
    done: OnceLock<Result<Timing>>,
    waiter: Mutex<Option<Thread>>,
}

impl State {
    pub(crate) fn fail(&self, error: Error) {
        self.complete(Err(error));
    }

    fn complete(&self, how: Result<Timing>) {
        if self.done.set(how).is_ok()
            && let Some(waiter) = self.waiter.lock().take()
        {
            waiter.unpark();
        }
    }
}

/// A submitted real-time task.
#[derive(Debug)]
pub struct Ticket<D: Device> {
    state: Arc<State>,
    core: Arc<Core<D>>,
}

impl<D: Device> Ticket<D> {
    /// How the task ended, or `None` if it hasn't.
    pub fn poll(&self) -> Option<Result<Timing>> {
        self.state.done.get().cloned()
    }

    /// Blocks until the task has finished.
    ///
    /// Meanwhile the device wakes this thread and not the service thread, which saves a hop.
    ///
    /// # Errors
    ///
    /// What kept it from finishing: `Cancelled`, or the error of the device.
    pub fn wait(self) -> Result<Timing> {
        *self.state.waiter.lock() = Some(thread::current());
        let wakes = self.core.with(|state| state.rt.wake(thread::current()));
        let how = loop {
            self.core.turn();
            if let Some(how) = self.poll() {
                break how;
            }
            if wakes { thread::park() } else { std::hint::spin_loop() }
        };
        self.core.with(|state| state.rt.wake(self.core.service().clone()));
        self.core.turn(); // news between the last turn and the line above
        how
    }
}

/// A client whose tasks are real-time. Clone it for each thread.
#[derive(Debug)]
pub struct RtClient<D: Device> {
    core: Arc<Core<D>>,
    events: [D::Event; 2],
    /// The newest task, which uses `events` until it is over.
    last: Option<Arc<State>>,
}

impl<D: Device> RtClient<D> {
    pub(crate) fn new(core: Arc<Core<D>>) -> Result<Self> {
        let events = [core.device.event()?, core.device.event()?];
        Ok(Self { core, events, last: None })
    }

    /// Submits a task: best-effort work is preempted and the task launched before this returns,
    /// unless the scheduler decides otherwise.
    ///
    /// # Errors
    ///
    /// `Cancelled` if the dispatcher is gone; `State` if too many requests wait.
    pub fn submit(&mut self, task: &Task<D>) -> Result<Ticket<D>> {
        self.submit_before(task, None)
    }

    /// As [`submit`](Self::submit), to be finished within `deadline` from now; see
    /// [`EarliestDeadline`](crate::scheduler::EarliestDeadline).
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    pub fn submit_before(
        &mut self,
        task: &Task<D>,
        deadline: Option<Duration>,
    ) -> Result<Ticket<D>> {
        let state = Arc::new(State::default());
        let events = self.events(&state)?;
        let since = self.core.now();
        self.core.request(Request {
            commands: task.commands.clone(),
            events,
            ticket: state.clone(),
            since,
            deadline: deadline.map(|time| since.saturating_add(time)),
        })?;
        Ok(Ticket { state, core: self.core.clone() })
    }

    /// Runs a task and waits for it.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit) and [`Ticket::wait`].
    pub fn run(&mut self, task: &Task<D>) -> Result<Timing> {
        self.submit(task)?.wait()
    }

    /// Events for a task: those of the last one if it is over, else new ones.
    fn events(&mut self, task: &Arc<State>) -> Result<[D::Event; 2]> {
        let last = self.last.replace(task.clone());
        if last.is_some_and(|last| last.done.get().is_none()) {
            let device = &self.core.device;
            self.events = [device.event()?, device.event()?];
        }
        Ok(self.events.clone())
    }
}

/// A real-time task on its way.
#[derive(Debug)]
pub(crate) struct Request<D: Device> {
    commands: Arc<[Command<D>]>,
    /// Reached when the first command starts and when the last has finished.
    events: [D::Event; 2],
    pub(crate) ticket: Arc<State>,
    since: Duration,
    deadline: Option<Duration>,
}

impl<D: Device> Request<D> {
    fn finish(&self, now: Duration) {
        let [started, ended] = self.events.each_ref().map(|e| e.reached().unwrap_or_default());
        self.ticket.complete(Ok(Timing {
            submitted: self.since,
            delay: started.saturating_sub(self.since),
            device: ended.saturating_sub(started),
            total: now.saturating_sub(self.since),
        }));
    }
}

/// The real-time hardware queue and what is on it or waits for it.
#[derive(Debug)]
pub(crate) struct RtLane<D: Device> {
    queue: D::Queue,
    priority: Priority,
    info: DeviceInfo,
    /// Position of the next command.
    next: u64,
    /// Positions behind the kernels that leave units free and have not finished.
    paddable: VecDeque<u64>,
    waiting: VecDeque<Request<D>>,
    /// Launched in part, and how far.
    feeding: Option<(Request<D>, usize)>,
    /// Launched, with the position behind the last command.
    launched: VecDeque<(Request<D>, u64)>,
    wakes: bool,
}

impl<D: Device> RtLane<D> {
    pub(crate) fn open(device: &D, priority: Priority) -> Result<Self> {
        Ok(Self {
            queue: device.queue(priority, None)?,
            priority,
            info: device.info(),
            next: 0,
            paddable: VecDeque::new(),
            waiting: VecDeque::new(),
            feeding: None,
            launched: VecDeque::new(),
            wakes: false,
        })
    }

    /// Lets the device unpark `thread` when something finishes. `false`: it can't.
    pub(crate) fn wake(&mut self, thread: Thread) -> bool {
        self.wakes = self.queue.wake(thread);
        self.wakes
    }

    pub(crate) fn needs_polling(&self) -> bool {
        !self.wakes && self.running() > 0
    }

    pub(crate) fn enqueue(&mut self, request: Request<D>) {
        self.waiting.push_back(request);
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn running(&self) -> usize {
        self.launched.len() + usize::from(self.feeding.is_some())
    }

    pub(crate) fn next_task(&self) -> Option<TaskView> {
        let next = self.waiting.front()?;
        Some(TaskView { since: next.since, deadline: next.deadline, end: Seq(0) })
    }

    /// Completes the tickets of tasks that have finished; returns how many.
    pub(crate) fn note_finished(&mut self, core: &Core<D>, now: Duration) -> u64 {
        let done = match self.queue.completed() {
            Ok(Seq(done)) => done,
            Err(error) => {
                self.replace(core, &error);
                return 0;
            }
        };
        let mut finished = 0;
        while let Some((request, _)) = self.launched.pop_front_if(|(_, end)| *end <= done) {
            request.finish(now);
            finished += 1;
        }
        while self.paddable.pop_front_if(|end| *end <= done).is_some() {}
        finished
    }

    /// A queue that failed fails its tasks and is replaced: the device may still be there.
    #[cold]
    fn replace(&mut self, core: &Core<D>, error: &Error) {
        match Self::open(&core.device, self.priority) {
            Ok(fresh) => {
                self.queue = fresh.queue; // drops the old one, so that nothing of it runs any more
                self.next = 0;
                self.paddable.clear();
                self.wake(core.service().clone());
                self.fail_running(error);
            }
            Err(error) => self.fail_all(&error),
        }
    }

    fn fail_running(&mut self, error: &Error) {
        let feeding = self.feeding.take().map(|(request, _)| request);
        for request in self.launched.drain(..).map(|(request, _)| request).chain(feeding) {
            request.ticket.fail(error.clone());
        }
    }

    pub(crate) fn fail_all(&mut self, error: &Error) {
        self.fail_running(error);
        self.waiting.drain(..).for_each(|request| request.ticket.fail(error.clone()));
    }

    /// Waits for what the device has; cancels the rest.
    pub(crate) fn finish(&mut self, device: &D) {
        self.waiting.drain(..).for_each(|request| request.ticket.fail(Error::Cancelled));
        if let Some((request, _)) = self.feeding.take() {
            request.ticket.fail(Error::Cancelled);
        }
        while let Some((request, end)) = self.launched.pop_front() {
            loop {
                match self.queue.completed() {
                    Ok(Seq(done)) if done >= end => break request.finish(device.clock()),
                    Ok(_) => thread::yield_now(),
                    Err(error) => break request.ticket.fail(error),
                }
            }
        }
    }

    /// Launches what may be launched, with blocks of `members` beside it where they fit.
    ///
    /// A task that can't be launched fails alone.
    pub(crate) fn feed(
        &mut self,
        core: &Core<D>,
        start: bool,
        mut members: Option<&mut Vec<Member<D>>>,
    ) -> Fed {
        let mut fed = Fed::default();
        while let Some((request, at)) = self.next_to_feed(start) {
            match self.feed_one(core, &request, at, members.as_deref_mut(), &mut fed) {
                Ok(at) if at < request.commands.len() => {
                    self.feeding = Some((request, at));
                    fed.held_back = true;
                    break;
                }
                Ok(_) => self.launched.push_back((request, self.next)),
                Err(error) => request.ticket.fail(error),
            }
        }
        fed.again = self.wake_at_next();
        fed
    }

    /// The task that is launched in part, or else the next one, and how far it is.
    fn next_to_feed(&mut self, start: bool) -> Option<(Request<D>, usize)> {
        let feeding = self.feeding.take();
        feeding.or_else(|| start.then(|| self.waiting.pop_front()).flatten().map(|next| (next, 0)))
    }

    /// Launches commands of a task from `at` on; returns how far it came.
    fn feed_one(
        &mut self,
        core: &Core<D>,
        request: &Request<D>,
        mut at: usize,
        mut members: Option<&mut Vec<Member<D>>>,
        fed: &mut Fed,
    ) -> Result<usize> {
        if at == 0 {
            let seq = self.take_seq();
            self.queue.record(seq, &request.events[0])?;
        }
        while let Some(command) = request.commands.get(at) {
            let Some(padded) = self.launch(core, command, members.as_deref_mut())? else {
                return Ok(at);
            };
            fed.padded += u64::from(padded);
            at += 1;
        }
        let seq = self.take_seq();
        self.queue.record(seq, &request.events[1])?;
        Ok(at)
    }

    /// Asks to be woken when the next task has finished, or the next kernel can be padded. Returns
    /// whether that is so already.
    fn wake_at_next(&mut self) -> bool {
        let task = self.launched.front().map(|&(_, end)| end);
        let kernel = self.feeding.as_ref().and(self.paddable.front().copied());
        let Some(next) = task.into_iter().chain(kernel).min() else { return false };
        self.queue.wake_at(Seq(next));
        self.queue.completed().is_ok_and(|done| done >= Seq(next))
    }

    fn take_seq(&mut self) -> Seq {
        self.next += 1;
        Seq(self.next - 1)
    }

    /// Launches one command; says whether it was padded, or `None` if it should wait its turn.
    ///
    /// Which blocks fit is known when a kernel is about to run, not before: kernels that leave units
    /// free wait until few of them are ahead.
    fn launch(
        &mut self,
        core: &Core<D>,
        command: &Command<D>,
        members: Option<&mut Vec<Member<D>>>,
    ) -> Result<Option<bool>> {
        if let (Command::Launch(rt), Some(members)) = (command, members)
            && !members.is_empty()
            && self.leaves_units_free(rt)
        {
            if self.paddable.len() >= PADDABLE_AHEAD {
                return Ok(None);
            }
            self.paddable.push_back(self.next + 1);
            if core.group.is_settled() && self.launch_padded(core, rt, members)? {
                return Ok(Some(true));
            }
        }
        let seq = self.take_seq();
        command.issue(seq, None, &mut self.queue)?;
        Ok(Some(false))
    }

    fn leaves_units_free(&self, rt: &Launch<D>) -> bool {
        rt.profile().is_some() && dkp::rt_units(rt.blocks(), &self.info) < self.info.units
    }

    /// Launches `rt` with blocks of the first best-effort queue that has some that fit.
    fn launch_padded(
        &mut self,
        core: &Core<D>,
        rt: &Launch<D>,
        members: &mut [Member<D>],
    ) -> Result<bool> {
        for member in members {
            if let Some((padding, be, record)) = member.padding(&core.device, rt, &self.info)? {
                let seq = self.take_seq();
                self.queue.launch_padded(seq, rt, &padding, &be, &record)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What a [`RtLane::feed`] did.
#[derive(Debug, Default)]
pub(crate) struct Fed {
    /// Kernels that were launched with best-effort blocks beside them.
    pub(crate) padded: u64,
    /// A kernel waits until it can be padded.
    pub(crate) held_back: bool,
    /// Something has finished meanwhile.
    pub(crate) again: bool,
}

/// A padding with the kernel that it takes blocks from.
pub(crate) type Chosen<D> = (Padding, Launch<D>, <D as Device>::Record);
