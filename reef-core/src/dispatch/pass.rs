//! A pass: takes what came in, lets the scheduler decide, and applies its plan.
//!
//! # Threads
//!
//! The thread that causes a change makes the pass: a client that submits a real-time task preempts
//! and launches on its own thread, so no thread has to wake up first. The service thread makes the
//! passes for reports of the device and for times that have come. The [`Combiner`] has one thread
//! at a time do it.
//!
//! A pass: note what finished → view → decide → apply. Applying, in this order: hold best-effort
//! queues (no driver is called), launch real-time work, stop what the device has of the queues (a
//! flag, no waiting), take it back if that is needed now, or restore; then set the launch limits.
//! Real-time work that takes more than one call of the driver, or one that it hasn't made before,
//! is launched after the stop: such a call may wait for what is to be stopped. A stop that calls no
//! driver comes first, unless the work hasn't run before: what the stop holds back may be what the
//! first launch waits for.
//!
//! Nothing in a pass should take long. What the driver prepares is prepared before, by the client,
//! and clients that wait are woken when the pass is over. There is one exception: a real-time queue
//! that failed is replaced, which opens a stream of the driver and closes the old one, so that
//! nothing of it runs any more. Calls that never return are handled in `watch.rs`.

use crate::backend::command::Command;
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::Colocation;
use crate::backend::info::Priority;
use crate::dispatch::queues::task::{Request, TaskState, WakeQueue};
use crate::dispatch::state::{Counts, Donors, PassState};
use crate::sync::combiner::{Combiner, MAX_PASSES};
use crate::sync::turns::Turns;
use crate::vqueue::group::Group;
use crossbeam_queue::ArrayQueue;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Number of real-time requests that can wait for a pass.
const INBOX_CAPACITY: usize = 1024;

/// Time for which a thread that reads or changes something between passes waits for one, if it can
/// go on without.
const PASS_TIMEOUT: Duration = Duration::from_millis(100);

/// Interval at which the service thread checks whether a call that hangs has returned.
const HANG_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// State that the dispatcher, its thread and its clients share.
#[derive(Debug)]
pub(crate) struct Dispatch<D: Device> {
    /// Name of it, from 1; never used again.
    pub(super) id: u64,
    pub(crate) device: D,
    pub(crate) group: Arc<Group<D>>,
    combiner: Combiner<PassState<D>>,
    /// Reason for which the device is lost. Written once, before best-effort queues end; a pass
    /// that finds it ends real-time work.
    pub(super) lost: OnceLock<Error>,
    pub(super) counts: Arc<Counts>,
    /// A client that the device woke waits no more: a pass names the service thread in its place.
    wakes_service: AtomicBool,
    pub(super) inbox: ArrayQueue<Request<D>>,
    service: OnceLock<Thread>,
    pub(super) closing: AtomicBool,
    /// The device doesn't wake this thread and has real-time work: poll it at once.
    poll: AtomicBool,
    /// The service thread makes one pass after the other.
    polling: AtomicBool,
    /// Time of the next pass, in nanoseconds on the device's clock; `u64::MAX` is never.
    alarm: AtomicU64,
    next_id: AtomicU64,
    /// The class of the real-time queue.
    priority: Priority,
    /// Waiters of real-time tasks that have ended.
    pub(crate) to_wake: Arc<WakeQueue>,
}

