//! A queue in front of a hardware queue, which it keeps short.
//!
//! # Who does what
//!
//! The submitter writes into the ring and, if the worker sleeps, wakes it. The worker launches while
//! the gate is open and fewer than [`Config::window`] commands are with the hardware. Preempting
//! raises the device's flag and closes the gate; then the worker, or whoever preempts, takes back
//! what the device lets go of and notes that the queue is *settled*. Only the worker launches, and
//! not while the gate is closed, so after that nothing of the queue runs until it is restored.
//!
//! # States
//!
//! | state | gate | device | left by |
//! |---|---|---|---|
//! | running | open | has up to `window` commands | `preempt` |
//! | preempting | closed | running blocks end | taking back, when the device has let go |
//! | preempted (settled) | closed | has nothing | `restore` |

use crate::group::Group;
use crate::lane::{Lane, Step, Waits};
use crate::ring::{Cursors, Producer, ring};
use crate::wake::{Sleeper, Waiters};
use crate::{Command, Device, Error, PreemptLevel, Priority, Queue, Result, Seq};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Sizes and times of a virtual queue.
///
/// The names in brackets are those of REEF's CUDA port (`RFconfig`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Commands that can wait, a power of two.
    pub capacity: usize,
    /// Commands with the hardware at once (`queueSize`). Small is quick to preempt; 1 leaves gaps.
    pub window: u64,
    /// Commands launched at a time (`batchSize`), at most `window`.
    pub batch: u64,
    /// The queue counts as idle when it had no work for this long (`taskTimeout`; `None` is the
    /// port's negative value): see [`VirtualQueue::is_idle`].
    pub idle_timeout: Option<Duration>,
    /// How deep [`VirtualQueue::preempt`] reaches (`preemptLevel`).
    pub level: PreemptLevel,
    /// How long an idle worker and a waiting client look for news before they sleep.
    pub spin: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            capacity: 1024,
            window: 4,
            batch: 1,
            idle_timeout: None,
            level: PreemptLevel::HostQueue,
            spin: Duration::from_micros(20),
        }
    }
}

impl Config {
    fn check(&self) -> Result<()> {
        if !self.capacity.is_power_of_two() {
            let text = format!("capacity must be a power of two, got {}", self.capacity);
            return Err(Error::Invalid(text));
        }
        if self.batch == 0 || self.window < self.batch {
            let (batch, window) = (self.batch, self.window);
            let text = format!("batch must be in 1..=window, got batch {batch}, window {window}");
            return Err(Error::Invalid(text));
        }
        if self.window > MOST_WINDOW {
            let text = format!("window must be at most {MOST_WINDOW}, got {}", self.window);
            return Err(Error::Invalid(text));
        }
        Ok(())
    }
}

/// Far more than any device takes, and sums of two don't overflow.
const MOST_WINDOW: u64 = 1 << 32;

/// Values of [`Shared::stop`].
const GO_ON: u8 = 0;
/// Finish all commands, then end.
const FINISH: u8 = 1;
/// Let the device finish what it has, then end.
const CANCEL: u8 = 2;

/// What the submitter, the worker and the scheduler share.
#[derive(Debug)]
pub(crate) struct Shared<D: Device> {
    pub(crate) lane: Mutex<Lane<D>>,
    cursors: Cursors<Command<D>>,
    /// Commands before this position may be launched. Written by the scheduler.
    limit: AtomicU64,
    /// The queue is being preempted or is. Written by its group.
    held: AtomicBool,
    /// The device has nothing of the queue. Written under the lane's lock, cleared by the group.
    settled: AtomicBool,
    /// Commands that are launched again because of preemptions. Written by the worker.
    rerun: AtomicU64,
    idle: AtomicBool,
    stop: AtomicU8,
    sleeper: Sleeper,
    worker: OnceLock<Thread>,
    waiters: Waiters,
    /// Unparked when the queue settles, runs out of work, or gets work again.
    listener: OnceLock<Thread>,
    /// The listener wants to hear of the next submission.
    watch: AtomicBool,
    /// The error that ended the worker.
    failed: OnceLock<Error>,
}

impl<D: Device> Shared<D> {
    fn gate(&self) -> u64 {
        if self.held.load(Ordering::Acquire) { 0 } else { self.limit.load(Ordering::Acquire) }
    }

    /// Closes the gate because of a preemption. The worker is not woken: see [`Self::nudge`].
    pub(crate) fn hold(&self) {
        self.settled.store(false, Ordering::Relaxed);
        self.held.store(true, Ordering::SeqCst);
    }

