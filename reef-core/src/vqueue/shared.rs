//! State that submitter, worker, group and scheduler of a queue share. Each field is a type of its
//! own with one writer, or names its writers.

use crate::backend::command::Command;
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::Caps;
use crate::sync::park::{EventCount, Parker};
use crate::sync::primitives::{
    AtomicBool, AtomicU8, Mutex, MutexGuard, Ordering, fence, thread, thread::Thread,
};
use crate::sync::ring::Cursors;
use crate::sync::turns::{Turns, Watch};
use crate::vqueue::drain_time::DrainTime;
use crate::vqueue::hold::{Hold, Quiesced, Reclaim};
use crate::vqueue::launcher::{Allowance, Launcher};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

/// Way in which a queue ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// It is not to end.
    None,
    /// Finish all commands, then end.
    Drain,
    /// Let the device finish what it has, then end.
    Cancel,
}

/// State that the submitter, the worker and the scheduler share.
///
/// Loom's models (`reef-core/loom`) try all orders of what they change. Limits, caps and parts,
/// which no model changes, are plain atomics.
#[derive(Debug)]
pub(crate) struct Shared<D: Device> {
    launcher: Mutex<Launcher<D>>,
    cursors: Cursors<Command<D>>,
    /// Commands before this position may be launched. Written by the scheduler.
    limit: AtomicU64,
    /// Upper bounds of blocks that run at a time, if the queue's blocks are short and if they are
    /// long; 0 for all. Written by the group while the queue is held.
    caps: [AtomicU32; 2],
    /// Part of the units that graphs run on, in percent.
    percent: AtomicU32,
    /// Written by the group, and by the thread that takes back.
    drain: DrainTime,
    /// Written by the group, and by the thread that takes back.
    hold: Hold,
    /// Written under the launcher's lock.
    quiesced: Quiesced,
    /// The device was asked for what it has since the queue is held: see [`Self::wake_asker`].
    asked: AtomicBool,
    /// A [`Shutdown`]. Written by the owner of the queue.
    shutdown: AtomicU8,
    /// The error that ended the queue: the worker's, or else the owner's. Written once.
    failed: OnceLock<Error>,
    worker: Thread,
    /// The worker's calls of the device, with what it waits for to make them.
    calls: Turns,
    /// Samples of `calls` while the queue is told to stop.
    watch: Mutex<Watch>,
    /// [`Config::drain_timeout`](crate::Config::drain_timeout).
    drain_timeout: Option<Duration>,
    /// The device keeps its work of the queue. Written once.
    is_abandoned: AtomicBool,
    /// The worker has ended. Written by it, once.
    worker_ended: AtomicBool,
    parker: Parker,
    waiters: EventCount,
    listener: Option<Listener>,
}

/// Thread that is unparked when the queue quiesces, runs out of work, or gets work again.
#[derive(Debug)]
struct Listener {
    thread: Thread,
    /// It asked to be told of the next submission. Set by the listener, taken by the submitter.
    watching: AtomicBool,
}

impl<D: Device> Shared<D> {
    /// State of a queue whose `worker` is about to start. With a listener, nothing is launched
    /// before it [sets a limit](Self::set_limit).
    pub(crate) fn new(
        launcher: Launcher<D>,
        cursors: Cursors<Command<D>>,
        worker: Thread,
        listener: Option<Thread>,
        drain_timeout: Option<Duration>,
    ) -> Self {
        Self {
            launcher: Mutex::new(launcher),
            cursors,
            limit: AtomicU64::new(if listener.is_some() { 0 } else { u64::MAX }),
            caps: Default::default(),
            percent: AtomicU32::new(100),
            drain: DrainTime::default(),
            hold: Hold::default(),
            quiesced: Quiesced::default(),
            asked: AtomicBool::new(false),
            shutdown: AtomicU8::new(Shutdown::None as u8),
            failed: OnceLock::new(),
            worker,
            calls: Turns::default(),
            watch: Mutex::default(),
            drain_timeout,
            is_abandoned: AtomicBool::new(false),
            worker_ended: AtomicBool::new(false),
            parker: Parker::default(),
            waiters: EventCount::default(),
            listener: listener.map(|thread| Listener { thread, watching: AtomicBool::new(false) }),
        }
    }

