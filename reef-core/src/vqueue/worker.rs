//! The thread of a virtual queue: launch what fits, note what finished, take back what was
//! preempted, else sleep.
//!
//! An unpark is kept until the next park, so it may come at any time. A worker that parks without
//! setting its flag must be owed an unpark. It sleeps for:
//!
//! | waits for | sets its flag | woken by |
//! |---|---|---|
//! | commands, or them and the device | yes | a submission that sees it asleep; a release with work left; a limit that rises; shutdown; and the device as below |
//! | the device: the window is full, or a barrier is in the way | no | the device at `wake_at`. If that was taken back, a release with work left; if it ran as padding, the thread that notes that |
//! | the device: what was evicted has not stopped | no | the device when a drain gives more; if it was asked before it was told to evict, the thread that tells it; the end of [`Config::drain_timeout`] |
//! | the device: held back, its queue cancelled | no | the device at `wake_at`, which is asked first |
//! | an event of another queue; after an error, the device | | nothing: it polls every 20 or 50 µs |

use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::sync::primitives::{spin_loop, thread, thread::JoinHandle};
use crate::vqueue::config::Config;
use crate::vqueue::hold::Reclaim;
use crate::vqueue::launcher::{Allowance, Step, Waits};
use crate::vqueue::shared::{Shared, Shutdown};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Waits of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// The device unparks the worker when something completes.
    pub(crate) wakes: bool,
    /// Preempting the queue stops what the device has of it.
    pub(crate) stops: bool,
    pub(crate) config: Config,
}

/// Time for which the worker of a held queue spins on a device that is polled: longer than most
/// real-time work takes, because waking up would leave the device idle for 50 µs and more.
const HELD_SPIN: Duration = Duration::from_millis(2);

impl Pace {
    fn spin(&self, held: bool) -> Duration {
        if held && !self.wakes { HELD_SPIN } else { self.config.spin }
    }
}

/// Interval at which a worker polls such a device when its queue has been held for longer and still
/// has something on it.
const LAG_POLL_INTERVAL: Duration = Duration::from_micros(50);

type Start<D> = std::sync::mpsc::Sender<(Arc<Shared<D>>, Pace)>;

/// Starts a worker that waits for what it shall work on: the queue wants its handle first.
pub(crate) fn spawn<D: Device>() -> Result<(JoinHandle<()>, Start<D>)> {
    let (start, started) = std::sync::mpsc::channel::<(Arc<Shared<D>>, Pace)>();
    let worker = thread::Builder::new().name(format!("reef-{}-queue", D::NAME)).spawn(move || {
        let Ok((shared, pace)) = started.recv() else { return };
        run(&shared, pace);
        shared.note_worker_ended();
    });
    let worker = worker.map_err(|e| Error::host("no thread for a queue", &e))?;
    Ok((worker, start))
}

/// Works until the queue ends, and says why.
fn run<D: Device>(shared: &Shared<D>, pace: Pace) {
    match catch_unwind(AssertUnwindSafe(|| work(shared, pace))) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let has_ended = let_device_finish(shared, pace.config.drain_timeout);
            shared.end(if has_ended { error } else { lost_with::<D>(error) });
        }
        Err(_) => {
            let why = "the worker of a queue panicked: what was launched may still run".into();
            shared.end(Error::DeviceLost { backend: D::NAME, why });
        }
    }
}

/// Error of a queue of which the device keeps something that may still write memory.
fn lost_with<D: Device>(error: Error) -> Error {
    if matches!(error, Error::DeviceLost { .. }) {
        return error;
    }
    let why = format!("{error}; what was launched has not stopped; its queue is abandoned");
    Error::DeviceLost { backend: D::NAME, why }
}

