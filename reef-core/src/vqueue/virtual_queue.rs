//! A queue in front of a hardware queue, which it keeps short.
//!
//! # Who does what
//!
//! The submitter writes into the ring and, if the worker sleeps, wakes it. The worker launches while
//! the gate is open and fewer than [`Config::window`] commands are with the hardware. Preempting
//! raises the device's flag and closes the gate; then the worker, or whoever preempts, takes back
//! what the device lets go of and notes that the queue is *quiesced*. Only the worker launches, and
//! not while the gate is closed, so after that nothing of the queue runs until it is restored.
//!
//! # States
//!
//! | state | gate | device | left by |
//! |---|---|---|---|
//! | running | open | has up to `window` commands | `preempt` |
//! | preempting | closed | running blocks end | taking back, when the device has let go |
//! | preempted (quiesced) | closed | has nothing | `restore` |

use crate::sync::park::{Sleeper, Waiters};
use crate::sync::ring::{Cursors, ring};
use crate::vqueue::config::Config;
use crate::vqueue::group::Group;
use crate::vqueue::launcher::Lane;
use crate::vqueue::submitter::Submitter;
use crate::vqueue::worker::{CANCEL, FINISH, GO_ON, Pace, spawn};
use crate::{Command, Device, Error, Priority, Queue, Result};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};

/// What the submitter, the worker and the scheduler share.
#[derive(Debug)]
pub(crate) struct Shared<D: Device> {
    pub(crate) lane: Mutex<Lane<D>>,
    pub(crate) cursors: Cursors<Command<D>>,
    /// Commands before this position may be launched. Written by the scheduler.
    pub(crate) limit: AtomicU64,
    /// The queue is being preempted or is. Written by its group.
    pub(crate) held: AtomicBool,
    /// The device has nothing of the queue. Written under the lane's lock, cleared by the group.
    pub(crate) quiesced: AtomicBool,
    /// Commands that are launched again because of preemptions. Written under the lane's lock.
    pub(crate) rerun: AtomicU64,
    pub(crate) idle: AtomicBool,
    pub(crate) stop: AtomicU8,
    pub(crate) sleeper: Sleeper,
    pub(crate) worker: OnceLock<Thread>,
    pub(crate) waiters: Waiters,
    /// Unparked when the queue quiesces, runs out of work, or gets work again.
    pub(crate) listener: OnceLock<Thread>,
    /// The listener wants to hear of the next submission.
    pub(crate) watch: AtomicBool,
    /// The error that ended the worker.
    pub(crate) failed: OnceLock<Error>,
}

impl<D: Device> Shared<D> {
    pub(crate) fn launch_limit(&self) -> u64 {
        if self.held.load(Ordering::Acquire) { 0 } else { self.limit.load(Ordering::Acquire) }
    }

    /// Closes the gate because of a preemption. The worker is not woken: see [`Self::nudge`].
    pub(crate) fn hold(&self) {
        self.quiesced.store(false, Ordering::Relaxed);
        self.held.store(true, Ordering::SeqCst);
    }

    /// Opens the gate again, and wakes the worker if it has work.
    pub(crate) fn release(&self) {
        self.quiesced.store(false, Ordering::Relaxed);
        self.held.store(false, Ordering::SeqCst);
        self.waiters.notify();
        fence(Ordering::SeqCst); // a submission that we don't see finds the worker at the open gate
        let (completed, submitted) = self.cursors();
        if completed < submitted {
            self.nudge();
        }
    }

    /// Takes back what the held queue has on the device, if nobody else is at it, on this thread.
    ///
    /// Otherwise the worker does so when the device lets go, and tells the listener.
    pub(crate) fn try_quiesce(&self) {
        if self.quiesced.load(Ordering::Acquire) {
            return;
        }
        // The worker may have looked at the gate before it closed, and be about to wait for a device
        // that does nothing any more.
        let Some(mut lane) = self.lane.try_lock() else { return self.nudge() };
        if !self.reclaim(&mut lane).unwrap_or(false) {
            drop(lane);
            self.nudge(); // it may sleep: the rest, and an error, are its to find
        }
    }

