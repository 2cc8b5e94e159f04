//! All queues, and the choice of the block that a free unit runs next.
//!
//! Everything is behind one lock, held for well under a microsecond per block; a block takes tens.
//! Commands that come and blocks that end are messages to it, so that neither clients nor units
//! wait for the lock.
//!
//! A unit takes, in this order: blocks of real-time queues; padding of the real-time kernel that
//! runs, on the units which that kernel leaves free; blocks of best-effort queues in turn, unless
//! their preemptor is up. Of each queue only the first kernel gives blocks: queues are in order.

use super::cpu::Cpu;
use super::hw_queue::{Handle, HwQueue, Picked};
use super::task::{AbandonedTask, Item, Message, Task, TaskEnd};
use super::work::{Busy, uses};
use crate::kernel::RUN;
use crate::memory::borrow;
use crate::preemptor::Stop;
use crate::sync::combined::Takes;
use reef_core::{Drained, Priority, Result};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// All queues of the device.
#[derive(Debug, Default)]
pub(crate) struct Hardware {
    real_time: Vec<HwQueue>,
    /// Queues in the order in which their next blocks are taken.
    best_effort: VecDeque<HwQueue>,
    next_id: u64,
    abandoned: AbandonedTask,
    /// Blocks may have come that idle units don't know of.
    new_work: bool,
    /// A queue has failed, which units that are alone with its kernel have to hear of.
    failure: bool,
    /// Some queue's next block waited for memory that others have borrowed.
    busy: bool,
}

impl Hardware {
    /// Lets idle units look for blocks.
    pub(crate) fn announce(&mut self) {
        self.new_work = true;
    }

    /// Takes the mark of new work that idle units don't know of, and the items that are over.
    pub(crate) fn take_new_work(&mut self) -> (bool, AbandonedTask) {
        self.failure = false;
        (std::mem::take(&mut self.new_work), std::mem::take(&mut self.abandoned))
    }

    /// Returns whether [`take_new_work`](Self::take_new_work) would report new work.
    pub(crate) fn has_new_work(&self) -> bool {
        self.new_work
    }

    /// There is nothing for any unit: what has come since the lock was taken calls none, but for a
    /// failure.
    pub(crate) fn forget_new_work(&mut self) {
        self.new_work = self.failure;
    }

    pub(crate) fn open(&mut self, priority: Priority, stop: Stop) -> Handle {
        let id = self.next_id;
        self.next_id += 1;
        let (queue, handle) = HwQueue::new(id, stop);
        match priority {
            Priority::RealTime => self.real_time.push(queue),
            Priority::BestEffort => self.best_effort.push_back(queue),
        }
        handle
    }

    /// Forgets a queue; one of which a block runs when that has ended.
    pub(crate) fn close(&mut self, id: u64) {
        let queue = self.queue(id);
        queue.is_orphan = true;
        if queue.running == 0 {
            self.real_time.retain(|q| q.id != id);
            self.best_effort.retain(|q| q.id != id);
        }
    }