/// The worker: launch what fits, note what finished, take back what was preempted, else sleep.
pub(crate) fn work<D: Device>(shared: &Shared<D>, pace: Pace) -> Result<()> {
    let (mut spinning_since, mut debt) = (None, Debt::default());
    loop {
        let Some(waits) = call_device(shared)? else { return Ok(()) };
        let owed_for = debt.age(shared, pace, waits);
        let left = check_debt(shared, owed_for, pace.config.drain_timeout)?;
        match waits {
            Waits::Device if pace.wakes => park(left),
            Waits::Either if pace.wakes => {
                shared.sleep_unless(|| has_work(shared), || park(left));
            }
            Waits::Device if owed_for > Some(HELD_SPIN) => thread::park_timeout(LAG_POLL_INTERVAL),
            Waits::Device | Waits::Either | Waits::Nothing => spin_loop(),
            Waits::Host => run_host_code(shared)?,
            Waits::Event => thread::park_timeout(Duration::from_micros(20)),
            Waits::Commands => {
                let since = *spinning_since.get_or_insert_with(Instant::now);
                if since.elapsed() < pace.spin(shared.is_held()) {
                    spin_loop();
                    continue;
                }
                sleep(shared);
            }
        }
        spinning_since = None;
    }
}

/// Launches or takes back, and returns what the worker waits for then; `None` if it was told to end
/// and has nothing left to do.
fn call_device<D: Device>(shared: &Shared<D>) -> Result<Option<Waits>> {
    let _turn = shared.calls().begin();
    let waits = if shared.is_held() { quiesce(shared)? } else { pass(shared)? };
    Ok((!is_over(shared)).then_some(waits))
}

/// Debt of the device: the end of what it has of a queue that it was told to stop, or that is to
/// end.
#[derive(Debug, Default)]
struct Debt {
    /// Progress at its beginning, and the time of that.
    since: Option<(Progress, Instant)>,
}

/// The hold that lasts, and commands that have completed: another one is a new debt.
type Progress = (Option<u64>, u64);

impl Debt {
    /// Returns the time for which the device has owed the same, if it owes something.
    fn age<D: Device>(&mut self, shared: &Shared<D>, pace: Pace, waits: Waits) -> Option<Duration> {
        let is_stopped = is_cancelled(shared) || (pace.stops && shared.is_held());
        if !is_stopped || !matches!(waits, Waits::Device | Waits::Either) {
            self.since = None;
            return None;
        }
        let progress = (shared.current_hold(), shared.cursors().0);
        let (begun_with, since) = *self.since.get_or_insert_with(|| (progress, Instant::now()));
        if begun_with != progress {
            self.since = Some((progress, Instant::now()));
            return Some(Duration::ZERO);
        }
        Some(since.elapsed())
    }
}

/// Returns the time that is left for a debt that is this old.
///
/// # Errors
///
/// `DeviceLost` if no time is left: the queue is abandoned.
fn check_debt<D: Device>(
    shared: &Shared<D>,
    owed_for: Option<Duration>,
    limit: Option<Duration>,
) -> Result<Option<Duration>> {
    let Some((age, limit)) = owed_for.zip(limit) else { return Ok(None) };
    if age < limit {
        return Ok(Some(limit - age));
    }
    shared.launcher().abandon();
    let why = format!("what was launched has not stopped within {limit:?}; its queue is abandoned");
    Err(Error::DeviceLost { backend: D::NAME, why })
}

fn park(timeout: Option<Duration>) {
    timeout.map_or_else(thread::park, thread::park_timeout);
}

/// After an error nothing more is launched, but what the device has must not outlive the queue,
/// unless it takes too long. Returns whether it has ended.
fn let_device_finish<D: Device>(shared: &Shared<D>, limit: Option<Duration>) -> bool {
    let begin = Instant::now();
    loop {
        let turn = shared.calls().begin();
        let mut launcher = shared.launcher();
        if limit.is_some_and(|limit| begin.elapsed() >= limit) {
            launcher.abandon();
        }
        if launcher.is_abandoned() {
            shared.note_abandoned();
            return false;
        }
        let quiet = if shared.is_held() {
            launcher
                .try_reclaim()
                .and_then(|done| if done.is_some() { launcher.release_held() } else { Ok(false) })
        } else {
            launcher.is_quiet()
        };
        match quiet {
            Ok(false) => drop(launcher),
            Ok(true) | Err(_) => return true, // a queue that fails again has nothing running
        }
        drop(turn);
        thread::park_timeout(Duration::from_micros(50));
    }
}

