//! The threads that units are.
//!
//! *In*: messages (commands from queues, ends of blocks) and changes of the hardware by clients.
//! *Out*: blocks that run. *Invariant*: a unit that waits owns nothing of others and misses no new
//! work; a unit never waits for the lock while it may get it by trying again, and tries no more
//! once another unit has found nothing for any unit.

use super::queues::Hardware;
use super::run::run;
use super::task::{AbandonedTask, Message, Task, TaskEnd};
use super::trace::{Trace, span};
use crate::sync::combined::Combined;
use crate::sync::sleepers::Sleepers;
use parking_lot::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two polls of an idle unit for the return of memory that a block waits for.
const BUSY_POLL: Duration = Duration::from_micros(100);

/// Tries of a taken lock, spinning twice as long each time, before a unit yields its
/// core.
const SPINS: u32 = 5;

/// Tries of a taken lock before a unit waits for it.
const MAX_TRIES: u32 = 64;

/// State that units share.
#[derive(Debug)]
pub(crate) struct Shared {
    hardware: Combined<Hardware>,
    /// Grows whenever there may be new blocks, under the lock.
    new_work: AtomicU64,
    /// The value of `new_work` at which a unit found that no unit could have a block. Written under
    /// the lock.
    nothing: AtomicU64,
    /// A block waits for memory. Written under the lock.
    busy: AtomicBool,
    sleepers: Sleepers,
    closing: AtomicBool,
    spin: Duration,
    opened: Instant,
    pub(crate) trace: Trace,
}

impl Shared {
    pub(crate) fn new(units: u32, spin: Duration) -> Self {
        Self {
            hardware: Combined::new(Hardware::default()),
            new_work: AtomicU64::new(0),
            nothing: AtomicU64::new(u64::MAX),
            busy: AtomicBool::new(false),
            sleepers: Sleepers::default(),
            closing: AtomicBool::new(false),
            spin,
            opened: Instant::now(),
            trace: Trace::new(units),
        }
    }

    /// Reads or changes the hardware, with all messages taken in. Waits for the thread that has the
    /// lock.
    pub(crate) fn change<R>(&self, f: impl FnOnce(&mut Hardware) -> R) -> R {
        self.inside(self.hardware.lock(), f)
    }

    /// Sends the hardware a message. If another thread has it, that one takes the message in.
    pub(crate) fn post(&self, message: Message) {
        self.hardware.post(message);
        self.try_change(|_| ());
    }

    /// Like [`change`](Self::change), or `None` if another has it.
    fn try_change<R>(&self, f: impl FnOnce(&mut Hardware) -> R) -> Option<R> {
        self.hardware.try_lock().map(|hardware| self.inside(hardware, f))
    }

    /// Does `f`, gives the hardware back, and if there may be new blocks then, makes idle units
    /// look for them.
    fn inside<R>(
        &self,
        mut hardware: MutexGuard<'_, Hardware>,
        f: impl FnOnce(&mut Hardware) -> R,
    ) -> R {
        let result = f(&mut hardware);
        let (mut new_work, abandoned) = self.leave(hardware);
        let mut later = Vec::new(); // what others posted meanwhile; seldom any
        while let Some(hardware) = self.hardware.unanswered() {
            let (more, abandoned) = self.leave(hardware);
            new_work |= more;
            later.push(abandoned);
        }
        if new_work {
            self.sleepers.wake();
        }
        // Not under the lock: a kernel may own anything, this device included.
        abandoned.drop_each();
        later.into_iter().for_each(AbandonedTask::drop_each);
        result
    }

    /// Gives the hardware back. Returns whether there is new work, and the items that are over.
    fn leave(&self, mut hardware: MutexGuard<'_, Hardware>) -> (bool, AbandonedTask) {
        let (new_work, abandoned) = hardware.take_new_work();
        if new_work {
            self.new_work.fetch_add(1, Ordering::SeqCst);
        }
        (new_work, abandoned)
    }

