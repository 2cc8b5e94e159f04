//! Applies a [`Scheduler`]'s decisions to a device: one real-time queue, any number of best-effort
//! queues.
//!
//! # Who does what
//!
//! Whoever brings news makes the turn: a client that submits a real-time task preempts and launches
//! on its own thread, so no thread has to wake up first. The service thread makes the turns for news
//! that come from the device and for times that have come. The [`Turnstile`] lets one at a time.
//!
//! A turn: note what finished → view → decide → apply. Applying, in this order: stop best-effort
//! queues (a flag, no waiting, nobody is woken), launch real-time work, take back what was stopped if
//! somebody needs that, or restore; then set the gates.

use crate::dispatch::be_client::{BeClient, ClientConfig, Member};
use crate::dispatch::rt_client::{Request, RtClient};
use crate::dispatch::rt_queue::RtLane;
use crate::scheduler::{LaunchLimit, Plan, QueueView, Scheduler, View};
use crate::sync::combiner::Turnstile;
use crate::{Colocation, Device, Error, Group, Result, Seq};
use crossbeam_queue::ArrayQueue;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// How long real-time work has kept best-effort work off the device before that runs narrow beside it.
///
/// It is stopped twice more for that, and slows the rest of the burst: on an H200, beside five real-time
/// clients whose requests come together, 1 ms made these 1.5 times as slow and gave best-effort work nothing
/// (docs/cuda.md). It is for real-time work that doesn't end.
const BESIDE_AFTER: Duration = Duration::from_millis(10);

/// Real-time requests that can wait to be seen by a turn.
const INBOX: usize = 1024;

/// Preemptions that are noted before somebody takes them; later ones are not.
const MOST_NOTED: usize = 1 << 16;

/// How often what happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Preemptions of the best-effort queues.
    pub preemptions: u64,
    /// Real-time tasks that finished.
    pub rt_finished: u64,
    /// Real-time kernels that were launched with best-effort blocks beside them; on a device that
    /// narrows queues, how often that was done.
    pub padded_launches: u64,
    /// Best-effort blocks that were launched beside real-time kernels; some came too late to run there. 0 on a
    /// device that narrows queues.
    pub padded_blocks: u64,
}

/// What turns work on.
#[derive(Debug)]
pub(crate) struct State<D: Device> {
    scheduler: Box<dyn Scheduler>,
    pub(crate) rt: RtLane<D>,
    pub(crate) members: Vec<Member<D>>,
    views: Vec<QueueView>,
    plan: Plan,
    last_turn: Duration,
    /// When best-effort work was last stopped.
    stopped: Duration,
    pub(crate) stats: Stats,
    /// When best-effort work was preempted, while somebody wants to know.
    preempted: Option<Vec<Duration>>,
    /// Why no real-time work runs any more.
    closed: Option<Error>,
}

/// What the dispatcher, its thread and its clients share.
#[derive(Debug)]
pub(crate) struct Core<D: Device> {
    pub(crate) device: D,
    pub(crate) group: Arc<Group<D>>,
    turnstile: Turnstile<State<D>>,
    inbox: ArrayQueue<Request<D>>,
    service: OnceLock<Thread>,
    closing: AtomicBool,
    /// The device doesn't wake us and has real-time work: look again at once.
    poll: AtomicBool,
    /// The service thread makes one turn after the other.
    polling: AtomicBool,
    /// When to look again, in nanoseconds on the device's clock; `u64::MAX` is never.
    alarm: AtomicU64,
    next_id: AtomicU64,
}

impl<D: Device> Core<D> {
    /// The device's clock serves for everything, so that its events can be compared with ours.
    pub(crate) fn now(&self) -> Duration {
        self.device.clock()
    }

