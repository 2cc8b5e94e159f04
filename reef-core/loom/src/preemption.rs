//! One queue while it is preempted and restored: its worker, its group, its submitter, and a device
//! that unparks the worker only when something that it has of the queue ends.
//!
//! The steps are those of `vqueue/{worker,shared,group,submitter}.rs`, cut down to what they do to
//! each other; holds, parking and waiting are the real code. `origins.rs` fails when one of the
//! functions changes, until the model has been compared with it. A [`Rule`] that is broken shows
//! that the model is able to fail: loom reports a worker that sleeps for ever as a deadlock.
//!
//! The steps are a copy because the code is generic over a device: commands, errors, clock, host
//! code and parked state would come with it. Loom tries all orders of all atomics that it is shown,
//! and the code loads up to seven before each launch, the model three. Caps, parts and drain times
//! decide about no wake-up, and no scheduler limits the queue here. A broken rule, too, would have
//! to stand in the code itself.

mod device;
mod origins;
mod scenarios;

use crate::hold::{Hold, Quiesced, Reclaim};
use crate::sync::park::{EventCount, Parker};
use crate::sync::primitives::{AtomicBool, AtomicU64, Ordering, fence, thread};
use device::Device;
use loom::sync::{Condvar, Mutex, MutexGuard};

/// Rule that a thread must follow, and that one of the models breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// None is broken: all is as it is in the code.
    None,
    /// A worker that is late to take back waits for the device.
    LateWorkersCheckAgain,
    /// The thread that pads the last command away doesn't wake the worker.
    PaddingWakes,
    /// A queue that is empty is held when the launcher has been unlocked.
    EmptyQueuesAreHeldUnderTheLock,
    /// The thread that tells the device to stop doesn't wake a worker that asked before.
    AskersAreWoken,
    /// A worker launches as soon as the group releases.
    LaggardsLaunchNothing,
    /// The thread that takes back doesn't end a hold that is being released.
    TakingBackSettles,
    /// The group doesn't end a hold that it releases.
    ReleasingSettles,
    /// A queue of which the device has nothing when it is stopped has to be drained to go on.
    IdleQueuesStartAfresh,
    /// A launch that a worker was in the middle of starts, though the device was told to stop.
    LateLaunchesAreVoid,
}

/// Way in which a group stops the queue.
#[derive(Debug, Clone, Copy)]
struct Stop {
    /// Another queue of the group, which comes before this one, has work on the device.
    busy: bool,
    /// The device is told before real-time work goes to it: `Dispatch::stops_first`.
    stops_first: bool,
}

impl Stop {
    /// Of a queue that is alone in its group.
    const ALONE: Self = Self { busy: false, stops_first: false };
    const BUSY: Self = Self { busy: true, ..Self::ALONE };

    fn stops_first(self) -> Self {
        Self { stops_first: true, ..self }
    }
}

/// Event that a worker waits for.
#[derive(Debug, PartialEq, Eq)]
enum Waits {
    Device,
    /// For the device or for commands.
    Either,
    Commands,
    Nothing,
}

/// The launching end.
#[derive(Debug, Default)]
struct Launcher {
    launched: u64,
}

/// Parking of the worker's thread. Loom's own forgets that a thread was unparked when that waits
/// for a lock next.
#[derive(Default)]
struct Worker {
    unparked: Mutex<bool>,
    changed: Condvar,
}

impl Worker {
    fn park(&self) {
        let mut unparked = self.unparked.lock().unwrap();
        while !*unparked {
            unparked = self.changed.wait(unparked).unwrap();
        }
        *unparked = false;
    }