    /// The launching end. Held by the worker while it launches.
    pub(crate) fn launcher(&self) -> MutexGuard<'_, Launcher<D>> {
        self.launcher.lock()
    }

    /// As [`launcher`](Self::launcher), if no other thread is at it.
    pub(crate) fn try_launcher(&self) -> Option<MutexGuard<'_, Launcher<D>>> {
        self.launcher.try_lock()
    }

    /// As [`launcher`](Self::launcher), if the thread that is at it leaves within a time.
    pub(crate) fn launcher_within(&self, time: Duration) -> Option<MutexGuard<'_, Launcher<D>>> {
        self.launcher.lock_for(time)
    }

    /// Returns the numbers of commands that have completed and been submitted.
    pub(crate) fn cursors(&self) -> (u64, u64) {
        self.cursors.read()
    }

    /// Returns the commands that may be launched now, and their width.
    pub(crate) fn allowance(&self) -> Allowance {
        let limit = if self.hold.is_held() { 0 } else { self.limit.load(Ordering::Acquire) };
        // After the hold: a thread that sees the release of the queue sees the cap that was set
        // before.
        let cap = &self.caps[usize::from(self.drain.is_long())];
        let percent = self.percent.load(Ordering::Acquire);
        Allowance { limit, cap: cap.load(Ordering::Acquire), percent }
    }

    /// Caps the blocks that run at a time from the next launch on, or ends that. Only while the
    /// queue is held.
    pub(crate) fn set_caps(&self, caps: Option<Caps>) {
        let Caps { short, long, percent } = caps.unwrap_or(Caps::all(0));
        self.percent.store(percent, Ordering::Release);
        for (cap, blocks) in self.caps.iter().zip([short, long]) {
            cap.store(blocks, Ordering::Release);
        }
    }

    /// Sets how far commands may be launched, and wakes the worker if that is farther than before.
    pub(crate) fn set_limit(&self, limit: u64) {
        if self.limit.swap(limit, Ordering::AcqRel) < limit {
            self.wake_worker();
        }
    }
}

/// Preemption: the group holds and releases, the thread that has the launcher takes back.
impl<D: Device> Shared<D> {
    /// Returns whether nothing of the queue may be launched: it is being preempted, or is, or lags.
    pub(crate) fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// Returns whether nothing of the queue may be launched until its group releases it.
    pub(crate) fn is_preempted(&self) -> bool {
        self.hold.lasts()
    }

    /// Returns whether the group goes on and this queue doesn't yet: its work has not been taken
    /// back.
    pub(crate) fn is_lagging(&self) -> bool {
        self.hold.is_releasing()
    }

    /// Returns the number of the hold that lasts.
    pub(crate) fn current_hold(&self) -> Option<u64> {
        self.hold.current()
    }

    /// Launches nothing from now on. The worker is not woken: see [`Self::wake_worker`].
    pub(crate) fn hold(&self) {
        if !self.hold.is_held() {
            self.asked.store(false, Ordering::SeqCst);
        }
        if self.hold.begin() {
            self.drain.begin();
        }
    }

    /// Wakes a worker that has asked the device for what it has. Call after telling the device to
    /// stop: that lets it give more, and what has not started ends without a report of the device.
    pub(crate) fn wake_asker(&self) {
        fence(Ordering::SeqCst); // a worker that asks from now on asks a device that has been told
        if self.asked.load(Ordering::SeqCst) {
            self.wake_worker();
        }
    }

    /// As [`hold`](Self::hold), if the device has nothing of the queue. Returns whether that is so.
    ///
    /// The worker launches under the lock that is taken here, so nothing of the queue comes to the
    /// device afterwards.
    pub(crate) fn hold_if_empty(&self) -> bool {
        let Some(launcher) = self.try_launcher() else { return false };
        let is_empty = launcher.commands.in_flight() == 0 && self.failed.get().is_none();
        if is_empty {
            self.hold();
        }
        is_empty
    }

