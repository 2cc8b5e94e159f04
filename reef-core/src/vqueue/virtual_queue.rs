//! Virtual queue: feeds a hardware queue and keeps it short.
//!
//! # Threads
//!
//! The submitter writes into the ring and, if the worker sleeps, wakes it. The worker launches
//! while the queue is not held and fewer than [`Config::window`] commands are with the hardware.
//! Preempting holds the queue and raises the device's flag; then the worker, or the thread that
//! preempts, takes back what the device has stopped and notes that the queue is *quiesced*. Only
//! the worker launches, and not while the queue is held, so after that nothing of the queue runs
//! until it is restored.
//!
//! # States
//!
//! | state | launches | device | left by |
//! |---|---|---|---|
//! | running | yes | has up to `window` commands | `preempt` |
//! | preempting | no | running blocks end | taking back, when the device has stopped; `restore`: it lags |
//! | lagging | no | running blocks end, and the group was restored | as `preempting`: it launches then |
//! | preempted (quiesced) | no | has nothing | `restore`; `park`, which ends it |

use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::{PreemptLevel, Priority};
use crate::backend::queue::Queue;
use crate::sync::ring::ring_at;
use crate::sync::turns::Watch;
use crate::vqueue::config::Config;
use crate::vqueue::group::Group;
use crate::vqueue::launcher::Launcher;
use crate::vqueue::parked::Parked;
use crate::vqueue::shared::{Shared, Shutdown};
use crate::vqueue::submitter::Submitter;
use crate::vqueue::worker::{Pace, spawn};
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// Feeds a hardware queue and keeps it short, so that preemption is quick.
///
/// This is the scheduler's end; commands enter at the [`Submitter`]. Dropping it cancels what has
/// not been launched and waits for what has: no longer than [`Config::drain_timeout`] without
/// progress, also if a call of the driver hangs. What is left of the queue then ends by itself, and
/// keeps its memory until it does.
///
/// ```
/// use reef_core::{Command, Config, Device, PreemptLevel, Result, VirtualQueue};
///
/// fn pause<D: Device>(device: &D, first: Command<D>, second: Command<D>) -> Result<()> {
///     let config = Config::default().window(2).level(PreemptLevel::All);
///     let (mut submitter, queue) = VirtualQueue::enable(device, config)?;
///     submitter.submit_blocking(first)?;
///     let last = submitter.submit_blocking(second)?;
///     queue.preempt(true)?; // returns when nothing of the queue runs
///     println!("the device is free");
///     queue.restore()?; // goes on at the block where it stopped
///     submitter.wait(last)
/// }
/// ```
#[derive(Debug)]
pub struct VirtualQueue<D: Device> {
    shared: Arc<Shared<D>>,
    group: Arc<Group<D>>,
    worker: Option<JoinHandle<()>>,
    drain_timeout: Option<Duration>,
}

impl<D: Device> VirtualQueue<D> {
    /// Makes a preemptible queue on `device`, with a preemptor of its own.
    ///
    /// # Errors
    ///
    /// `Level` if the device is not as deep as `config.level`, `Invalid` for sizes that contradict
    /// each other, an error of the driver.
    pub fn enable(device: &D, config: Config) -> Result<(Submitter<D>, Self)> {
        Group::open(device, config.level)?.enable(config)
    }

    /// As [`enable`](Self::enable), with the commands that a parked queue had left. Their positions
    /// are what they were.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`enable`](Self::enable); `Invalid` if they are more than
    /// `config.capacity`; the errors of [`Device::checkpoint_of`].
    pub fn enable_parked(
        device: &D,
        config: Config,
        parked: Parked<D>,
    ) -> Result<(Submitter<D>, Self)> {
        Group::open(device, config.level)?.enable_parked(config, parked)
    }

    /// Takes the commands off a preempted queue, and ends it. Nothing is waited for.
    ///
    /// # Errors
    ///
    /// Together with both ends of the queue, which is as before: `State` if the queue is not
    /// preempted, if the device has not confirmed that nothing of it runs
    /// ([`preempt`](Self::preempt) with `sync` waits for that) or keeps its launches, or if the
    /// submitter is that of another queue; `Invalid` with the position of a host function or an
    /// event; the errors of [`Device::blocks`]; the error that ended the queue.
    #[allow(clippy::result_large_err)] // the queue comes back by value, that is the point
    pub fn park(self, submitter: Submitter<D>) -> Result<Parked<D>, (Error, Submitter<D>, Self)> {
        match self.try_park(&submitter) {
            Ok(parked) => Ok(parked),
            Err(error) => Err((error, submitter, self)),
        }
    }