    fn unpark(&self) {
        *self.unparked.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

struct Queue {
    broken: Rule,
    window: u64,
    device: Device,
    launcher: Mutex<Launcher>,
    submitted: AtomicU64,
    /// Written under the launcher's lock.
    completed: AtomicU64,
    hold: Hold,
    quiesced: Quiesced,
    /// The device was asked for what it has in this hold.
    asked: AtomicBool,
    parker: Parker,
    waiters: EventCount,
    /// The worker is to end.
    shutdown: AtomicBool,
}

impl Queue {
    /// A queue with `submitted` commands, of which the device finishes those from `long` on as they
    /// are launched.
    fn new(broken: Rule, window: u64, submitted: u64, long: u64) -> Self {
        Self::on(Device::new(broken, long), broken, window, submitted)
    }

    /// A queue with `submitted` commands, on this device.
    fn on(device: Device, broken: Rule, window: u64, submitted: u64) -> Self {
        Self {
            broken,
            window,
            device,
            launcher: Mutex::default(),
            submitted: AtomicU64::new(submitted),
            completed: AtomicU64::new(0),
            hold: Hold::default(),
            quiesced: Quiesced::default(),
            asked: AtomicBool::new(false),
            parker: Parker::default(),
            waiters: EventCount::default(),
            shutdown: AtomicBool::new(false),
        }
    }

    fn launcher(&self) -> MutexGuard<'_, Launcher> {
        self.launcher.lock().unwrap()
    }

    fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    fn is_quiesced(&self) -> bool {
        self.quiesced.is_noted(&self.hold)
    }

    /// Returns whether nothing may be launched.
    fn is_held(&self) -> bool {
        let goes_on = self.broken == Rule::LaggardsLaunchNothing && self.hold.is_releasing();
        self.hold.is_held() && !goes_on
    }

    /// `Launcher::try_reclaim`.
    fn drain(&self, launcher: &mut Launcher) -> Result<Option<u64>, ()> {
        let Some(done) = self.device.try_drain() else { return Ok(None) };
        self.completed.store(done, Ordering::Release);
        let undone = launcher.launched - done;
        launcher.launched = done;
        Ok(Some(undone))
    }

    /// `Shared::reclaim`.
    fn reclaim(&self, worker: &Worker, launcher: &mut Launcher) -> Reclaim {
        self.asked.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let reclaimed = self.quiesced.reclaim(&self.hold, || self.drain(launcher)).unwrap();
        if reclaimed == Reclaim::Done {
            self.waiters.notify();
            if self.broken != Rule::TakingBackSettles && self.hold.settle(&self.quiesced) {
                self.go_on(worker);
            }
        }
        reclaimed
    }

    /// `Shared::go_on`.
    fn go_on(&self, worker: &Worker) {
        self.waiters.notify();
        fence(Ordering::SeqCst);
        if self.completed() < self.submitted() {
            worker.unpark();
        }
    }
}

/// The worker.
impl Queue {
    fn work(&self, worker: &Worker) {
        loop {
            let waits = if self.is_held() { self.quiesce(worker) } else { self.pass() };
            if self.is_over() {
                return;
            }
            match waits {
                Waits::Device => worker.park(),
                Waits::Either | Waits::Commands => {
                    self.parker.sleep_unless(|| self.has_work(), || worker.park());
                }
                Waits::Nothing => thread::yield_now(),
            }
        }
    }

    /// It was told to end, and the device has nothing.
    fn is_over(&self) -> bool {
        self.shutdown.load(Ordering::Acquire) && self.launcher().launched == self.completed()
    }

    fn quiesce(&self, worker: &Worker) -> Waits {
        if self.is_quiesced() {
            return Waits::Commands;
        }
        match self.reclaim(worker, &mut self.launcher()) {
            Reclaim::Done => Waits::Commands,
            Reclaim::Pending => Waits::Device,
            Reclaim::Released if self.broken == Rule::LateWorkersCheckAgain => Waits::Device,
            Reclaim::Released => Waits::Nothing,
        }
    }

