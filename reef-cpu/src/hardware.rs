//! What real hardware would hold: queues of launches, and the choice of the block that a free unit
//! runs next.
//!
//! Everything is behind one lock, held for well under a microsecond per block; a block takes tens. Commands that come
//! and blocks that end are messages to it, so that neither clients nor units wait for the lock.
//!
//! A unit takes, in this order: blocks of real-time queues; padding of the real-time kernel that
//! runs, on the units which that kernel leaves free; blocks of best-effort queues in turn, unless
//! their preemptor is up. Of each queue only the first kernel gives blocks: queues are in order.

use crate::borrow::{self, Access, Borrows, User};
use crate::checkpoint::Checkpoint;
use crate::cpu::Cpu;
use crate::event::Event;
use crate::kernel::{RESET, RUN};
use crate::memory::Buffer;
use crate::sync::claims::Claim;
use crate::sync::combined::Takes;
use reef_core::{Checkpoint as _, Copy, Drained, Error, Fill, Launch, Priority, Result, Seq};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::Thread;

/// Value of [`HwQueue::done`] that sends the reader to [`HwQueue::check`].
pub(crate) const FAILED: u64 = u64::MAX;

/// What one item of a queue does.
#[derive(Debug)]
pub(crate) enum Work {
    Kernel(Launch<Cpu>),
    Copy(Copy<Cpu>),
    Fill(Fill<Cpu>),
    Event(Event),
}

impl Work {
    /// Kernels have blocks that are done one by one; everything else is one piece.
    pub(crate) fn blocks(&self) -> u32 {
        match self {
            Self::Kernel(launch) => launch.blocks(),
            _ => 1,
        }
    }

    /// Buffers and ranges that it touches, to be checked before it is queued.
    pub(crate) fn ranges(&self) -> [Option<(&Buffer, usize, usize)>; 2] {
        match self {
            Self::Copy(c) => {
                [Some((&c.from, c.from_offset, c.bytes)), Some((&c.to, c.to_offset, c.bytes))]
            }
            Self::Fill(f) => [Some((&f.buffer, f.offset, f.bytes)), None],
            Self::Kernel(_) | Self::Event(_) => [None, None],
        }
    }
}

/// What a block of `work` borrows while it runs, what it writes in front.
fn uses(work: &Work) -> impl Iterator<Item = (&Borrows, Access)> + Clone {
    let (copied, listed) = match work {
        Work::Kernel(launch) => ([None, None], launch.kernel().uses()),
        Work::Copy(c) => ([Some((&c.to, Access::Write)), Some((&c.from, Access::Read))], &[][..]),
        Work::Fill(f) => ([Some((&f.buffer, Access::Write)), None], &[][..]),
        Work::Event(_) => ([None, None], &[][..]),
    };
    let listed = listed.iter().map(|(buffer, access)| (buffer, *access));
    copied.into_iter().flatten().chain(listed).map(|(buffer, access)| (buffer.borrows(), access))
}

/// The right of `unit` to run a block, if one is left, with all that it uses borrowed for it. `Err` if others have that.
fn claim_block(
    unit: u32,
    work: &Arc<Work>,
    record: &Checkpoint,
) -> std::result::Result<Option<Claim>, Busy> {
    if !borrow::try_borrow(User(Arc::as_ptr(work).addr()), uses(work)) {
        return Err(Busy);
    }
    let claim = record.claim(unit);
    if claim.is_none() {
        borrow::give_back(uses(work));
    }
    Ok(claim)
}

/// What a block works on is in use: its queue gives no blocks now.
#[derive(Debug)]
struct Busy;

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
    fn stop_padding(&self) {
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
    /// Until there are more news than so many, the unit that has it may go on with further blocks of the same kernel:
    /// it would be given no others.
    pub(crate) alone_until: Option<u64>,
}