    fn try_park(&self, submitter: &Submitter<D>) -> Result<Parked<D>> {
        self.shared.failed().map_or(Ok(()), |error| Err(error.clone()))?;
        if !Arc::ptr_eq(&self.shared, &submitter.shared) {
            return Err(Error::state("parking a queue", "the submitter is of another queue"));
        }
        if !self.is_preempted() {
            return Err(Error::state("parking a queue", "it runs: preempt it first"));
        }
        if !self.shared.is_quiesced() {
            return Err(Error::state("parking a queue", "its work has not stopped yet"));
        }
        self.take_commands()
    }

    /// Takes all commands out of a queue that launches nothing.
    pub(crate) fn take_commands(&self) -> Result<Parked<D>> {
        self.shared.launcher().park(self.group.device())
    }

    /// The queues that this one is preempted with.
    pub fn group(&self) -> &Arc<Group<D>> {
        &self.group
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<D>> {
        &self.shared
    }

    /// Stops the queue as deep as [`Config::level`]; later commands wait until
    /// [`restore`](Self::restore).
    ///
    /// With `sync` it returns when the device confirms that nothing of the queue runs, without it
    /// at once.
    ///
    /// # Errors
    ///
    /// `State` if the queue is preempted already or shares its preemptor with others; an error of
    /// the device.
    pub fn preempt(&self, sync: bool) -> Result<()> {
        self.check_alone()?;
        self.group.preempt(sync)
    }

    /// Lets the queue go on where it was stopped, when its work on the device has been taken back.
    /// Doesn't block.
    ///
    /// # Errors
    ///
    /// `State` if it is not preempted or shares its preemptor with others; an error of the device.
    pub fn restore(&self) -> Result<()> {
        self.check_alone()?;
        self.group.restore()
    }

    fn check_alone(&self) -> Result<()> {
        match self.group.len() {
            1 => Ok(()),
            _ => Err(Error::state(
                "preempting a queue",
                "it shares its preemptor: preempt its group",
            )),
        }
    }

    /// Returns whether it waits to be restored.
    fn is_preempted(&self) -> bool {
        self.shared.is_preempted()
    }

    /// Returns the number of commands that were launched again because of preemptions.
    pub fn rerun(&self) -> u64 {
        self.shared.rerun()
    }

    /// Ends the queue, which must have no work left.
    ///
    /// # Errors
    ///
    /// `Busy` with the numbers if it has, together with the queue; `State` if it is preempted. All
    /// that is left counts as in flight while the worker is in a call of the driver that lasts.
    #[allow(clippy::result_large_err)] // the queue comes back by value, that is the point
    pub fn disable(self) -> Result<(), (Error, Self)> {
        match self.work_left() {
            Ok(()) => Ok(()), // dropping it does the rest
            Err(error) => Err((error, self)),
        }
    }

    fn work_left(&self) -> Result<()> {
        if self.is_preempted() {
            return Err(Error::state("disabling a queue", "it is preempted: restore it first"));
        }
        // A worker that hangs in a call has it for ever.
        let launcher = self.shared.launcher_within(CALL_TIMEOUT);
        let (completed, submitted) = self.shared.cursors();
        let left = submitted - completed;
        let in_flight = launcher.map_or(left, |launcher| launcher.commands.in_flight());
        match left {
            0 => Ok(()),
            left => Err(Error::Busy { waiting: left - in_flight, in_flight }),
        }
    }

    /// Finishes all commands that were submitted, then ends the queue. Blocks.
    ///
    /// # Errors
    ///
    /// The error that ended the queue before; `State` if it is preempted or its own host code
    /// calls, which cancels what waits.
    pub fn finish(mut self) -> Result<()> {
        if self.is_preempted() {
            return Err(Error::state("finishing a queue", "it is preempted: restore it first"));
        }
        if self.shared.is_worker() {
            return Err(Error::state("finishing a queue", "its own host code asks for it"));
        }
        self.shared.set_limit(u64::MAX);
        self.stop(Shutdown::Drain);
        self.shared.failed().map_or(Ok(()), |error| Err(error.clone()))
    }

    fn stop(&mut self, shutdown: Shutdown) {
        let Some(worker) = self.worker.take() else { return };
        self.shared.shut_down(shutdown);
        if self.shared.is_worker() {
            // Host code of the queue ends it, and the worker ends after that.
        } else if self.wait_for_worker() {
            let _ = worker.join(); // a panic has already been printed
        } else {
            self.shared.leave_alone();
        }
        self.group.leave(&self.shared);
    }

    /// Waits until the worker has ended. `false`: it hangs in the device, or the device was given
    /// up or the queue abandoned, so that none waits for what it has. The worker then ends by
    /// itself, or never, and keeps what the device may use.
    fn wait_for_worker(&self) -> bool {
        let mut watch = Watch::default();
        loop {
            let has_failed = self.shared.failed().is_some(); // first: a loss is an error, too
            let is_lost = self.group.is_lost() || self.shared.is_abandoned();
            let interval = match self.drain_timeout {
                _ if is_lost => LOST_TIMEOUT,
                Some(limit) => (limit / Watch::SAMPLES).max(MIN_WATCH_INTERVAL),
                None => WATCH_INTERVAL,
            };
            if self.shared.wait_for_worker(interval, has_failed) {
                return true;
            }
            let hangs = self.drain_timeout.is_some() && watch.sample(self.shared.calls());
            if is_lost || hangs {
                return false;
            }
        }
    }
}

/// Time for which a queue that was abandoned, or its device, is waited for: it may have nothing
/// there.
const LOST_TIMEOUT: Duration = Duration::from_millis(100);

/// Time for which a worker that is in a call of the driver is waited for: calls take less, unless
/// the device has no room or hangs.
const CALL_TIMEOUT: Duration = Duration::from_millis(100);

/// Interval at which a thread that ends a queue checks whether the worker hangs.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
const MIN_WATCH_INTERVAL: Duration = Duration::from_millis(1);

impl<D: Device> Group<D> {
    /// Makes a queue in this group. `config.level` is not used: the queue has the group's level.
    ///
    /// # Errors
    ///
    /// `Invalid` for sizes that contradict each other; the error with which the group was lost; an
    /// error of the driver.
    pub fn enable(self: &Arc<Self>, config: Config) -> Result<(Submitter<D>, VirtualQueue<D>)> {
        self.enable_with(config, None, Parked::empty())
    }