    /// Launches again at once, whatever the device has of the queue.
    pub(crate) fn release(&self) {
        self.hold.end();
        self.go_on();
    }

    /// Launches again when what the device has of the queue has been taken back. If it hasn't been,
    /// wakes the worker to do so.
    pub(crate) fn release_when_drained(&self) {
        if self.failed.get().is_some() {
            return self.release(); // there is nothing to take back, and no worker
        }
        self.hold.release_when_drained();
        if self.hold.settle(&self.quiesced) { self.go_on() } else { self.wake_worker() }
    }

    /// The hold has ended: wakes the worker if it has work.
    fn go_on(&self) {
        self.waiters.notify();
        fence(Ordering::SeqCst); // a submission that we don't see finds the worker released
        let (completed, submitted) = self.cursors();
        if completed < submitted {
            self.wake_worker();
        }
    }

    /// Takes back what the held queue has on the device, if no other thread is at it, on this
    /// thread.
    ///
    /// Otherwise the worker does so when the device is done, and notifies the listener.
    pub(crate) fn try_quiesce(&self) {
        if self.quiesced.is_noted(&self.hold) {
            return;
        }
        // The worker may have read the hold before it began, and be about to wait for a device that
        // does nothing any more.
        let Some(mut launcher) = self.try_launcher() else { return self.wake_worker() };
        if self.reclaim(&mut launcher) != Ok(Reclaim::Done) {
            drop(launcher);
            self.wake_worker(); // it may sleep: the rest, and an error, are its to find
        }
    }

    /// Takes back what the held queue has on the device, once: see [`Quiesced::reclaim`].
    pub(crate) fn reclaim(&self, launcher: &mut Launcher<D>) -> Result<Reclaim> {
        self.asked.store(true, Ordering::SeqCst); // before asking
        fence(Ordering::SeqCst);
        let reclaimed = self.quiesced.reclaim(&self.hold, || {
            let taken = launcher.try_reclaim()?;
            if taken.is_some() {
                self.drain.end(); // before it is noted, so that later launches have its cap
            }
            Ok(taken)
        })?;
        if reclaimed == Reclaim::Done {
            self.waiters.notify();
            if self.hold.settle(&self.quiesced) {
                self.go_on();
            }
        }
        Ok(reclaimed)
    }

    /// Notes that the next kernel of the held queue has run as padding.
    ///
    /// If it was the last, [`Self::release`] has no reason to wake the worker. The worker may still
    /// wait for the device, which had the kernel before it was taken back and doesn't report it any
    /// more.
    pub(crate) fn note_padded(&self, launcher: &mut Launcher<D>) {
        self.waiters.notify();
        if launcher.commands.next().is_none() {
            self.wake_worker();
        }
    }

    /// Returns whether nothing of the held queue is on the device. A queue that ended has nothing
    /// either.
    pub(crate) fn is_quiesced(&self) -> bool {
        self.quiesced.is_noted(&self.hold) || self.failed.get().is_some()
    }

    /// Blocks until the held queue is quiesced.
    ///
    /// Host code of the queue may call this too: the worker, whose thread it is on, takes nothing
    /// back then.
    pub(crate) fn wait_quiesced(&self) {
        while self.is_worker() && self.hold.is_held() && !self.is_quiesced() {
            self.try_quiesce();
            thread::yield_now();
        }
        self.waiters.wait_until(|| self.is_quiesced() || !self.hold.is_held());
    }

    /// Returns the number of commands that were launched again because of preemptions.
    pub(crate) fn rerun(&self) -> u64 {
        self.quiesced.rerun()
    }
}

/// The worker's sleep, and its end.
impl<D: Device> Shared<D> {
    /// Returns whether this is the worker's thread.
    pub(crate) fn is_worker(&self) -> bool {
        thread::current().id() == self.worker.id()
    }