impl Task {
    /// Finishes the block and goes on with another of its kernel, unless there is none. The kernel's end is never
    /// passed here, as the next block is claimed before this one is finished.
    pub(crate) fn go_on(&mut self, unit: u32) -> bool {
        let runs = self.stop.load(Ordering::SeqCst) == RUN;
        let next = if runs { self.record.claim(unit) } else { None };
        let Some(next) = next else { return false };
        self.record.finish(std::mem::replace(&mut self.claim, next));
        true
    }
}

/// A block for a unit, if there is one; `Err` if there will be when others return what it works on.
type Picked = std::result::Result<Option<Task>, Busy>;

/// How a unit's task ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Done,
    Stopped,
    Failed(Error),
}

/// What is told to the hardware, by whoever doesn't wait for it.
#[derive(Debug)]
pub(crate) enum Message {
    /// A command for the queue with this number.
    Item(u64, Item),
    /// A unit's task is over.
    Ended(Task, Ended),
}

/// What is to be dropped without the lock: a kernel may own anything, this device included.
#[derive(Debug, Default)]
pub(crate) struct Buried {
    items: Vec<Item>,
    tasks: Vec<Task>,
}

/// The device's end of a queue.
#[derive(Debug)]
pub(crate) struct HwQueue {
    id: u64,
    /// Nothing starts unless it is [`RUN`].
    stop: Arc<AtomicU8>,
    items: VecDeque<Item>,
    /// Blocks on units now, padding included.
    running: u32,
    /// All commands before this have finished.
    pub(crate) done: Arc<AtomicU64>,
    waker: Option<Thread>,
    /// Wake when `done` gets here. Written by the queue's handle.
    wake_at: Arc<AtomicU64>,
    /// A drain found blocks running; the waker hears when there are none.
    drain_wanted: bool,
    failed: Option<Error>,
}

