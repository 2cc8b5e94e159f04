//! Commands in a queue, and the blocks of them that units run.

use super::work::Work;
use crate::checkpoint::Checkpoint;
use crate::kernel::{RESET, RUN};
use crate::sync::claims::Claim;
use reef_core::{Error, Priority, Seq};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// One launched command.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) seq: Seq,
    pub(crate) work: Arc<Work>,
    pub(crate) record: Checkpoint,
    pub(crate) pad: Option<Pad>,
}

impl Item {
    /// Asks blocks that ride with this kernel to stop.
    pub(super) fn stop_padding(&self) {
        if let Some(pad) = &self.pad {
            pad.stop.store(RESET, Ordering::SeqCst);
        }
    }
}

/// Best-effort blocks that ride with a real-time kernel.
#[derive(Debug)]
pub(crate) struct Pad {
    pub(crate) work: Arc<Work>,
    pub(crate) record: Checkpoint,
    /// Blocks that may still be started.
    pub(crate) quota: u32,
    /// Units from here on are free for padding.
    pub(crate) rt_units: u32,
    /// Raised when the real-time kernel is done.
    pub(crate) stop: Arc<AtomicU8>,
}

/// A block that a unit shall run.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) queue: u64,
    pub(crate) priority: Priority,
    pub(crate) padding: bool,
    pub(crate) seq: Seq,
    pub(crate) work: Arc<Work>,
    pub(crate) record: Checkpoint,
    pub(crate) claim: Claim,
    pub(crate) stop: Arc<AtomicU8>,
    /// The unit that has it may go on with further blocks of the same kernel until the counter of
    /// new work exceeds this number: it would be given no others.
    pub(crate) alone_until: Option<u64>,
}

impl Task {
    /// Finishes the block and goes on with another of its kernel, unless there is none or the queue
    /// is stopped.
    pub(crate) fn go_on(&mut self, unit: u32) -> bool {
        self.stop.load(Ordering::SeqCst) == RUN && self.record.go_on(&mut self.claim, unit)
    }
}

/// End of a unit's task.
#[derive(Debug)]
pub(crate) enum TaskEnd {
    Done,
    Stopped,
    Failed(Error),
}

/// Message to the hardware from a thread that does not wait for it.
#[derive(Debug)]
pub(crate) enum Message {
    /// A command for the queue with this number.
    Item(u64, Item),
    /// A unit's task is over.
    Ended(Task, TaskEnd),
}

/// Items and tasks to drop without the lock: a kernel may own anything, this device included.
#[derive(Debug, Default)]
pub(crate) struct AbandonedTask {
    pub(super) items: Vec<Item>,
    pub(super) tasks: Vec<Task>,
}

impl AbandonedTask {
    /// Drops all of them. A drop that panics ends no unit, which may have claimed a block, and
    /// keeps no other from being dropped; the panic has been printed.
    pub(super) fn drop_each(self) {
        self.items.into_iter().for_each(drop_caught);
        self.tasks.into_iter().for_each(drop_caught);
    }
}

fn drop_caught<T>(value: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}