    /// Queues a real-time request and makes the turn that starts it.
    ///
    /// # Errors
    ///
    /// `Cancelled` if the dispatcher is gone; `State` if too many requests wait.
    pub(crate) fn request(&self, request: Request<D>) -> Result<()> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::Cancelled);
        }
        self.inbox.push(request).map_err(|_| Error::State("too many real-time requests wait"))?;
        self.turn();
        Ok(())
    }

    /// Makes a turn, or has the one who makes one make another.
    pub(crate) fn turn(&self) {
        self.turnstile.visit(|state| {
            let turn = AssertUnwindSafe(|| self.turn_inside(state));
            if catch_unwind(turn).is_err() {
                state.close(Error::State("the scheduler panicked"));
            }
        });
    }

    /// Changes the state between turns.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut State<D>) -> R) -> R {
        self.turnstile.lock(f)
    }

    /// Whether somebody who waits can leave the turns to the service thread for now.
    pub(crate) fn is_polled(&self) -> bool {
        self.polling.load(Ordering::Acquire)
    }

    /// The thread that makes turns when nobody else does.
    pub(crate) fn service(&self) -> &Thread {
        self.service.get().expect("set before the core is handed out")
    }

    pub(crate) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn turn_inside(&self, state: &mut State<D>) {
        while let Some(request) = self.inbox.pop() {
            match &state.closed {
                Some(error) => request.ticket.fail(error.clone()),
                None => state.rt.enqueue(request),
            }
        }
        while self.decide_and_apply(state) {}
        self.set_alarm(state);
    }

    /// Returns whether there are news already.
    fn decide_and_apply(&self, state: &mut State<D>) -> bool {
        let now = self.now();
        state.stats.rt_finished += state.rt.note_finished(self, now);
        state.look(now, &self.group);
        self.apply(state).unwrap_or_else(|error| {
            state.close(error);
            false
        })
    }

    fn apply(&self, state: &mut State<D>) -> Result<bool> {
        let (held, capped) = (self.group.is_preempted(), self.group.is_capped());
        if !held && state.plan.preempt != capped {
            self.group.stop()?; // for real-time work, or a narrow group to be widened
            state.stopped = state.last_turn; // which is this one
            if state.plan.preempt {
                state.note_preemption();
            }
        }
        let beside = self.group.capped_blocks();
        let pads = state.plan.pad && self.device.colocation() == Colocation::Padded;
        let beside = beside.filter(|_| state.is_long_stopped() && state.plan.pad);
        let fed = state.rt.feed(self, state.plan.start, pads.then_some(&mut state.members));
        state.stats.padded_launches += fed.padded;
        state.stats.padded_blocks += fed.padded_blocks;
        // Taking back costs time on the cores that real-time work wants: only if somebody needs it.
        let mut again = fed.again;
        let wanted = fed.held_back || !state.plan.start || !state.plan.preempt || beside.is_some();
        if wanted && self.group.is_preempted() {
            let before = self.group.is_quiesced();
            again |= self.group.try_quiesce() && !before; // schedulers wait for this
        }
        self.restore(state, beside)?;
        state.set_limits();
        Ok(again)
    }

    /// Lets a held group go on, if the plan says so and it has stopped; if it is too early, a worker
    /// that quiesces makes a turn.
    fn restore(&self, state: &mut State<D>, beside: Option<u32>) -> Result<()> {
        if !self.group.is_preempted() {
            return Ok(());
        }
        if !state.plan.preempt {
            self.group.try_restore()?;
        } else if beside.is_some() && self.group.is_quiesced() {
            self.group.try_restore_as(beside)?;
            state.stats.padded_launches += 1;
        }
        Ok(())
    }

    fn set_alarm(&self, state: &State<D>) {
        self.poll.store(state.rt.needs_polling(), Ordering::Release);
        let alarm =
            state.plan.wake.map_or(u64::MAX, |at| at.as_nanos().try_into().unwrap_or(u64::MAX));
        let before = self.alarm.swap(alarm, Ordering::AcqRel);
        if alarm < before || state.rt.needs_polling() {
            self.service().unpark();
        }
    }

    /// The service thread.
    fn serve(&self) {
        while !self.closing.load(Ordering::Acquire) {
            self.turn();
            let poll = self.poll.load(Ordering::Acquire);
            self.polling.store(poll, Ordering::Release);
            if poll {
                std::hint::spin_loop();
                continue;
            }
            match self.alarm.load(Ordering::Acquire) {
                u64::MAX => thread::park(),
                at => thread::park_timeout(Duration::from_nanos(at).saturating_sub(self.now())),
            }
        }
        self.polling.store(false, Ordering::Release);
    }
}

impl<D: Device> State<D> {
    /// Ends real-time work for good. Best-effort work goes on, as an open plan lets it.
    fn close(&mut self, error: Error) {
        self.rt.close(&error);
        self.closed.get_or_insert(error);
    }

    fn note_preemption(&mut self) {
        self.stats.preemptions += 1;
        if let Some(times) = self.preempted.as_mut().filter(|times| times.len() < MOST_NOTED) {
            times.push(self.stopped);
        }
    }

    /// Makes the view and lets the scheduler fill the plan.
    fn look(&mut self, now: Duration, group: &Group<D>) {
        self.account(now);
        self.views.clear();
        self.views.extend(self.members.iter_mut().map(Member::view));
        self.plan.open(self.views.len());
        let preempted = group.is_preempted() || group.is_capped();
        let view = View {
            rt_waiting: self.rt.waiting(),
            rt_running: self.rt.running(),
            rt_next: self.rt.next_task(),
            preempted,
            quiesced: preempted && group.is_quiesced(),
            queues: &self.views,
        };
        if self.closed.is_none() {
            self.scheduler.decide(now, &view, &mut self.plan);
        }
        self.last_turn = now;
    }

    /// Whether it is worth running best-effort work beside what stopped it.
    fn is_long_stopped(&self) -> bool {
        self.last_turn.saturating_sub(self.stopped) >= BESIDE_AFTER
    }