    /// Takes back what the held queue has on the device, once. Returns whether it is quiesced.
    pub(crate) fn reclaim(&self, lane: &mut Lane<D>) -> Result<bool> {
        if self.quiesced.load(Ordering::Acquire) {
            return Ok(true); // by somebody who had the lane before
        }
        let Some(rerun) = lane.try_reclaim()? else { return Ok(false) };
        self.note_quiesced(rerun);
        Ok(true)
    }

    /// Call with the lane locked, so that nothing is launched between the look and the note.
    pub(crate) fn note_quiesced(&self, rerun: u64) {
        self.rerun.fetch_add(rerun, Ordering::Relaxed);
        self.quiesced.store(true, Ordering::Release);
        self.waiters.notify();
    }

    /// Makes the worker look at the gate.
    pub(crate) fn nudge(&self) {
        if let Some(worker) = self.worker.get() {
            worker.unpark();
        }
    }

    /// Nothing of the held queue is on the device. A queue that ended has nothing either.
    pub(crate) fn is_quiesced(&self) -> bool {
        self.quiesced.load(Ordering::Acquire) || self.failed.get().is_some()
    }

    /// Blocks until the held queue is quiesced.
    pub(crate) fn wait_quiesced(&self) {
        self.waiters.wait_until(|| self.is_quiesced() || !self.held.load(Ordering::Acquire));
    }

    /// Sets how far commands may be launched, and wakes the worker if that opens the gate.
    pub(crate) fn set_limit(&self, limit: u64) {
        if self.limit.swap(limit, Ordering::AcqRel) < limit {
            self.nudge();
        }
    }

    /// How far commands have completed and been submitted.
    pub(crate) fn cursors(&self) -> (u64, u64) {
        self.cursors.read()
    }

    /// Asks for the listener to be told of the next submission.
    pub(crate) fn watch(&self) {
        self.watch.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst); // steps 1 and 2 of `wake.rs`; the submitter's are 3 and 4
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Acquire)
    }

    pub(crate) fn failed(&self) -> Option<&Error> {
        self.failed.get()
    }

    /// Tells waiting clients that commands have completed.
    pub(crate) fn notify(&self) {
        self.waiters.notify();
    }

    pub(crate) fn tell_listener(&self) {
        if let Some(listener) = self.listener.get() {
            listener.unpark();
        }
    }

    pub(crate) fn end(&self, error: Error) {
        let _ = self.failed.set(error); // the first error stays
        self.waiters.notify();
        self.tell_listener();
    }
}

/// A queue in front of a hardware queue, which it keeps short so that preemption is quick.
///
/// This is the scheduler's end; commands enter at the [`Submitter`]. Dropping it cancels what has
/// not been launched and waits for what has.
#[derive(Debug)]
pub struct VirtualQueue<D: Device> {
    shared: Arc<Shared<D>>,
    group: Arc<Group<D>>,
    worker: Option<JoinHandle<()>>,
}

impl<D: Device> VirtualQueue<D> {
    /// Makes a preemptible queue on `device`, with a preemptor of its own.
    ///
    /// # Errors
    ///
    /// `Level` if the device is not as deep as `config.level`, `Invalid` for sizes that contradict
    /// each other, the driver's.
    pub fn enable(device: &D, config: Config) -> Result<(Submitter<D>, Self)> {
        Group::open(device, config.level)?.enable(config)
    }