impl HwQueue {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst) != RUN
    }

    /// A block of the first item, for `unit`.
    fn claim(&mut self, unit: u32, priority: Priority) -> Picked {
        if self.is_stopped() {
            return Ok(None);
        }
        let Some(item) = self.items.front_mut() else { return Ok(None) };
        if item.pad.as_ref().is_some_and(|pad| unit >= pad.rt_units && pad.quota > 0) {
            return Ok(None); // left free for padding
        }
        let Some(claim) = claim_block(unit, &item.work, &item.record)? else { return Ok(None) };
        self.running += 1;
        Ok(Some(Task {
            queue: self.id,
            priority,
            padding: false,
            seq: item.seq,
            work: item.work.clone(),
            record: item.record.clone(),
            claim,
            stop: self.stop.clone(),
            alone_until: None,
        }))
    }

    /// A block of the first item's padding, for `unit`.
    fn claim_padding(&mut self, unit: u32) -> Picked {
        let Some(item) = self.items.front_mut() else { return Ok(None) };
        let Some(pad) = item.pad.as_mut() else { return Ok(None) };
        if unit < pad.rt_units || pad.quota == 0 {
            return Ok(None);
        }
        let Some(claim) = claim_block(unit, &pad.work, &pad.record)? else {
            pad.quota = 0; // the others are running, or it is finished
            return self.claim(unit, Priority::RealTime);
        };
        pad.quota -= 1;
        self.running += 1;
        Ok(Some(Task {
            queue: self.id,
            priority: Priority::BestEffort,
            padding: true,
            seq: item.seq,
            work: pad.work.clone(),
            record: pad.record.clone(),
            claim,
            stop: pad.stop.clone(),
            alone_until: None,
        }))
    }

    /// Pops items whose blocks have all finished into `buried`, and tells whoever waits.
    fn advance(&mut self, buried: &mut Vec<Item>) {
        while let Some(item) = self.items.front()
            && item.record.remaining() == 0
        {
            item.stop_padding();
            self.done.store(item.seq.0.saturating_add(1), Ordering::SeqCst);
            buried.extend(self.items.pop_front());
        }
        let reached = self.done.load(Ordering::SeqCst) >= self.wake_at.load(Ordering::SeqCst);
        let drained = self.drain_wanted && self.running == 0;
        if reached || drained {
            self.wake_at.store(u64::MAX, Ordering::SeqCst);
            self.drain_wanted = false;
            self.wake();
        }
    }

    /// Ends the queue. It shows when none of its blocks runs any more.
    fn fail(&mut self, error: Error, buried: &mut Vec<Item>) {
        self.bury_all(buried);
        self.failed.get_or_insert(error);
        self.show_failure();
    }

    fn show_failure(&self) {
        if self.failed.is_none() || self.running > 0 {
            return;
        }
        self.done.store(FAILED, Ordering::SeqCst);
        self.wake();
    }

    fn bury_all(&mut self, buried: &mut Vec<Item>) {
        self.items.iter().for_each(Item::stop_padding);
        buried.extend(self.items.drain(..));
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.unpark();
        }
    }

    pub(crate) fn set_waker(&mut self, thread: Thread) {
        self.waker = Some(thread);
    }

    /// # Errors
    ///
    /// What ended the queue.
    pub(crate) fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Adds `item`. A queue that has failed, or fails by the record that `item` resumes, forgets it.
    fn push(&mut self, item: Item, buried: &mut Vec<Item>) {
        let failed = self.failed.clone().or_else(|| item.record.failed());
        self.items.push_back(item);
        match failed {
            Some(error) => self.fail(error, buried),
            None => self.advance(buried), // it may have no blocks left
        }
    }

    fn try_drain(&mut self, buried: &mut Vec<Item>) -> Result<Option<Drained<Cpu>>> {
        if self.running > 0 || (!self.items.is_empty() && !self.is_stopped()) {
            self.drain_wanted = true;
            return Ok(None);
        }
        self.check()?;
        let next = Seq(self.done.load(Ordering::Acquire));
        let Some(first) = self.items.front() else {
            return Ok(Some(Drained { resume_at: next, partial: None, held: false }));
        };
        let partial = matches!(*first.work, Work::Kernel(_)) && first.record.is_touched();
        let partial = partial.then(|| first.record.clone());
        let stopped = Drained { resume_at: first.seq, partial, held: false };
        self.bury_all(buried);
        Ok(Some(stopped))
    }
}

/// What the submitting end has of a queue.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) id: u64,
    pub(crate) done: Arc<AtomicU64>,
    pub(crate) wake_at: Arc<AtomicU64>,
}

/// All queues of the device.
#[derive(Debug, Default)]
pub(crate) struct Hardware {
    real_time: Vec<HwQueue>,
    /// In the order in which their next blocks are taken.
    best_effort: VecDeque<HwQueue>,
    next_id: u64,
    buried: Buried,
    /// Blocks may have come that idle units don't know of.
    news: bool,
    /// A queue has failed, which units that are alone with its kernel have to hear of.
    failure: bool,
    /// Some queue's next block waited for memory that others have borrowed.
    busy: bool,
}

impl Hardware {
    /// Lets idle units look for blocks.
    pub(crate) fn announce(&mut self) {
        self.news = true;
    }

    /// Whether there may be blocks that idle units don't know of, and what is over.
    pub(crate) fn take_news(&mut self) -> (bool, Buried) {
        self.failure = false;
        (std::mem::take(&mut self.news), std::mem::take(&mut self.buried))
    }

    /// Whether [`take_news`](Self::take_news) would tell of blocks.
    pub(crate) fn has_news(&self) -> bool {
        self.news
    }

    /// There is nothing for any unit: what has come since the lock was taken calls none, but for a failure.
    pub(crate) fn forget_news(&mut self) {
        self.news = self.failure;
    }