/// Allowance of a cancelled queue.
const NO_LAUNCHES: Allowance = Allowance::until(0);

/// Launches and notes completions.
fn pass<D: Device>(shared: &Shared<D>) -> Result<Waits> {
    // Asked before each launch: a queue may end while one lasts.
    let allowed = || if is_cancelled(shared) { NO_LAUNCHES } else { shared.allowance() };
    let Step { completed, waits } = shared.launcher().step(allowed)?;
    if completed {
        shared.waiters().notify();
    }
    Ok(waits)
}

/// Runs the host code that is next, without a lock: it may preempt, restore or end the queue that
/// it is in.
fn run_host_code<D: Device>(shared: &Shared<D>) -> Result<()> {
    let next = shared.launcher().host(shared.allowance().limit);
    let Some((at, code)) = next else { return Ok(()) };
    catch_unwind(AssertUnwindSafe(|| code()))
        .map_err(|_| Error::state("a host function", "it panicked"))?;
    shared.launcher().host_done(at);
    shared.waiters().notify();
    Ok(())
}

/// Takes back what a held queue has on the device.
fn quiesce<D: Device>(shared: &Shared<D>) -> Result<Waits> {
    if shared.is_quiesced() {
        return if is_cancelled(shared) { release_held(shared) } else { Ok(Waits::Commands) };
    }
    Ok(match shared.reclaim(&mut shared.launcher())? {
        Reclaim::Done => {
            shared.notify_listener();
            Waits::Commands
        }
        Reclaim::Pending => Waits::Device,
        Reclaim::Released => Waits::Nothing,
    })
}

/// Ends what a cancelled queue keeps on the device; the queue ends after it.
#[cold]
fn release_held<D: Device>(shared: &Shared<D>) -> Result<Waits> {
    let quiet = shared.launcher().release_held()?;
    shared.waiters().notify();
    Ok(if quiet { Waits::Commands } else { Waits::Device })
}

fn is_cancelled<D: Device>(shared: &Shared<D>) -> bool {
    shared.shutdown() == Shutdown::Cancel
}

/// Returns whether a worker that was told to end has nothing left to do.
fn is_over<D: Device>(shared: &Shared<D>) -> bool {
    let finishes_all = match shared.shutdown() {
        Shutdown::None => return false,
        Shutdown::Drain => true,
        Shutdown::Cancel => false,
    };
    let mut launcher = shared.launcher();
    launcher.commands.in_flight() == 0 && !(finishes_all && launcher.commands.next().is_some())
}

#[cold]
fn sleep<D: Device>(shared: &Shared<D>) {
    shared.notify_listener();
    shared.sleep_unless(|| has_work(shared), thread::park);
}