    /// Queues that are open, or of which a block runs.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.real_time.len() + self.best_effort.len()
    }

    /// The queue, and where its items are abandoned.
    fn find(&mut self, id: u64) -> (&mut HwQueue, &mut Vec<Item>) {
        let queue = self.real_time.iter_mut().chain(&mut self.best_effort).find(|q| q.id == id);
        (queue.expect("its handle is there, or a block of it runs"), &mut self.abandoned.items)
    }

    pub(crate) fn queue(&mut self, id: u64) -> &mut HwQueue {
        self.find(id).0
    }

    /// See [`reef_core::Queue::try_drain`].
    pub(crate) fn try_drain(&mut self, id: u64) -> Result<Option<Drained<Cpu>>> {
        let (queue, abandoned) = self.find(id);
        queue.try_drain(abandoned)
    }

    /// Forgets what has not started. Returns whether nothing runs.
    pub(crate) fn abandon(&mut self, id: u64) -> bool {
        let (queue, abandoned) = self.find(id);
        let (has_items, runs) = (!queue.items.is_empty(), queue.running > 0);
        queue.abandon_all(abandoned);
        self.new_work |= has_items || runs; // units that are alone with it hear of it
        !runs
    }

    /// The block that `unit` shall run now.
    pub(crate) fn pick(&mut self, unit: u32) -> Option<Task> {
        let (rt, mut busy) = (Priority::RealTime, false);
        let mut found = |picked: Picked| {
            picked.unwrap_or_else(|Busy| {
                busy = true;
                None
            })
        };
        let task = self
            .real_time
            .iter_mut()
            .find_map(|q| found(q.claim(unit, rt)))
            .or_else(|| self.real_time.iter_mut().find_map(|q| found(q.claim_padding(unit))))
            .or_else(|| {
                pick_in_turn(&mut self.best_effort, |q| found(q.claim(unit, Priority::BestEffort)))
            });
        // With a task some queues were not asked, and padding isn't for every unit.
        self.busy = busy || (self.busy && (task.is_some() || self.leaves_units_free()));
        task
    }

    /// Returns whether a unit that has `task` would be given further blocks of the same kernel,
    /// until there is new work.
    pub(crate) fn is_alone(&self, task: &Task) -> bool {
        let others = |q: &HwQueue| q.id != task.queue && !q.items.is_empty();
        let in_turn = task.priority == Priority::RealTime || !self.best_effort.iter().any(others);
        // Padding is rationed.
        !task.padding && in_turn && !self.leaves_units_free() && !self.busy
    }

    /// Returns whether a real-time kernel leaves some units free for padding.
    fn leaves_units_free(&self) -> bool {
        let left_free = |q: &HwQueue| {
            q.items.front().and_then(|item| item.pad.as_ref()).is_some_and(|pad| pad.quota > 0)
        };
        self.real_time.iter().any(left_free)
    }

    /// Returns whether no unit could have a block, as one has just found none, until there is new
    /// work.
    pub(crate) fn has_none(&self) -> bool {
        !self.busy && !self.leaves_units_free()
    }

    /// Returns whether some block waits for memory. Its return is announced by blocks of this
    /// device, not by the host's copies and other devices, so a unit polls again soon.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Records how a task ended.
    fn finish(&mut self, task: &Task, ended: TaskEnd) {
        borrow::give_back(uses(&task.work));
        if std::mem::take(&mut self.busy) {
            self.announce();
        }
        match &ended {
            TaskEnd::Done => task.record.finish(task.claim),
            TaskEnd::Stopped => {
                task.record.give_back(task.claim);
                // No unit can have a block of a queue that is stopped before it is drained and its
                // commands pushed again, which is announced. All units stop at once, so each
                // announcement would call all others to the lock.
                if task.padding || task.stop.load(Ordering::SeqCst) == RUN {
                    self.announce();
                }
            }
            TaskEnd::Failed(error) if task.padding => task.record.fail(error.clone()),
            TaskEnd::Failed(_) => {}
        }
        self.failure |= matches!(ended, TaskEnd::Failed(_));
        let (queue, abandoned) = self.find(task.queue);
        queue.running -= 1;
        if task.padding {
            queue.end_padding(task.seq);
        }
        let is_orphan = queue.is_orphan;
        queue.show_failure();
        match ended {
            TaskEnd::Failed(error) if !task.padding => queue.fail(error, abandoned),
            _ => queue.advance(abandoned),
        }
        if task.padding {
            self.note_padding();
        }
        if is_orphan {
            self.close(task.queue);
        }
    }

    /// A best-effort queue may hold the record of a block that ran as padding.
    fn note_padding(&mut self) {
        let abandoned = &mut self.abandoned.items;
        for queue in &mut self.best_effort {
            match queue.items.front().and_then(|item| item.record.failed()) {
                Some(error) => queue.fail(error, abandoned),
                None => queue.advance(abandoned),
            }
        }
    }
}

impl Takes for Hardware {
    type Message = Message;

    fn take(&mut self, message: Message) {
        match message {
            Message::Item(id, item) => {
                self.announce();
                let (queue, abandoned) = self.find(id);
                queue.push(item, abandoned);
            }
            Message::Ended(task, ended) => {
                let over = self.abandoned.items.len();
                self.finish(&task, ended);
                // An item that is over makes way for the next.
                self.new_work |= self.abandoned.items.len() > over;
                self.abandoned.tasks.push(task);
            }
        }
    }
}