    pub(crate) fn open(&mut self, priority: Priority, stop: Arc<AtomicU8>) -> Handle {
        let id = self.next_id;
        self.next_id += 1;
        let handle =
            Handle { id, done: Arc::default(), wake_at: Arc::new(AtomicU64::new(u64::MAX)) };
        let queue = HwQueue {
            id,
            stop,
            items: VecDeque::new(),
            running: 0,
            done: handle.done.clone(),
            waker: None,
            wake_at: handle.wake_at.clone(),
            drain_wanted: false,
            failed: None,
        };
        match priority {
            Priority::RealTime => self.real_time.push(queue),
            Priority::BestEffort => self.best_effort.push_back(queue),
        }
        handle
    }

    pub(crate) fn close(&mut self, id: u64) {
        self.real_time.retain(|q| q.id != id);
        self.best_effort.retain(|q| q.id != id);
    }

    /// The queue, and where its items are buried.
    fn find(&mut self, id: u64) -> (&mut HwQueue, &mut Vec<Item>) {
        let queue = self.real_time.iter_mut().chain(&mut self.best_effort).find(|q| q.id == id);
        (queue.expect("a queue is closed when its handle is dropped"), &mut self.buried.items)
    }

    pub(crate) fn queue(&mut self, id: u64) -> &mut HwQueue {
        self.find(id).0
    }

    /// See [`reef_core::Queue::try_drain`].
    pub(crate) fn try_drain(&mut self, id: u64) -> Result<Option<Drained<Cpu>>> {
        let (queue, buried) = self.find(id);
        queue.try_drain(buried)
    }