    /// As [`enable`](Self::enable), with the commands that a parked queue had left.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`enable`](Self::enable); `Invalid` if the commands are more than
    /// `config.capacity`; the errors of [`Device::checkpoint_of`].
    pub fn enable_parked(
        self: &Arc<Self>,
        config: Config,
        parked: Parked<D>,
    ) -> Result<(Submitter<D>, VirtualQueue<D>)> {
        self.enable_with(config, None, parked)
    }

    /// As [`enable_parked`](Self::enable_parked), with a thread that is told of changes.
    pub(crate) fn enable_watched(
        self: &Arc<Self>,
        config: Config,
        listener: Thread,
        parked: Parked<D>,
    ) -> Result<(Submitter<D>, VirtualQueue<D>)> {
        self.enable_with(config, Some(listener), parked)
    }

    fn enable_with(
        self: &Arc<Self>,
        config: Config,
        listener: Option<Thread>,
        parked: Parked<D>,
    ) -> Result<(Submitter<D>, VirtualQueue<D>)> {
        config.check()?;
        let record = record_of(self.device(), &parked)?;
        let (mut producer, consumer) = ring_at(config.capacity, parked.completed().0);
        for command in parked.commands() {
            producer.push(command.clone()).map_err(|_| too_many(&config, &parked))?;
        }
        let mut queue = self.device().queue(Priority::BestEffort, Some(self.preemptor()))?;
        let (worker, start) = spawn::<D>()?;
        let wakes = queue.wake(worker.thread().clone());
        let cursors = consumer.cursors();
        let mut launcher = Launcher::new(queue, consumer, config.window);
        if let Some(record) = record {
            launcher.continue_at(record);
        }
        let thread = worker.thread().clone();
        let shared =
            Arc::new(Shared::new(launcher, cursors, thread, listener, config.drain_timeout));
        self.join(&shared)?; // the worker ends if there is nothing to do
        let stops = self.level() >= PreemptLevel::DeviceQueue;
        // The worker waits for it.
        let _ = start.send((shared.clone(), Pace { wakes, stops, config }));
        let submitter = Submitter { commands: producer, shared: shared.clone(), spin: config.spin };
        let (group, worker, drain_timeout) = (self.clone(), Some(worker), config.drain_timeout);
        Ok((submitter, VirtualQueue { shared, group, worker, drain_timeout }))
    }
}

/// The device's record of the command that is next, if some of it has run.
fn record_of<D: Device>(device: &D, parked: &Parked<D>) -> Result<Option<D::Checkpoint>> {
    let partial = parked.commands().first().zip(parked.partial());
    partial.map(|(command, blocks)| device.checkpoint_of(command, blocks)).transpose()
}

#[cold]
fn too_many<D: Device>(config: &Config, parked: &Parked<D>) -> Error {
    let (have, want) = (config.capacity, parked.commands().len());
    Error::invalid("capacity", format!("must be at least the {want} commands left, got {have}"))
}

impl<D: Device> Drop for VirtualQueue<D> {
    fn drop(&mut self) {
        self.stop(Shutdown::Cancel);
        self.shared.end(Error::Cancelled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::command::{Command, HostFn};
    use crate::backend::info::Seq;
    use crate::testing::fake::{AtLast, Call, Fake, eventually, kernel};
    use parking_lot::Mutex;
    use std::sync::atomic::Ordering;
    use std::sync::mpsc::{Receiver, Sender, channel};

    const TEST_TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn parked_commands_must_fit_into_the_queue() {
        let parked = Parked::new(Seq(9), vec![kernel(); 3], None).expect("kernels");
        let enable = |capacity| {
            let config = Config::default().capacity(capacity);
            VirtualQueue::enable_parked(&Fake::default(), config, parked.clone())
        };
        let said = enable(2).expect_err("three commands").to_string();
        assert_eq!(said, "capacity: must be at least the 3 commands left, got 2");
        let (submitter, queue) = enable(4).expect("there is room");
        submitter.wait(Seq(11)).expect("it runs what is left");
        assert_eq!(submitter.completed(), Seq(12));
        queue.finish().expect("it is empty");
    }

    type QueueCell = Arc<Mutex<Option<VirtualQueue<Fake>>>>;

    /// Host code that applies `f` to its own queue, once that is put in the place, and a channel of
    /// the result.
    fn host_code<T: Send + 'static>(
        place: &QueueCell,
        f: fn(&mut Option<VirtualQueue<Fake>>) -> T,
    ) -> (HostFn, Receiver<T>) {
        let (done, result): (Sender<T>, _) = channel();
        let place = place.clone();
        (Arc::new(move || done.send(f(&mut place.lock())).expect("the test waits")), result)
    }

    /// Runs `f` as host code of a queue, between two kernels.
    fn inside<T: Send + 'static>(
        f: fn(&mut Option<VirtualQueue<Fake>>) -> T,
    ) -> (T, Submitter<Fake>, QueueCell) {
        let config = Config { level: PreemptLevel::All, ..Config::default() };
        let (mut submitter, queue) =
            VirtualQueue::enable(&Fake::default(), config).expect("a queue");
        let place = QueueCell::default();
        let (code, result) = host_code(&place, f);
        *place.lock() = Some(queue);
        for command in [kernel(), Command::Host(code), kernel()] {
            submitter.submit(command).expect("room");
        }
        (result.recv_timeout(TEST_TIMEOUT).expect("no deadlock"), submitter, place)
    }