/// Returns whether there is something that a worker can do now.
fn has_work<D: Device>(shared: &Shared<D>) -> bool {
    let shutdown = shared.shutdown();
    if shared.is_held() {
        return shutdown == Shutdown::Cancel || !shared.is_quiesced();
    }
    shutdown != Shutdown::None
        || shared.launcher().commands.next().is_some_and(|(at, _)| at < shared.allowance().limit)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::backend::info::Priority;
    use crate::testing::fake::{AtLast, Call, Fake, eventually, kernel, until_polled};
    use crate::vqueue::shared::tests::{shared, with_submitter};
    use std::sync::atomic::Ordering;

    #[test]
    fn worker_of_a_held_queue_spins_longer_on_a_polled_device() {
        let config = Config { spin: Duration::from_millis(7), ..Config::default() };
        let [polled, woken] = [false, true].map(|wakes| Pace { wakes, stops: true, config });
        assert_eq!((polled.spin(true), polled.spin(false)), (HELD_SPIN, config.spin));
        assert_eq!((woken.spin(true), woken.spin(false)), (config.spin, config.spin));
    }

    /// A device that has nothing of a queue wakes no worker that waits for it.
    #[test]
    fn late_worker_polls_again_after_release() {
        let shared = shared(&Fake::default());
        shared.hold();
        // The worker saw the hold. Before it takes back, another thread does and releases the
        // queue, which has no commands: no thread is woken.
        assert_eq!(shared.reclaim(&mut shared.launcher()), Ok(Reclaim::Done));
        shared.release();
        assert_eq!(quiesce(&shared).unwrap(), Waits::Nothing);
        assert_eq!(pass(&shared).unwrap(), Waits::Commands);
    }

    #[test]
    fn held_queue_has_work_until_quiesced_and_when_cancelled() {
        let shared = shared(&Fake::default());
        shared.hold();
        assert!(has_work(&shared), "to take back what the device has");
        assert_eq!(quiesce(&shared).unwrap(), Waits::Commands);
        assert!(!has_work(&shared));
        shared.shut_down(Shutdown::Drain);
        assert!(!has_work(&shared), "it can't end while it is held");
        shared.shut_down(Shutdown::Cancel);
        assert!(has_work(&shared), "it ends");
    }

    #[test]
    fn commands_beyond_the_limit_are_not_work() {
        let (mut producer, shared) = with_submitter(&Fake::default());
        assert!(producer.push(kernel()).is_ok(), "room");
        shared.set_limit(0);
        assert!(!has_work(&shared));
        shared.set_limit(1);
        assert!(has_work(&shared));
    }

    #[test]
    fn cancelled_queue_launches_nothing_more() {
        let device = Fake::default();
        device.0.be_hangs.store(true, Ordering::SeqCst);
        let (mut producer, shared) = with_submitter(&device);
        assert!(producer.push(kernel()).is_ok(), "room");
        assert_eq!(pass(&shared).unwrap(), Waits::Either);
        assert_eq!(shared.launcher().commands.in_flight(), 1);
        shared.shut_down(Shutdown::Cancel);
        assert!(producer.push(kernel()).is_ok(), "room");
        pass(&shared).unwrap();
        assert_eq!(shared.launcher().commands.in_flight(), 1);
    }

    #[test]
    fn queue_cancelled_during_a_launch_launches_no_more() {
        let device = Fake::default();
        let (mut producer, shared) = with_submitter(&device);
        let _at_last = AtLast(device.clone());
        device.0.be_hangs.store(true, Ordering::SeqCst);
        device.0.hang.set(Some(Call::Launch(Priority::BestEffort)));
        (0..3).for_each(|_| assert!(producer.push(kernel()).is_ok(), "room"));
        thread::scope(|scope| {
            let launches = scope.spawn(|| pass(&shared).map(drop));
            eventually("it launches", || device.0.hang.is_inside());
            shared.shut_down(Shutdown::Cancel);
            device.0.hang.set(None);
            launches.join().expect("no panic").expect("no error");
        });
        assert_eq!(shared.launcher().commands.in_flight(), 1);
    }

    #[test]
    fn device_finishes_launched_work_after_an_error() {
        let device = Fake::default();
        device.0.be_hangs.store(true, Ordering::SeqCst);
        let (mut producer, shared) = with_submitter(&device);
        assert!(producer.push(kernel()).is_ok(), "room");
        pass(&shared).unwrap();
        thread::scope(|scope| {
            let finish = scope.spawn(|| let_device_finish(&shared, None));
            until_polled(&device, 3);
            let early = finish.is_finished();
            device.0.be_hangs.store(false, Ordering::SeqCst); // or the thread never ends
            assert!(!early, "the device has a kernel");
        });
        assert_eq!(shared.launcher().commands.in_flight(), 0);
    }
}