    /// Time since the device was opened.
    pub(crate) fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Ends all units.
    pub(crate) fn close(&self) {
        self.change(|hardware| {
            self.closing.store(true, Ordering::SeqCst);
            hardware.announce();
        });
        self.sleepers.wake_all(); // a unit that ends finds nothing, so it wakes no other
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// The next task of `unit`; `None` when the device closes.
    fn next(&self, unit: u32) -> Option<Task> {
        let (mut tries, mut woken) = (0, false);
        loop {
            // Before the poll: later changes are new work.
            let seen = self.new_work.load(Ordering::SeqCst);
            let picked = if tries < MAX_TRIES {
                self.try_change(|hardware| self.pick(hardware, unit))
            } else {
                Some(self.change(|hardware| self.pick(hardware, unit)))
            };
            let nothing = self.nothing.load(Ordering::SeqCst) == seen;
            if std::mem::take(&mut woken) && !nothing {
                self.sleepers.wake();
            }
            match picked {
                Some(Some(task)) => return Some(task),
                Some(None) if self.is_closing() => return None,
                None if !nothing || self.is_closing() => {
                    back_off(tries);
                    tries += 1;
                }
                _ => {
                    woken = self.wait_past(seen);
                    tries = 0;
                }
            }
        }
    }

    fn pick(&self, hardware: &mut Hardware, unit: u32) -> Option<Task> {
        let mut task = hardware.pick(unit);
        self.busy.store(hardware.is_busy(), Ordering::SeqCst);
        let new_work = self.new_work.load(Ordering::SeqCst);
        match &mut task {
            Some(task) if hardware.is_alone(task) => {
                // New work is counted when the lock is given back.
                task.alone_until = Some(new_work + u64::from(hardware.has_new_work()));
            }
            Some(_) => {}
            None if hardware.has_none() => {
                hardware.forget_new_work();
                self.nothing.store(new_work, Ordering::SeqCst);
            }
            None => {}
        }
        task
    }

    /// Waits for new work after `seen`, or for a moment if a block waits for memory. Returns
    /// whether it was woken.
    fn wait_past(&self, seen: u64) -> bool {
        if self.spin_past(seen) {
            return false;
        }
        let most = self.busy.load(Ordering::SeqCst).then_some(BUSY_POLL);
        self.sleepers.sleep_unless(|| self.new_work.load(Ordering::SeqCst) != seen, most)
    }

    /// Polls for new work, yielding the core between polls: workers and clients may need it.
    fn spin_past(&self, seen: u64) -> bool {
        let start = Instant::now();
        while start.elapsed() < self.spin {
            for _ in 0..16 {
                if self.new_work.load(Ordering::Relaxed) != seen {
                    return true;
                }
                std::hint::spin_loop();
            }
            thread::yield_now();
        }
        false
    }

    /// The life of a unit.
    pub(crate) fn work(&self, unit: u32) {
        let mut scratch = Vec::new();
        while let Some(mut task) = self.next(unit) {
            let ended = loop {
                let begin = self.trace.is_on().then(|| self.now());
                let ended = run(unit, &task, &mut scratch, || self.now());
                if let Some(begin) = begin {
                    self.trace.push(unit, span(&task, unit, begin, self.now(), &ended));
                }
                if !matches!(ended, TaskEnd::Done) || !self.is_alone(&task) || !task.go_on(unit) {
                    break ended;
                }
            };
            // Taken in by `next`, or by the thread that has the lock.
            self.hardware.post(Message::Ended(task, ended));
        }
    }

    /// Returns whether there is no new work since `task` was picked, and no others had blocks then.
    fn is_alone(&self, task: &Task) -> bool {
        task.alone_until == Some(self.new_work.load(Ordering::SeqCst))
    }
}

/// Waits a moment for the thread that has the lock, which may have lost its core.
fn back_off(tries: u32) {
    if tries < SPINS {
        (0..1_u32 << tries).for_each(|_| std::hint::spin_loop());
    } else {
        thread::yield_now();
    }
}
