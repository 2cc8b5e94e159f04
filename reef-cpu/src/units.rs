//! The threads that units are.

use crate::cpu::Cpu;
use crate::hardware::{Ended, Hardware, Task, Work};
use crate::kernel::{Block, Outcome, RUN};
use crate::trace::{Trace, span};
use parking_lot::{Condvar, Mutex, MutexGuard};
use reef_core::{Copy, Error, Fill, words};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How soon an idle unit looks again whether memory that a block waits for has been returned.
const BUSY_POLL: Duration = Duration::from_micros(100);

/// What units share.
#[derive(Debug)]
pub(crate) struct Shared {
    hardware: Mutex<Hardware>,
    /// Grows whenever there may be new blocks, so that idle units need not take the lock.
    news: AtomicU64,
    wake: Condvar,
    closing: AtomicBool,
    spin: Duration,
    opened: Instant,
    pub(crate) trace: Trace,
}

impl Shared {
    pub(crate) fn new(units: u32, spin: Duration) -> Self {
        Self {
            hardware: Mutex::default(),
            news: AtomicU64::new(0),
            wake: Condvar::new(),
            closing: AtomicBool::new(false),
            spin,
            opened: Instant::now(),
            trace: Trace::new(units),
        }
    }

    /// Looks at the hardware, or changes what gives no unit anything to do.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Hardware> {
        self.hardware.lock()
    }

    /// Changes the hardware; if there may be new blocks then, makes idle units look for them.
    pub(crate) fn change<R>(&self, f: impl FnOnce(&mut Hardware) -> R) -> R {
        let mut hardware = self.lock();
        let result = f(&mut hardware);
        let (news, buried) = hardware.take_news();
        if news {
            self.news.fetch_add(1, Ordering::SeqCst); // under the lock: see `next`
        }
        drop(hardware);
        if news {
            self.wake.notify_all();
        }
        drop(buried); // not under the lock: a kernel may own anything, this device included
        result
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
    }

    /// The next task of `unit`; `None` when the device closes.
    fn next(&self, unit: u32) -> Option<Task> {
        let mut hardware = self.lock();
        loop {
            if let Some(task) = hardware.pick(unit) {
                return Some(task);
            }
            if self.closing.load(Ordering::SeqCst) {
                return None;
            }
            let seen = self.news.load(Ordering::SeqCst);
            MutexGuard::unlocked(&mut hardware, || self.spin_past(seen));
            // News are made under the lock, which is released only once we are asleep.
            if self.news.load(Ordering::SeqCst) == seen {
                self.sleep(&mut hardware);
            }
        }
    }

    /// Sleeps until there are news, or for a moment if a block waits for memory.
    fn sleep(&self, hardware: &mut MutexGuard<'_, Hardware>) {
        if hardware.is_busy() {
            self.wake.wait_for(hardware, BUSY_POLL);
        } else {
            self.wake.wait(hardware);
        }
    }

    /// Polls for news, yielding the core between polls: workers and clients may need it.
    fn spin_past(&self, seen: u64) {
        let start = Instant::now();
        while start.elapsed() < self.spin {
            for _ in 0..16 {
                if self.news.load(Ordering::Relaxed) != seen {
                    return;
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }

    /// The life of a unit.
    pub(crate) fn work(&self, unit: u32) {
        let mut scratch = Vec::new();
        let mut next = self.next(unit);
        while let Some(task) = next {
            let begin = self.trace.is_on().then(|| self.now());
            let ended = self.run(unit, &task, &mut scratch);
            if let Some(begin) = begin {
                self.trace.push(unit, span(&task, unit, begin, self.now(), &ended));
            }
            let picked = self.change(|hardware| {
                hardware.finish(&task, ended);
                hardware.pick(unit)
            });
            drop(task); // a unit that waits owns nothing of others
            next = picked.or_else(|| self.next(unit));
        }
    }

    fn run(&self, unit: u32, task: &Task, scratch: &mut Vec<f32>) -> Ended {
        match &*task.work {
            Work::Kernel(launch) => {
                let through = AtomicU8::new(RUN);
                let stop = if task.claim.may_stop() { &*task.stop } else { &through };
                let mut block = Block { index: task.claim.index, unit, stop, scratch };
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    launch.kernel().run(&mut block, launch.args())
                }));
                match outcome {
                    Ok(Outcome::Done) => Ended::Done,
                    Ok(Outcome::Stopped) => Ended::Stopped,
                    Err(panic) => Ended::Failed(lost(launch.kernel().name(), &*panic)),
                }
            }
            Work::Copy(copy) => {
                run_copy(copy);
                Ended::Done
            }
            Work::Fill(fill) => {
                run_fill(fill);
                Ended::Done
            }
            Work::Event(event) => {
                event.reach(self.now());
                Ended::Done
            }
        }
    }
}

/// The error of a kernel that panicked.
fn lost(kernel: &str, panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_string());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Error::DeviceLost { backend: "cpu", why: format!("kernel {kernel} panicked: {text}") }
}

fn run_copy(copy: &Copy<Cpu>) {
    let from = (copy.from.words(), copy.from_offset);
    words::copy(from, (copy.to.words(), copy.to_offset), copy.bytes); // checked when it was queued
}

fn run_fill(fill: &Fill<Cpu>) {
    words::fill(fill.buffer.words(), fill.offset, fill.bytes, fill.word);
}