    /// `Launcher::step`.
    fn pass(&self) -> Waits {
        let mut launcher = self.launcher();
        self.note_completed();
        while launcher.launched - self.completed() < self.window {
            let ends = self.shutdown.load(Ordering::Acquire);
            if ends || self.is_held() || launcher.launched == self.submitted() {
                break;
            }
            self.device.launch(launcher.launched);
            launcher.launched += 1;
        }
        let in_flight = launcher.launched - self.completed();
        let next = !self.is_held() && launcher.launched < self.submitted();
        match (in_flight, next) {
            _ if self.device.completed() > self.completed() => Waits::Nothing,
            (0, _) => Waits::Commands,
            (_, true) => Waits::Device,
            (_, false) => Waits::Either,
        }
    }

    fn note_completed(&self) {
        let done = self.device.completed();
        if done > self.completed() {
            self.completed.store(done, Ordering::Release);
            self.waiters.notify();
        }
    }

    fn has_work(&self) -> bool {
        if self.is_held() {
            return self.shutdown.load(Ordering::Acquire) || !self.is_quiesced();
        }
        self.shutdown.load(Ordering::Acquire) || self.launcher().launched < self.submitted()
    }
}

/// The group and the submitter.
impl Queue {
    fn stop(&self, worker: &Worker) {
        self.stop_in_group(Stop::ALONE, worker);
    }

    /// `Group::hold`, then in either order: real-time work goes to the device, and `Group::stop`.
    fn stop_in_group(&self, stop: Stop, worker: &Worker) {
        let is_empty = !stop.busy && self.hold_if_empty();
        self.begin_hold();
        if !stop.stops_first {
            self.device.take();
        }
        if !is_empty {
            self.device.evict();
            self.wake_asker(worker);
        }
        if stop.stops_first {
            self.device.take();
        }
        self.device.note_told();
    }

    /// `Shared::hold`.
    fn begin_hold(&self) {
        if !self.hold.is_held() {
            self.asked.store(false, Ordering::SeqCst);
        }
        self.hold.begin();
    }

    fn wake_asker(&self, worker: &Worker) {
        fence(Ordering::SeqCst);
        if self.asked.load(Ordering::SeqCst) && self.broken != Rule::AskersAreWoken {
            worker.unpark();
        }
    }

    fn hold_if_empty(&self) -> bool {
        let Ok(launcher) = self.launcher.try_lock() else { return false };
        let is_empty = launcher.launched == self.completed();
        if is_empty && self.broken != Rule::EmptyQueuesAreHeldUnderTheLock {
            self.begin_hold();
        }
        is_empty
    }

    fn try_quiesce(&self, worker: &Worker) {
        if self.is_quiesced() {
            return;
        }
        let Ok(mut launcher) = self.launcher.try_lock() else { return worker.unpark() };
        if self.reclaim(worker, &mut launcher) != Reclaim::Done {
            drop(launcher);
            worker.unpark();
        }
    }

    /// `Group::restore`, which waits for nothing.
    fn restore(&self, worker: &Worker) {
        self.device.reactivate();
        self.hold.release_when_drained();
        if self.broken != Rule::ReleasingSettles && self.hold.settle(&self.quiesced) {
            self.go_on(worker);
        } else {
            worker.unpark();
        }
    }

    /// Runs all that is left as padding.
    fn pad_all(&self, worker: &Worker) {
        let mut launcher = self.launcher();
        launcher.launched = self.submitted();
        self.device.note_padded(launcher.launched);
        self.completed.store(launcher.launched, Ordering::Release);
        self.waiters.notify();
        if self.broken != Rule::PaddingWakes {
            worker.unpark();
        }
    }

    /// Waits until `all` commands have completed, and ends the worker.
    fn close(&self, all: u64, worker: &Worker) {
        self.waiters.wait_until(|| self.completed() == all);
        self.end(worker);
    }

    fn end(&self, worker: &Worker) {
        self.shutdown.store(true, Ordering::SeqCst);
        worker.unpark();
    }

    fn submit(&self, worker: &Worker) {
        self.submitted.fetch_add(1, Ordering::Release);
        self.parker.wake(|| worker.unpark());
    }
}