    #[test]
    fn host_code_preempts_and_restores_its_own_queue() {
        let (outcome, submitter, _queue) = inside(|queue| {
            let queue = queue.as_ref().expect("it is in its place");
            queue.preempt(true)?;
            assert!(queue.group().is_quiesced());
            queue.restore()
        });
        outcome.expect("both worked");
        assert_eq!(submitter.wait_timeout(Seq(2), TEST_TIMEOUT), Some(Ok(())), "and it goes on");
    }

    #[test]
    fn host_code_cannot_disable_its_own_queue() {
        let (error, submitter, _queue) = inside(|queue| {
            let (error, back) = queue.take().expect("it is in its place").disable().unwrap_err();
            *queue = Some(back);
            error
        });
        assert!(matches!(error, Error::Busy { in_flight: 0, waiting: 1.. }), "{error}");
        assert_eq!(submitter.wait_timeout(Seq(2), TEST_TIMEOUT), Some(Ok(())), "and it goes on");
    }

    #[test]
    fn host_code_may_drop_its_own_queue() {
        let ((), submitter, _) = inside(|queue| drop(queue.take()));
        assert_eq!(submitter.wait_timeout(Seq(2), TEST_TIMEOUT), Some(Err(Error::Cancelled)));
    }

    #[test]
    fn host_code_cannot_finish_its_own_queue() {
        let (outcome, ..) = inside(|queue| queue.take().expect("it is in its place").finish());
        assert_eq!(
            outcome,
            Err(Error::state("finishing a queue", "its own host code asks for it"))
        );
    }