    /// Opens the gate again, and wakes the worker if it has work.
    pub(crate) fn release(&self) {
        self.settled.store(false, Ordering::Relaxed);
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
    pub(crate) fn try_settle(&self) {
        if self.settled.load(Ordering::Acquire) {
            return;
        }
        // The worker may have looked at the gate before it closed, and be about to wait for a device
        // that does nothing any more.
        let Some(mut lane) = self.lane.try_lock() else { return self.nudge() };
        if let Ok(Some(rerun)) = lane.try_reclaim() {
            self.note_settled(rerun);
        }
    }

    /// Call with the lane locked, so that nothing is launched between the look and the note.
    fn note_settled(&self, rerun: u64) {
        self.rerun.fetch_add(rerun, Ordering::Relaxed);
        self.settled.store(true, Ordering::Release);
        self.waiters.notify();
    }

    /// Makes the worker look at the gate.
    pub(crate) fn nudge(&self) {
        if let Some(worker) = self.worker.get() {
            worker.unpark();
        }
    }

    /// Nothing of the held queue is on the device. A queue that ended has nothing either.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire) || self.failed.get().is_some()
    }

    /// Blocks until the held queue is settled.
    pub(crate) fn wait_settled(&self) {
        self.waiters.wait_until(|| self.is_settled() || !self.held.load(Ordering::Acquire));
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

    fn tell_listener(&self) {
        if let Some(listener) = self.listener.get() {
            listener.unpark();
        }
    }

    fn end(&self, error: Error) {
        let _ = self.failed.set(error); // the first error stays
        self.waiters.notify();
        self.tell_listener();
    }
}

/// Where commands enter a virtual queue. One thread submits; another may preempt meanwhile.
#[derive(Debug)]
pub struct Submitter<D: Device> {
    commands: Producer<Command<D>>,
    shared: Arc<Shared<D>>,
    spin: Duration,
}

impl<D: Device> Submitter<D> {
    /// Adds a command and returns its position, or gives it back if the queue is full.
    ///
    /// Never blocks and never allocates; also works while the queue is preempted. Commands of a
    /// queue that has ended are accepted and never run; [`wait`](Self::wait) says so.
    ///
    /// # Errors
    ///
    /// The command, if `capacity` commands have not completed yet.
    #[inline]
    #[allow(clippy::result_large_err)] // the command comes back by value, that is the point
    pub fn submit(&mut self, command: Command<D>) -> Result<Seq, Command<D>> {
        let at = self.commands.push(command)?;
        if let Some(worker) = self.shared.worker.get() {
            self.shared.sleeper.wake(worker);
        }
        if self.shared.watch.load(Ordering::Relaxed) {
            self.watched();
        }
        Ok(Seq(at))
    }

    #[cold]
    fn watched(&self) {
        if self.shared.watch.swap(false, Ordering::AcqRel) {
            self.shared.tell_listener();
        }
    }

    /// Adds a command, waiting for room if the queue is full.
    ///
    /// # Errors
    ///
    /// The error that ended the queue.
    pub fn submit_blocking(&mut self, command: Command<D>) -> Result<Seq> {
        let mut command = command;
        loop {
            if let Some(error) = self.shared.failed.get() {
                return Err(error.clone());
            }
            match self.submit(command) {
                Ok(seq) => return Ok(seq),
                Err(back) => command = back,
            }
            self.wait(Seq(self.commands.completed()))?;
        }
    }

    /// Commands that have been submitted.
    pub fn submitted(&self) -> Seq {
        Seq(self.commands.submitted())
    }

    /// All commands before this position have finished.
    pub fn completed(&self) -> Seq {
        Seq(self.commands.completed())
    }

    /// Blocks until the command at `seq` has finished.
    ///
    /// # Errors
    ///
    /// The error that ended the queue; `Invalid` if `seq` was never submitted.
    pub fn wait(&self, seq: Seq) -> Result<()> {
        self.check_submitted(seq)?;
        if !spin_until(self.spin, || self.is_over(seq)) {
            self.shared.waiters.wait_until(|| self.is_over(seq));
        }
        self.how(seq)
    }

    /// As [`wait`](Self::wait), for no longer than `time`. Returns whether it has finished.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_for(&self, seq: Seq, time: Duration) -> Result<bool> {
        self.check_submitted(seq)?;
        let Some(end) = Instant::now().checked_add(time) else {
            return self.wait(seq).map(|()| true);
        };
        let over = self.shared.waiters.wait_until_or(end, || self.is_over(seq));
        self.how(seq).map(|()| over)
    }

    fn check_submitted(&self, seq: Seq) -> Result<()> {
        if seq < self.submitted() {
            return Ok(());
        }
        let text = format!("waiting for command {}, {} submitted", seq.0, self.submitted().0);
        Err(Error::Invalid(text))
    }

    /// Whether the command has finished or never will.
    fn is_over(&self, Seq(at): Seq) -> bool {
        self.commands.completed() > at || self.shared.failed.get().is_some()
    }