    /// Books the time since the last turn to the queues that could run in it, in equal parts.
    fn account(&mut self, now: Duration) {
        if self.plan.preempt {
            return;
        }
        let open = |(q, limit): &(&QueueView, &LaunchLimit)| {
            q.is_ready() && **limit != LaunchLimit::Closed
        };
        let running = self.views.iter().zip(&self.plan.limits).filter(open);
        let ids: Vec<u64> = running.map(|(q, _)| q.id).collect();
        let share = now.saturating_sub(self.last_turn) / ids.len().max(1) as u32;
        for member in self.members.iter_mut().filter(|m| ids.contains(&m.id)) {
            member.served += share;
        }
    }

    fn set_limits(&self) {
        for (member, gate) in self.members.iter().zip(&self.plan.limits) {
            member.queue.shared().set_limit(match gate {
                LaunchLimit::Closed => 0,
                LaunchLimit::Until(Seq(end)) => *end,
                LaunchLimit::Open => u64::MAX,
            });
        }
    }
}

/// Runs the work of many clients on one device as a [`Scheduler`] decides.
///
/// Clients come and go while it runs. Dropping it finishes the real-time tasks that the device has
/// and cancels everything else.
#[derive(Debug)]
pub struct Dispatcher<D: Device> {
    core: Arc<Core<D>>,
    thread: Option<JoinHandle<()>>,
}

impl<D: Device> Dispatcher<D> {
    /// Starts it with no clients.
    ///
    /// # Errors
    ///
    /// `Level` if the device is not as deep as the scheduler asks; the driver's.
    pub fn start(device: &D, scheduler: Box<dyn Scheduler>) -> Result<Self> {
        let group = Group::open(device, scheduler.level())?;
        let rt = RtLane::open(device, scheduler.rt_priority())?;
        let state = State {
            scheduler,
            rt,
            members: Vec::new(),
            views: Vec::new(),
            plan: Plan::default(),
            last_turn: Duration::ZERO,
            stopped: Duration::ZERO,
            stats: Stats::default(),
            preempted: None,
            closed: None,
        };
        let core = Arc::new(Core {
            device: device.clone(),
            group,
            turnstile: Turnstile::new(state),
            inbox: ArrayQueue::new(INBOX),
            service: OnceLock::new(),
            closing: AtomicBool::new(false),
            poll: AtomicBool::new(false),
            polling: AtomicBool::new(false),
            alarm: AtomicU64::new(u64::MAX),
            next_id: AtomicU64::new(0),
        });
        let thread = spawn(core.clone())?;
        core.with(|state| state.rt.wake(thread.thread().clone()));
        Ok(Self { core, thread: Some(thread) })
    }

    /// A client whose tasks are real-time: they run before any best-effort work, first in first out.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub fn real_time(&self) -> Result<RtClient<D>> {
        RtClient::new(self.core.clone())
    }

    /// A client with a queue of its own for best-effort work.
    ///
    /// # Errors
    ///
    /// Those of [`VirtualQueue::enable`](crate::VirtualQueue::enable).
    pub fn best_effort(&self, config: ClientConfig) -> Result<BeClient<D>> {
        BeClient::new(self.core.clone(), config)
    }

    /// What happened so far.
    pub fn stats(&self) -> Stats {
        self.core.with(|state| state.stats)
    }

    /// Starts to note when best-effort work is preempted, or stops.
    pub fn set_trace(&self, on: bool) {
        self.core.with(|state| state.preempted = on.then(Vec::new));
    }

    /// Takes what has been noted so far: times on the [device's clock](Device::clock).
    pub fn take_trace(&self) -> Vec<Duration> {
        self.core.with(|state| state.preempted.as_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Whether best-effort work is preempted, or on the way to be.
    pub fn is_preempted(&self) -> bool {
        self.core.group.is_preempted()
    }
}

fn spawn<D: Device>(core: Arc<Core<D>>) -> Result<JoinHandle<()>> {
    let (ready, go) = std::sync::mpsc::channel::<()>();
    let thread = thread::Builder::new().name(format!("reef-{}-dispatch", D::NAME)).spawn({
        let core = core.clone();
        move || {
            let _ = go.recv(); // until `service` is set
            core.serve();
        }
    });
    let thread = thread.map_err(|e| Error::Invalid(format!("no thread for a dispatcher: {e}")))?;
    let _ = core.service.set(thread.thread().clone());
    drop(ready);
    Ok(thread)
}

impl<D: Device> Drop for Dispatcher<D> {
    fn drop(&mut self) {
        self.core.closing.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join(); // a panic has already been printed
        }
        let members = self.core.with(|state| {
            while let Some(request) = self.core.inbox.pop() {
                request.ticket.fail(Error::Cancelled);
            }
            state.rt.finish(&self.core.device);
            state.closed = Some(Error::Cancelled);
            std::mem::take(&mut state.members)
        });
        drop(members); // cancels what waits, and waits for what runs
    }
}
