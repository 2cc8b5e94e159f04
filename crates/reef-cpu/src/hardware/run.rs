//! Execution of a task on a unit: calls the kernel for one block, copies, fills, or notes the time.

use super::cpu::Cpu;
use super::task::{Task, TaskEnd};
use super::work::Work;
use crate::kernel::{Block, Outcome, RUN};
use reef_core::{Copy, Error, Fill, words};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU8;
use std::time::Duration;

/// Runs `task` on `unit`, with the unit's own memory. `now` is the device's clock.
pub(crate) fn run(
    unit: u32,
    task: &Task,
    scratch: &mut Vec<f32>,
    now: impl FnOnce() -> Duration,
) -> TaskEnd {
    match &*task.work {
        Work::Kernel(launch) => {
            let through = AtomicU8::new(RUN);
            let stop = if task.claim.may_stop() { &*task.stop } else { &through };
            let mut block = Block { index: task.claim.index, unit, stop, scratch };
            let outcome =
                catch_unwind(AssertUnwindSafe(|| launch.kernel().run(&mut block, launch.args())));
            match outcome {
                Ok(Outcome::Done) => TaskEnd::Done,
                Ok(Outcome::Stopped) => TaskEnd::Stopped,
                Err(panic) => TaskEnd::Failed(lost(launch.kernel().name(), &*panic)),
            }
        }
        Work::Copy(copy) => {
            run_copy(copy);
            TaskEnd::Done
        }
        Work::Fill(fill) => {
            run_fill(fill);
            TaskEnd::Done
        }
        Work::Event(event) => {
            event.reach(now());
            TaskEnd::Done
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
    let (from, to) = (copy.from.words(), copy.to.words());
    // Ranges were checked when it was queued.
    words::copy(from, copy.from_offset, to, copy.to_offset, copy.bytes);
}

fn run_fill(fill: &Fill<Cpu>) {
    words::fill(fill.buffer.words(), fill.offset, fill.bytes, fill.word);
}