    /// Returns the worker's calls of the device.
    pub(crate) fn calls(&self) -> &Turns {
        &self.calls
    }

    /// The device keeps its work of the queue, for which nothing waits.
    pub(crate) fn note_abandoned(&self) {
        self.is_abandoned.store(true, Ordering::Release);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Acquire)
    }

    /// Takes a sample of a worker whose queue is told to stop, this time after the last one.
    /// Returns whether it has been in one call of the driver for as long as the device may take to
    /// stop.
    pub(crate) fn worker_hangs(&self, interval: Duration) -> bool {
        let mut watch = self.watch.lock();
        if !self.is_held() || self.failed.get().is_some() {
            *watch = Watch::default();
            return false;
        }
        let samples = watch.count(&self.calls);
        samples > 0 && self.drain_timeout.is_some_and(|limit| interval * samples >= limit)
    }

    /// Ends a queue whose worker hangs in a call of the driver. The worker keeps what the device
    /// may use until the call returns, and launches nothing more.
    pub(crate) fn leave_alone(&self) {
        self.note_abandoned();
        let why = "a call of the driver has not returned; its queue is left alone".into();
        self.end(Error::DeviceLost { backend: D::NAME, why });
        self.shut_down(Shutdown::Cancel);
    }

    /// The worker does nothing more.
    pub(crate) fn note_worker_ended(&self) {
        self.worker_ended.store(true, Ordering::Release);
        self.waiters.notify();
    }

    /// Waits until the worker has ended, for no longer than `time` and, unless the queue
    /// `has_failed`, until it fails. Returns whether the worker has ended.
    pub(crate) fn wait_for_worker(&self, time: Duration, has_failed: bool) -> bool {
        let has_ended = || self.worker_ended.load(Ordering::Acquire);
        let fails = || !has_failed && self.failed.get().is_some();
        self.waiters.wait_until_or(Instant::now() + time, || has_ended() || fails());
        has_ended()
    }

    /// Makes the worker check again.
    pub(crate) fn wake_worker(&self) {
        self.worker.unpark();
    }

    /// Wakes the worker if it sleeps. Call after a submission.
    #[inline]
    pub(crate) fn wake_sleeping_worker(&self) {
        self.parker.wake(|| self.worker.unpark());
    }

    /// Sleeps by `park` on the worker's thread unless there is something to do.
    pub(crate) fn sleep_unless(&self, ready: impl FnOnce() -> bool, park: impl FnOnce()) {
        self.parker.sleep_unless(ready, park);
    }

    /// Returns the way in which the queue is to end.
    pub(crate) fn shutdown(&self) -> Shutdown {
        match self.shutdown.load(Ordering::Acquire) {
            value if value == Shutdown::Drain as u8 => Shutdown::Drain,
            value if value == Shutdown::Cancel as u8 => Shutdown::Cancel,
            _ => Shutdown::None,
        }
    }

    /// Makes the worker end.
    pub(crate) fn shut_down(&self, shutdown: Shutdown) {
        self.shutdown.store(shutdown as u8, Ordering::SeqCst);
        self.wake_worker();
    }

    /// Returns the error that ended the queue.
    pub(crate) fn failed(&self) -> Option<&Error> {
        self.failed.get()
    }

    /// Nothing of the queue runs any more, because of `error`.
    pub(crate) fn end(&self, error: Error) {
        let _ = self.failed.set(error); // the first error stays
        self.waiters.notify();
        self.notify_listener();
    }
}

/// Waiters of the queue.
impl<D: Device> Shared<D> {
    /// Returns the threads that wait for commands to complete, or for the queue to quiesce.
    pub(crate) fn waiters(&self) -> &EventCount {
        &self.waiters
    }