    #[test]
    fn hung_worker_does_not_keep_disable() {
        let device = Fake::default();
        let config = Config::default().drain_timeout(Duration::from_millis(50));
        let (mut submitter, queue) = VirtualQueue::enable(&device, config).expect("a queue");
        let _at_last = AtLast(device.clone());
        device.0.hang.set(Some(Call::Launch(Priority::BestEffort)));
        submitter.submit(kernel()).expect("room");
        submitter.submit(kernel()).expect("room");
        eventually("it launches", || device.0.hang.is_inside());
        let (done, disabled) = channel();
        std::thread::spawn(move || done.send(queue.disable()));
        let disabled = disabled.recv_timeout(TEST_TIMEOUT).expect("it returns");
        let (error, queue) = disabled.expect_err("it has work");
        assert_eq!(error, Error::Busy { waiting: 0, in_flight: 2 });
        let (done, dropped) = channel();
        std::thread::spawn(move || {
            drop(queue);
            done.send(())
        });
        dropped.recv_timeout(TEST_TIMEOUT).expect("the worker is left behind");
        let said = submitter.wait(Seq(0)).expect_err("its work is lost").to_string();
        assert!(said.contains("a call of the driver has not returned"), "{said}");
    }

    #[test]
    fn dropped_queue_of_a_hung_worker_hears_of_a_loss() {
        let device = Fake::default();
        let config = Config::default().drain_timeout(Duration::from_secs(3600));
        let (mut submitter, queue) = VirtualQueue::enable(&device, config).expect("a queue");
        let _at_last = AtLast(device.clone());
        device.0.hang.set(Some(Call::Launch(Priority::BestEffort)));
        submitter.submit(kernel()).expect("room");
        eventually("it launches", || device.0.hang.is_inside());
        let (group, shared) = (queue.group().clone(), queue.shared().clone());
        let (done, dropped) = channel();
        std::thread::spawn(move || {
            drop(queue);
            done.send(())
        });
        eventually("it is waited for", || shared.waiters().has_waiters());
        group.mark_lost(&Error::Cancelled);
        dropped.recv_timeout(TEST_TIMEOUT).expect("the worker is left behind");
    }

    #[test]
    fn hung_worker_without_work_does_not_keep_disable() {
        let device = Fake::default();
        let config = Config::default().drain_timeout(Duration::from_millis(50));
        let (mut submitter, queue) = VirtualQueue::enable(&device, config).expect("a queue");
        let _at_last = AtLast(device.clone());
        let seq = submitter.submit(kernel()).expect("room");
        submitter.wait(seq).expect("no error");
        device.0.hang.set(Some(Call::Completed(Priority::BestEffort)));
        queue.shared().wake_worker();
        eventually("it asks the device", || device.0.hang.is_inside());
        let (done, disabled) = channel();
        std::thread::spawn(move || done.send(queue.disable().map_err(|(error, _)| error)));
        assert_eq!(disabled.recv_timeout(TEST_TIMEOUT), Ok(Ok(())));
    }

    /// No thread has been told to take back what a preemption that failed has stopped.
    #[test]
    fn preemption_failed_midway_can_be_restored() {
        let device = Fake::default();
        let config = Config { level: PreemptLevel::All, ..Config::default() };
        let (mut submitter, queue) = VirtualQueue::enable(&device, config).expect("a queue");
        device.0.be_hangs.store(true, Ordering::SeqCst);
        submitter.submit(kernel()).expect("room");
        eventually("launched", || queue.shared().launcher().commands.in_flight() == 1);
        device.0.reset_fails.store(1, Ordering::SeqCst);
        queue.preempt(true).expect_err("the device refuses");
        let (done, restored) = channel();
        std::thread::spawn(move || done.send(queue.restore().map(|()| queue)));
        let _queue =
            restored.recv_timeout(TEST_TIMEOUT).expect("no deadlock").expect("it is preempted");
        device.0.be_hangs.store(false, Ordering::SeqCst);
        assert_eq!(submitter.wait_timeout(Seq(0), TEST_TIMEOUT), Some(Ok(())), "it goes on");
    }

    /// Between a push that finds the queue full and the poll for what to wait for, all may
    /// complete.
    #[test]
    fn drained_full_queue_has_room() {
        let config = Config { capacity: 1, window: 1, ..Config::default() };
        let (mut submitter, _queue) =
            VirtualQueue::enable(&Fake::default(), config).expect("a queue");
        let seq = submitter.submit_blocking(kernel()).expect("room");
        submitter.wait(seq).expect("no error");
        submitter.wait_for_room().expect("there is some");
    }
}