/// Queues take turns, block by block.
fn pick_in_turn(
    queues: &mut VecDeque<HwQueue>,
    mut claim: impl FnMut(&mut HwQueue) -> Option<Task>,
) -> Option<Task> {
    for turn in 0..queues.len() {
        if let Some(task) = claim(&mut queues[turn]) {
            queues.rotate_left(turn + 1);
            return Some(task);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::task::Pad;
    use super::super::work::Work;
    use super::*;
    use crate::checkpoint::Checkpoint;
    use crate::kernel::{EVICT, Kernel, Outcome, RESET};
    use reef_core::{Args, Launch, Seq};
    use std::sync::Arc;
    use std::sync::atomic::AtomicU8;

    /// A best-effort queue with a kernel of `blocks` blocks, all of which run.
    fn running(blocks: u32) -> (Hardware, Arc<AtomicU8>, Vec<Task>) {
        let mut hardware = Hardware::default();
        let stop = Stop::new();
        let handle = hardware.open(Priority::BestEffort, stop.clone());
        let kernel = Kernel::new("test", |_, _| Outcome::Stopped);
        // SAFETY: the kernel takes no arguments and touches no memory.
        let launch = unsafe { Launch::new(kernel, [blocks, 1, 1], [1; 3], Args::new(&[])) };
        let (work, record) = (Arc::new(Work::Kernel(launch)), Checkpoint::new(blocks));
        let item = Item { seq: Seq(0), work, record, pad: None };
        hardware.take(Message::Item(handle.id, item));
        assert!(hardware.take_new_work().0, "a kernel is announced");
        let tasks = (0..blocks).map(|unit| hardware.pick(unit).unwrap()).collect();
        (hardware, stop.word, tasks)
    }

    /// Reports to the hardware that `task` is over.
    fn end(hardware: &mut Hardware, task: Task, ended: TaskEnd) {
        hardware.take(Message::Ended(task, ended));
    }

    #[test]
    fn blocks_that_stop_because_their_queue_does_call_no_unit() {
        let (mut hardware, stop, tasks) = running(16);
        let queue = tasks[0].queue;
        stop.store(EVICT, Ordering::SeqCst);
        stop.store(RESET, Ordering::SeqCst);
        for task in tasks {
            end(&mut hardware, task, TaskEnd::Stopped);
            assert!(!hardware.take_new_work().0, "no unit can have the block");
        }
        assert!(hardware.pick(0).is_none() && hardware.has_none());
        assert!(hardware.try_drain(queue).unwrap().is_some());
        assert!(!hardware.take_new_work().0, "what is drained makes way for nothing");
    }

    #[test]
    fn a_block_that_others_can_have_is_announced() {
        let (mut hardware, _, mut tasks) = running(2);
        let first = tasks.remove(0);
        let index = first.claim.index;
        end(&mut hardware, first, TaskEnd::Stopped);
        assert!(hardware.take_new_work().0);
        assert_eq!(hardware.pick(1).unwrap().claim.index, index);
    }

    #[test]
    fn a_kernel_that_is_over_makes_way_for_the_next_one_aloud() {
        let (mut hardware, _, mut tasks) = running(1);
        let task = tasks.remove(0);
        let (work, record) = (task.work.clone(), Checkpoint::new(1));
        hardware.take(Message::Item(task.queue, Item { seq: Seq(1), work, record, pad: None }));
        assert!(hardware.take_new_work().0);
        assert!(hardware.pick(0).is_none() && hardware.has_none(), "queues are in order");
        end(&mut hardware, task, TaskEnd::Done);
        assert!(hardware.take_new_work().0);
        assert_eq!(hardware.pick(0).unwrap().seq, Seq(1));
    }

    #[test]
    fn blocks_of_padding_are_not_for_every_unit() {
        let (mut hardware, _, mut tasks) = running(1);
        let be = tasks.remove(0);
        let handle = hardware.open(Priority::RealTime, Stop::new());
        let pad = Pad {
            work: be.work.clone(),
            record: Checkpoint::new(1),
            quota: 1,
            rt_units: 1,
            stop: Arc::new(AtomicU8::new(RUN)),
        };
        let item =
            Item { seq: Seq(0), work: be.work.clone(), record: Checkpoint::new(1), pad: Some(pad) };
        hardware.take(Message::Item(handle.id, item));
        assert!(!hardware.pick(0).unwrap().padding);
        assert!(hardware.pick(0).is_none() && !hardware.has_none(), "unit 1 may have one");
        let padding = hardware.pick(1).unwrap();
        assert!(padding.padding && !hardware.is_alone(&padding), "the ration is used up");
        assert!(hardware.pick(1).is_none() && hardware.has_none());
    }
}