    /// Forgets what has not started. Returns whether nothing runs.
    pub(crate) fn abandon(&mut self, id: u64) -> bool {
        let (queue, buried) = self.find(id);
        let (has_items, runs) = (!queue.items.is_empty(), queue.running > 0);
        queue.bury_all(buried);
        self.news |= has_items || runs; // units that are alone with it hear of it
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

    /// Whether a unit that has `task` would be given further blocks of the same kernel, until there are news.
    pub(crate) fn is_alone(&self, task: &Task) -> bool {
        let others = |q: &HwQueue| q.id != task.queue && !q.items.is_empty();
        let in_turn = task.priority == Priority::RealTime || !self.best_effort.iter().any(others);
        // Padding is rationed.
        !task.padding && in_turn && !self.leaves_units_free() && !self.busy
    }

    /// Whether a real-time kernel leaves some units free for padding.
    fn leaves_units_free(&self) -> bool {
        let left_free = |q: &HwQueue| {
            q.items.front().and_then(|item| item.pad.as_ref()).is_some_and(|pad| pad.quota > 0)
        };
        self.real_time.iter().any(left_free)
    }

    /// Whether no unit could have a block, as one has just found none, until there are news.
    pub(crate) fn has_none(&self) -> bool {
        !self.busy && !self.leaves_units_free()
    }

    /// Whether some block waits for memory. Its return is announced by blocks of this device, not by the host's
    /// copies and other devices: look again soon.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Books how a task ended.
    fn finish(&mut self, task: &Task, ended: Ended) {
        borrow::give_back(uses(&task.work));
        if std::mem::take(&mut self.busy) {
            self.announce();
        }
        match &ended {
            Ended::Done => task.record.finish(task.claim),
            Ended::Stopped => {
                task.record.give_back(task.claim);
                // Nobody can have a block of a queue that is stopped before it is drained and its commands pushed
                // again, which is announced. All units stop at once: each would call all others to the lock.
                if task.padding || task.stop.load(Ordering::SeqCst) == RUN {
                    self.announce();
                }
            }
            Ended::Failed(error) if task.padding => task.record.fail(error.clone()),
            Ended::Failed(_) => {}
        }
        self.failure |= matches!(ended, Ended::Failed(_));
        let (queue, buried) = self.find(task.queue);
        queue.running -= 1;
        queue.show_failure();
        match ended {
            Ended::Failed(error) if !task.padding => queue.fail(error, buried),
            _ => queue.advance(buried),
        }
        if task.padding {
            self.note_padding();
        }
    }

    /// A best-effort queue may hold the record of a block that ran as padding.
    fn note_padding(&mut self) {
        let buried = &mut self.buried.items;
        for queue in &mut self.best_effort {
            match queue.items.front().and_then(|item| item.record.failed()) {
                Some(error) => queue.fail(error, buried),
                None => queue.advance(buried),
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
                let (queue, buried) = self.find(id);
                queue.push(item, buried);
            }
            Message::Ended(task, ended) => {
                let over = self.buried.items.len();
                self.finish(&task, ended);
                self.news |= self.buried.items.len() > over; // an item that is over makes way for the next
                self.buried.tasks.push(task);
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
    use super::*;
    use crate::kernel::{EVICT, Kernel, Outcome};
    use reef_core::Args;

    /// A best-effort queue with a kernel of so many blocks, all of which run.
    fn running(blocks: u32) -> (Hardware, Arc<AtomicU8>, Vec<Task>) {
        let mut hardware = Hardware::default();
        let stop = Arc::new(AtomicU8::new(RUN));
        let handle = hardware.open(Priority::BestEffort, stop.clone());
        let kernel = Kernel::new("test", |_, _| Outcome::Stopped);
        // SAFETY: the kernel takes no arguments and touches no memory.
        let launch = unsafe { Launch::new(kernel, [blocks, 1, 1], [1; 3], Args::new(&[])) };
        let (work, record) = (Arc::new(Work::Kernel(launch)), Checkpoint::new(blocks));
        let item = Item { seq: Seq(0), work, record, pad: None };
        hardware.take(Message::Item(handle.id, item));
        assert!(hardware.take_news().0, "a kernel is announced");
        let tasks = (0..blocks).map(|unit| hardware.pick(unit).unwrap()).collect();
        (hardware, stop, tasks)
    }

    /// Tells the hardware that `task` is over.
    fn end(hardware: &mut Hardware, task: Task, ended: Ended) {
        hardware.take(Message::Ended(task, ended));
    }

    #[test]
    fn blocks_that_stop_because_their_queue_does_call_no_unit() {
        let (mut hardware, stop, tasks) = running(16);
        let queue = tasks[0].queue;
        stop.store(EVICT, Ordering::SeqCst);
        stop.store(RESET, Ordering::SeqCst);
        for task in tasks {
            end(&mut hardware, task, Ended::Stopped);
            assert!(!hardware.take_news().0, "nobody can have the block");
        }
        assert!(hardware.pick(0).is_none() && hardware.has_none());
        assert!(hardware.try_drain(queue).unwrap().is_some());
        assert!(!hardware.take_news().0, "what is drained makes way for nothing");
    }

    #[test]
    fn a_block_that_others_can_have_is_announced() {
        let (mut hardware, _, mut tasks) = running(2);
        let first = tasks.remove(0);
        let index = first.claim.index;
        end(&mut hardware, first, Ended::Stopped);
        assert!(hardware.take_news().0);
        assert_eq!(hardware.pick(1).unwrap().claim.index, index);
    }

    #[test]
    fn a_kernel_that_is_over_makes_way_for_the_next_one_aloud() {
        let (mut hardware, _, mut tasks) = running(1);
        let task = tasks.remove(0);
        let (work, record) = (task.work.clone(), Checkpoint::new(1));
        hardware.take(Message::Item(task.queue, Item { seq: Seq(1), work, record, pad: None }));
        assert!(hardware.take_news().0);
        assert!(hardware.pick(0).is_none() && hardware.has_none(), "queues are in order");
        end(&mut hardware, task, Ended::Done);
        assert!(hardware.take_news().0);
        assert_eq!(hardware.pick(0).unwrap().seq, Seq(1));
    }

    #[test]
    fn blocks_of_padding_are_not_for_every_unit() {
        let (mut hardware, _, mut tasks) = running(1);
        let be = tasks.remove(0);
        let handle = hardware.open(Priority::RealTime, Arc::new(AtomicU8::new(RUN)));
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