impl<D: Device> Dispatch<D> {
    pub(super) fn new(device: &D, group: Arc<Group<D>>, state: PassState<D>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            priority: state.scheduler.rt_priority(),
            to_wake: Arc::default(),
            device: device.clone(),
            group,
            lost: OnceLock::new(),
            counts: state.counts.clone(),
            wakes_service: AtomicBool::new(false),
            combiner: Combiner::new(state),
            inbox: ArrayQueue::new(INBOX_CAPACITY),
            service: OnceLock::new(),
            closing: AtomicBool::new(false),
            poll: AtomicBool::new(false),
            polling: AtomicBool::new(false),
            alarm: AtomicU64::new(u64::MAX),
            next_id: AtomicU64::new(0),
        }
    }

    /// Names the service thread, once.
    pub(super) fn served_by(&self, thread: Thread) {
        let _ = self.service.set(thread);
    }

    /// The device's clock serves for everything, so that its events can be compared with ours.
    pub(crate) fn now(&self) -> Duration {
        self.device.clock()
    }

    /// Queues a real-time request and makes the pass that starts it.
    ///
    /// # Errors
    ///
    /// `Cancelled` if the dispatcher is gone; `State` if too many requests wait.
    pub(crate) fn request(&self, request: Request<D>) -> Result<()> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::Cancelled);
        }
        if let Some(error) = self.lost.get() {
            request.ticket.fail(error.clone());
            return Ok(());
        }
        self.inbox
            .push(request)
            .map_err(|_| Error::state("submitting a real-time task", "too many wait"))?;
        self.pass();
        Ok(())
    }

    /// Has the device prepare what the first run of real-time commands would take long for. Not in
    /// a pass, for which everything else would wait.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    pub(crate) fn prepare(&self, commands: &[Command<D>]) -> Result<()> {
        commands.iter().try_for_each(|command| self.device.prepare(command, self.priority))
    }

    /// Makes a pass, or has the thread that makes one make another. Returns after a few passes at
    /// most.
    pub(crate) fn pass(&self) {
        self.combine(MAX_PASSES);
    }

    fn combine(&self, max_passes: usize) {
        let pass = |state: &mut PassState<D>| {
            catch_unwind(AssertUnwindSafe(|| self.pass_inside(state))).unwrap_or_else(|_| {
                // This pass took the device's report and asked for no other, and best-effort work
                // may be held: the next pass, which asks no scheduler, does both.
                let is_first = state.closed.is_none();
                state.close(Error::state("the scheduler", "it panicked"));
                is_first
            })
        };
        self.combiner.combine(max_passes, pass, || self.wake_service());
        self.to_wake.wake(); // after the pass, in which new work has been launched
    }

    /// Has the service thread make the passes that are left. `false`: it has ended.
    fn wake_service(&self) -> bool {
        let serves = !self.closing.load(Ordering::Acquire);
        if serves {
            self.service().unpark();
        }
        serves || self.hangs() // then there are none to make
    }

    /// Changes the state between passes. `None`: a call of the driver in a pass hangs, for which
    /// the device is lost.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut PassState<D>) -> R) -> Option<R> {
        self.with_while(|| !self.hangs(), f)
    }

    /// As [`with`](Self::with), or `None` if a pass lasts until then.
    pub(crate) fn with_until<R>(
        &self,
        limit: Option<Instant>,
        f: impl FnOnce(&mut PassState<D>) -> R,
    ) -> Option<R> {
        let is_over = || limit.is_some_and(|limit| Instant::now() >= limit);
        self.with_while(|| !self.hangs() && !is_over(), f)
    }

    /// As [`with`](Self::with), or `None` if a pass lasts long: for what can do without.
    pub(crate) fn try_with<R>(&self, f: impl FnOnce(&mut PassState<D>) -> R) -> Option<R> {
        self.with_until(Instant::now().checked_add(PASS_TIMEOUT), f)
    }

    fn with_while<R>(
        &self,
        waits: impl Fn() -> bool,
        f: impl FnOnce(&mut PassState<D>) -> R,
    ) -> Option<R> {
        let result = self.combiner.lock(waits, f);
        self.to_wake.wake();
        result
    }

    /// The error of what can't be done because a call of the driver hangs.
    pub(super) fn hang_error(&self) -> Error {
        self.lost.get().cloned().unwrap_or(Error::state("a call of the driver", "it hangs"))
    }

    /// Returns the turns of the threads that make passes.
    pub(super) fn turns(&self) -> &Turns {
        self.combiner.turns()
    }

    /// Returns whether no pass will end a ticket any more.
    pub(crate) fn hangs(&self) -> bool {
        self.to_wake.is_over()
    }

    /// The device is lost: ends best-effort work now, and real-time work in the next pass.
    pub(super) fn note_lost(&self, error: &Error) {
        let error = self.lost.get_or_init(|| error.clone()); // the first reason stays
        self.group.mark_lost(error);
    }

    /// The device is lost, and a call of the driver in a pass hangs: ends all that waits for one.
    #[cold]
    pub(super) fn end_waits(&self, error: &Error) {
        self.note_lost(error);
        self.to_wake.end(&self.hang_error());
        self.to_wake.wake();
    }

    /// Marks the device lost. Calls no driver and waits for a pass for a short time only: real-time
    /// work ends with the next one, or now if it lasts.
    pub(super) fn mark_lost(&self, error: &Error) {
        self.note_lost(error);
        if self.try_with(|state| state.close(self.hang_error())).is_none() {
            self.end_waits(error);
        }
        self.wake_service();
    }

    /// Has the device wake the service thread again, in place of a client that waits no more.
    pub(super) fn return_wakes(&self) {
        self.wakes_service.store(true, Ordering::Release);
        self.pass();
    }

    /// Returns whether a waiting client can leave the passes to the service thread for now.
    pub(crate) fn is_polled(&self) -> bool {
        self.polling.load(Ordering::Acquire)
    }

    /// The thread that makes passes when no client does.
    pub(crate) fn service(&self) -> &Thread {
        self.service.get().expect("set before the state is shared")
    }

    pub(crate) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes back what has not been launched of a task; returns whether there was something.
    pub(crate) fn cancel(&self, task: &Arc<TaskState>) -> bool {
        let is_cancelled = self.with(|state| {
            self.take_requests(state);
            state.rt.cancel(task)
        });
        self.pass(); // for other requests that were taken
        is_cancelled == Some(true)
    }

    /// Puts the requests that came in where the scheduler sees them.
    fn take_requests(&self, state: &mut PassState<D>) {
        while let Some(request) = self.inbox.pop() {
            match &state.closed {
                Some(error) => request.ticket.fail(error.clone()),
                None => state.rt.enqueue(request),
            }
        }
    }

    /// Returns whether there is something new already.
    fn pass_inside(&self, state: &mut PassState<D>) -> bool {
        if self.wakes_service.load(Ordering::Acquire) {
            self.wakes_service.store(false, Ordering::Release);
            state.rt.wake_service();
        }
        self.take_requests(state);
        let again = self.decide_and_apply(state);
        self.set_alarm(state);
        again
    }

    /// Returns whether there is something new already.
    fn decide_and_apply(&self, state: &mut PassState<D>) -> bool {
        let now = self.now();
        if let Some(error) = self.lost.get().filter(|_| state.closed.is_none()) {
            state.close(error.clone());
        }
        let finished = state.rt.note_finished(now);
        state.counts.add_finished(finished);
        state.update_view(now, &self.group);
        self.apply(state)
    }

    fn apply(&self, state: &mut PassState<D>) -> bool {
        self.hold(state);
        let stops_first = self.stops_first(state);
        if stops_first {
            self.stop(state);
        }
        state.hold_neighbours();
        let pads = state.plan.pad && self.device.colocation() == Colocation::Padded;
        let queues = &mut state.queues;
        let mut donors = Donors { group: &self.group, queues, device: &self.device };
        let fed = state.rt.feed(&state.plan.start, pads.then_some(&mut donors));
        if !stops_first {
            self.stop(state);
        }
        state.counts.add_padded(fed.padded, fed.padded_blocks);
        // Taking back costs time on the cores that real-time work wants: only if it is needed.
        let mut again = fed.again;
        let rt_held = state.rt.waiting() > 0 && state.rt.running() == 0;
        let wanted = fed.held_back || rt_held || !state.plan.preempt || state.caps.is_some();
        if wanted && self.group.is_preempted() {
            let before = self.group.is_quiesced();
            again |= self.group.try_quiesce() && !before; // schedulers wait for this
        }
        match self.restore(state) {
            Ok(true) => state.refusals.note_answer(),
            Ok(false) => {}
            Err(error) => self.note_refusal(state, &error),
        }
        state.set_limits();
        again
    }

    /// Returns whether the device is told to stop before real-time work is launched: see
    /// [`Preemptor`](crate::Preemptor).
    fn stops_first(&self, state: &PassState<D>) -> bool {
        let start = &state.plan.start;
        if self.group.calls_driver() {
            self.group.needs_room() || !state.rt.starts_shortly(start)
        } else {
            !state.rt.starts_anew(start)
        }
    }

    /// Holds best-effort work that doesn't run at the planned width. Capped work is stopped before
    /// it is widened.
    fn hold(&self, state: &mut PassState<D>) {
        let (held, caps) = (self.group.is_preempted(), self.group.current_caps());
        let capped = caps.is_some();
        let runs_as_planned = if state.plan.preempt {
            capped && state.caps == caps && !state.are_caps_old(self.now())
        } else {
            !capped
        };
        if held || runs_as_planned {
            return;
        }
        self.group.hold();
        let is_measured = capped && state.caps.is_some();
        if state.plan.preempt && !is_measured {
            state.note_preemption();
        }
    }

    /// Tells the device to stop what it has of a held group, if it hasn't been told. If it refuses,
    /// a later pass tries again.
    fn stop(&self, state: &mut PassState<D>) {
        if self.group.stop().is_err() {
            state.retry_soon();
        }
    }

    /// Restores a held group, if the plan says so and one of its queues can go on; if it is too
    /// early, a worker that quiesces causes a pass. Queues that can't go on yet do so later by
    /// themselves. Returns whether the group goes on: nothing else is an answer of the device.
    fn restore(&self, state: &mut PassState<D>) -> Result<bool> {
        if !self.group.is_preempted() {
            return Ok(true);
        }
        let width = if state.plan.preempt { state.caps } else { None };
        let stays = state.plan.preempt && width.is_none();
        if stays || self.lost.get().is_some() {
            return Ok(false);
        }
        let goes_on = self.group.try_restore_as(width)?;
        if goes_on && width.is_some() {
            state.counts.add_padded(1, 0);
            state.capped_at = self.now();
        }
        Ok(goes_on)
    }

    /// The device refused to restore best-effort work: have another pass try again, or end all of
    /// it.
    #[cold]
    fn note_refusal(&self, state: &mut PassState<D>, error: &Error) {
        if state.refusals.note(state.last_pass) {
            self.note_lost(error);
            state.close(self.hang_error());
        } else {
            state.retry_soon();
        }
    }

    fn set_alarm(&self, state: &PassState<D>) {
        self.poll.store(state.rt.needs_polling(), Ordering::Release);
        let alarm =
            state.plan.wake.map_or(u64::MAX, |at| at.as_nanos().try_into().unwrap_or(u64::MAX));
        let before = self.alarm.swap(alarm, Ordering::AcqRel);
        if alarm < before || state.rt.needs_polling() {
            self.service().unpark();
        }
    }

    /// The service thread.
    pub(super) fn serve(&self) {
        while !self.closing.load(Ordering::Acquire) {
            self.combine(MAX_PASSES);
            if self.hangs() {
                self.polling.store(false, Ordering::Release);
                thread::park_timeout(HANG_POLL_INTERVAL);
                continue;
            }
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