    /// Asks for the listener to be told of the next submission.
    pub(crate) fn watch(&self) {
        if let Some(listener) = &self.listener {
            listener.watching.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst); // steps 1 and 2 of `park.rs`; the submitter's are 3 and 4
        }
    }

    /// Tells the listener of a submission, if it asked for that.
    #[inline]
    pub(crate) fn notify_watching(&self) {
        if let Some(listener) = &self.listener
            && listener.watching.load(Ordering::Relaxed)
        {
            listener.take_watch();
        }
    }

    /// Unparks the listener.
    pub(crate) fn notify_listener(&self) {
        if let Some(listener) = &self.listener {
            listener.thread.unpark();
        }
    }
}

impl Listener {
    #[cold]
    fn take_watch(&self) {
        if self.watching.swap(false, Ordering::AcqRel) {
            self.thread.unpark();
        }
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use super::*;
    use crate::backend::info::Priority;
    use crate::sync::ring::{Producer, ring};
    use crate::testing::fake::{Fake, kernel};

    pub(crate) fn shared(device: &Fake) -> Shared<Fake> {
        with_submitter(device).1
    }

    /// The worker is the thread of the test.
    pub(crate) fn with_submitter(device: &Fake) -> (Producer<Command<Fake>>, Shared<Fake>) {
        let (producer, consumer) = ring(8);
        let cursors = consumer.cursors();
        let queue = device.queue(Priority::BestEffort, None).unwrap();
        let launcher = Launcher::new(queue, consumer, 4);
        (producer, Shared::new(launcher, cursors, thread::current(), None, None))
    }

    /// Returns whether the worker is woken within some time.
    fn is_woken(time: Duration) -> bool {
        let start = Instant::now();
        thread::park_timeout(time);
        start.elapsed() < time
    }

    const TEST_TIMEOUT: Duration = Duration::from_secs(60);
    const SHORT_WAIT: Duration = Duration::from_millis(5);

    #[test]
    fn rising_limit_wakes_the_worker() {
        let shared = shared(&Fake::default());
        for (limit, wakes) in [(5, false), (5, false), (9, true), (8, false)] {
            shared.set_limit(limit);
            assert_eq!(
                is_woken(if wakes { TEST_TIMEOUT } else { SHORT_WAIT }),
                wakes,
                "limit {limit}"
            );
            assert_eq!(shared.allowance().limit, limit);
        }
    }

    #[test]
    fn release_wakes_a_worker_with_work() {
        let (mut producer, shared) = with_submitter(&Fake::default());
        shared.hold();
        assert_eq!(shared.allowance().limit, 0);
        shared.release();
        assert!(!is_woken(SHORT_WAIT), "there is none");
        shared.hold();
        producer.push(kernel()).unwrap();
        shared.release();
        assert!(is_woken(TEST_TIMEOUT));
    }

    #[test]
    fn early_drain_waiter_is_woken_by_evict() {
        let shared = shared(&Fake::default());
        for _ in 0..2 {
            shared.hold();
            shared.wake_asker();
            assert!(!is_woken(SHORT_WAIT), "it has not asked");
            let _ = shared.reclaim(&mut shared.launcher()); // as a worker does that saw the hold
            shared.wake_asker();
            assert!(is_woken(TEST_TIMEOUT));
            shared.release();
        }
    }

    #[test]
    fn stale_drain_after_release_is_ignored() {
        let device = Fake::default();
        let shared = shared(&device);
        let drains = || device.0.drains.load(Ordering::SeqCst);
        shared.hold();
        assert_eq!(shared.reclaim(&mut shared.launcher()), Ok(Reclaim::Done));
        assert_eq!(shared.reclaim(&mut shared.launcher()), Ok(Reclaim::Done));
        assert_eq!(drains(), 1, "once in each hold");
        // A worker that saw the hold is about to call, and the group that released the queue evicts
        // it again.
        shared.release();
        assert_eq!(shared.reclaim(&mut shared.launcher()), Ok(Reclaim::Released));
        assert_eq!(drains(), 1, "launches may go on until the next hold begins");
        shared.hold();
        assert_eq!(shared.reclaim(&mut shared.launcher()), Ok(Reclaim::Done));
        assert_eq!(drains(), 2);
    }
}