    fn how(&self, Seq(at): Seq) -> Result<()> {
        match self.shared.failed.get() {
            Some(error) if self.commands.completed() <= at => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

/// Looks for up to `time`, and keeps the core; returns whether `over` came to hold.
pub(crate) fn spin_until(time: Duration, over: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..32 {
            if over() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() >= time {
            return over();
        }
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
            settled: AtomicBool::new(false),
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

/// How a worker waits.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// The device unparks the worker when something completes.
    wakes: bool,
    config: Config,
}

type Start<D> = std::sync::mpsc::Sender<(Arc<Shared<D>>, Pace)>;

/// Starts a worker that waits for what it shall work on: the queue wants its handle first.
fn spawn<D: Device>() -> Result<(JoinHandle<()>, Start<D>)> {
    let (start, started) = std::sync::mpsc::channel::<(Arc<Shared<D>>, Pace)>();
    let worker = thread::Builder::new().name(format!("reef-{}-queue", D::NAME)).spawn(move || {
        let Ok((shared, pace)) = started.recv() else { return };
        let result = catch_unwind(AssertUnwindSafe(|| work(&shared, pace)));
        match result {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let_device_finish(&shared);
                shared.end(error);
            }
            Err(_) => shared.end(Error::State("a queue's worker panicked")),
        }
    });
    let worker = worker.map_err(|e| Error::Invalid(format!("no thread for a queue: {e}")))?;
    Ok((worker, start))
}

/// The worker: launch what fits, note what finished, take back what was preempted, else sleep.
fn work<D: Device>(shared: &Shared<D>, pace: Pace) -> Result<()> {
    let mut spinning_since = None;
    loop {
        let waits =
            if shared.held.load(Ordering::Acquire) { settle(shared)? } else { pass(shared)? };
        let stop = shared.stop.load(Ordering::Acquire);
        if stop != GO_ON && is_over(shared, stop) {
            return Ok(());
        }
        match waits {
            Waits::Device if pace.wakes => thread::park(),
            Waits::Either if pace.wakes => {
                shared.sleeper.sleep_unless(|| has_work(shared), thread::park);
            }
            Waits::Device | Waits::Either | Waits::Nothing => std::hint::spin_loop(),
            Waits::Event => thread::park_timeout(Duration::from_micros(20)),
            Waits::Commands => {
                let since = *spinning_since.get_or_insert_with(Instant::now);
                if since.elapsed() < pace.config.spin {
                    std::hint::spin_loop();
                    continue;
                }
                sleep(shared, &pace.config);
            }
        }
        spinning_since = None;
    }
}

/// After an error nothing more is launched, but what the device has must not outlive the queue.
fn let_device_finish<D: Device>(shared: &Shared<D>) {
    loop {
        let mut lane = shared.lane.lock();
        let quiet = if shared.held.load(Ordering::Acquire) {
            lane.try_reclaim().map(|reclaimed| reclaimed.is_some())
        } else {
            lane.is_quiet()
        };
        match quiet {
            Ok(false) => drop(lane),
            Ok(true) | Err(_) => return, // a queue that says so again has nothing running
        }
        thread::park_timeout(Duration::from_micros(50));
    }
}

/// Launches and notes completions.
fn pass<D: Device>(shared: &Shared<D>) -> Result<Waits> {
    let cancelled = shared.stop.load(Ordering::Acquire) == CANCEL;
    let Step { completed, waits } =
        shared.lane.lock().step(|| if cancelled { 0 } else { shared.gate() })?;
    if completed {
        shared.waiters.notify();
    }
    Ok(waits)
}

/// Takes back what a held queue has on the device.
fn settle<D: Device>(shared: &Shared<D>) -> Result<Waits> {
    if shared.settled.load(Ordering::Acquire) {
        return Ok(Waits::Commands);
    }
    let mut lane = shared.lane.lock();
    let Some(rerun) = lane.try_reclaim()? else {
        return Ok(Waits::Device);
    };
    shared.note_settled(rerun);
    shared.tell_listener();
    Ok(Waits::Commands)
}

/// Whether a worker that was told to stop has nothing left to do.
fn is_over<D: Device>(shared: &Shared<D>, stop: u8) -> bool {
    let mut lane = shared.lane.lock();
    lane.commands.in_flight() == 0 && (stop == CANCEL || lane.commands.next().is_none())
}

#[cold]
fn sleep<D: Device>(shared: &Shared<D>, config: &Config) {
    shared.tell_listener();
    let ready = || has_work(shared);
    match config.idle_timeout {
        None => shared.sleeper.sleep_unless(ready, thread::park),
        Some(time) => {
            let start = Instant::now();
            shared.sleeper.sleep_unless(ready, || thread::park_timeout(time));
            if start.elapsed() >= time && !has_work(shared) {
                shared.idle.store(true, Ordering::Release);
                shared.tell_listener();
                shared.sleeper.sleep_unless(ready, thread::park);
            }
            shared.idle.store(false, Ordering::Release);
        }
    }
}

/// Whether there is something that a worker can do now.
fn has_work<D: Device>(shared: &Shared<D>) -> bool {
    let stop = shared.stop.load(Ordering::Acquire);
    if shared.held.load(Ordering::Acquire) {
        return stop == CANCEL || !shared.settled.load(Ordering::Acquire);
    }
    stop != GO_ON || shared.lane.lock().commands.next().is_some_and(|(at, _)| at < shared.gate())
}