    /// Makes a queue that is preempted together with the others of `group`.
    pub(crate) fn enable_in(
        group: &Arc<Group<D>>,
        config: Config,
        listener: Option<Thread>,
    ) -> Result<(Submitter<D>, Self)> {
        config.check()?;
        let (producer, consumer) = ring(config.capacity);
        let mut queue = group.device().queue(Priority::BestEffort, Some(group.preemptor()))?;
        let (worker, start) = spawn::<D>()?;
        let wakes = queue.wake(worker.thread().clone());
        let cursors = consumer.cursors();
        let shared = Arc::new(Shared {
            lane: Mutex::new(Lane::new(queue, consumer, config.window, config.batch)),
            cursors,
            // A dispatcher opens the gate in its next turn.
            limit: AtomicU64::new(if listener.is_some() { 0 } else { u64::MAX }),
            held: AtomicBool::new(false),
            quiesced: AtomicBool::new(false),
            rerun: AtomicU64::new(0),
            idle: AtomicBool::new(false),
            stop: AtomicU8::new(GO_ON),
            sleeper: Sleeper::default(),
            worker: OnceLock::from(worker.thread().clone()),
            waiters: Waiters::default(),
            listener: listener.map_or_else(OnceLock::new, OnceLock::from),
            watch: AtomicBool::new(false),
            failed: OnceLock::new(),
        });
        group.join(&shared);
        let _ = start.send((shared.clone(), Pace { wakes, config })); // the worker waits for it
        let submitter = Submitter { commands: producer, shared: shared.clone(), spin: config.spin };
        Ok((submitter, Self { shared, group: group.clone(), worker: Some(worker) }))
    }

    /// The queues that this one is preempted with.
    pub fn group(&self) -> &Arc<Group<D>> {
        &self.group
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<D>> {
        &self.shared
    }

    /// Stops the queue as deep as [`Config::level`]; later commands wait until [`restore`](Self::restore).
    ///
    /// With `sync` it returns when the device confirms that nothing of the queue runs, without at once.
    ///
    /// # Errors
    ///
    /// `State` if the queue is preempted already or shares its preemptor with others; the device's.
    pub fn preempt(&self, sync: bool) -> Result<()> {
        self.alone()?;
        self.group.preempt(sync)
    }

    /// Lets the queue go on where it was stopped.
    ///
    /// # Errors
    ///
    /// `State` if it is not preempted or shares its preemptor with others; the device's.
    pub fn restore(&self) -> Result<()> {
        self.alone()?;
        self.group.restore()
    }

    fn alone(&self) -> Result<()> {
        match self.group.len() {
            1 => Ok(()),
            _ => Err(Error::State("the queue shares its preemptor: preempt its group")),
        }
    }

    /// Commands that were launched again because of preemptions.
    pub fn rerun(&self) -> u64 {
        self.shared.rerun.load(Ordering::Relaxed)
    }

    /// Whether the queue had no work for [`Config::idle_timeout`]. `false` if that is off.
    pub fn is_idle(&self) -> bool {
        self.shared.is_idle()
    }

    /// Ends the queue, which must have no work left.
    ///
    /// # Errors
    ///
    /// `Busy` with the numbers if it has, together with the queue; `State` if it is preempted.
    #[allow(clippy::result_large_err)] // the queue comes back by value, that is the point
    pub fn disable(self) -> Result<(), (Error, Self)> {
        match self.work_left() {
            Ok(()) => Ok(()), // dropping it does the rest
            Err(error) => Err((error, self)),
        }
    }

    fn work_left(&self) -> Result<()> {
        if self.shared.held.load(Ordering::Acquire) {
            return Err(Error::State("disabling a preempted queue: restore it first"));
        }
        let lane = self.shared.lane.lock();
        let (completed, submitted) = self.shared.cursors();
        let in_flight = lane.commands.in_flight();
        match submitted - completed {
            0 => Ok(()),
            left => Err(Error::Busy { waiting: left - in_flight, in_flight }),
        }
    }

    /// Finishes all commands that were submitted, then ends the queue. Blocks.
    ///
    /// # Errors
    ///
    /// The error that ended the queue before; `State` if it is preempted, which cancels what waits.
    pub fn finish(mut self) -> Result<()> {
        if self.shared.held.load(Ordering::Acquire) {
            return Err(Error::State("finishing a preempted queue: restore it first"));
        }
        self.shared.set_limit(u64::MAX);
        self.stop(FINISH);
        self.shared.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    fn stop(&mut self, how: u8) {
        let Some(worker) = self.worker.take() else { return };
        self.shared.stop.store(how, Ordering::SeqCst);
        worker.thread().unpark();
        let _ = worker.join(); // a panic has already been printed
        self.group.leave(&self.shared);
    }
}

impl<D: Device> Drop for VirtualQueue<D> {
    fn drop(&mut self) {
        self.stop(CANCEL);
        self.shared.end(Error::Cancelled);
    }
}
