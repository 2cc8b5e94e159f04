//! One queue: its commands in order, and the blocks that it gives.

use super::cpu::Cpu;
use super::task::{Item, Task};
use super::work::{Busy, Work, claim_block};
use crate::preemptor::Stop;
use reef_core::{Checkpoint as _, Drained, Error, Priority, Result, Seq};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

/// Value of [`HwQueue::done`] that sends the reader to [`HwQueue::check`].
pub(crate) const FAILED: u64 = u64::MAX;

/// Value of `evictions` of items that came while the queue was stopped.
const CAME_STOPPED: u64 = u64::MAX;

/// A block for a unit, if there is one; `Err` if there will be when others return what it works on.
pub(super) type Picked = std::result::Result<Option<Task>, Busy>;

/// The device's end of a queue.
#[derive(Debug)]
pub(crate) struct HwQueue {
    pub(super) id: u64,
    stop: Stop,
    /// Evictions until the first of `items` came, or [`CAME_STOPPED`]: since the next one they stay
    /// stopped until they are drained.
    evictions: u64,
    pub(super) items: VecDeque<Item>,
    /// Blocks on units now, padding included.
    pub(super) running: u32,
    /// Position of the real-time command, for each block that runs next to one.
    padding: Vec<u64>,
    /// All commands before this have finished.
    pub(crate) done: Arc<AtomicU64>,
    waker: Option<Thread>,
    /// Wake when `done` gets here. Written by the queue's handle.
    wake_at: Arc<AtomicU64>,
    /// A drain found blocks running; the waker hears when there are none.
    drain_wanted: bool,
    failed: Option<Error>,
    /// It has no submitting end any more, and goes when its last block has ended.
    pub(super) is_orphan: bool,
}

impl HwQueue {
    /// An empty queue, and its submitting end.
    pub(super) fn new(id: u64, stop: Stop) -> (Self, Handle) {
        let handle =
            Handle { id, done: Arc::default(), wake_at: Arc::new(AtomicU64::new(u64::MAX)) };
        let queue = Self {
            id,
            evictions: stop.evictions(),
            stop,
            items: VecDeque::new(),
            running: 0,
            padding: Vec::new(),
            done: handle.done.clone(),
            waker: None,
            wake_at: handle.wake_at.clone(),
            drain_wanted: false,
            failed: None,
            is_orphan: false,
        };
        (queue, handle)
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_raised() || self.evictions != self.stop.evictions()
    }

    /// A block of the first item, for `unit`.
    pub(super) fn claim(&mut self, unit: u32, priority: Priority) -> Picked {
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
            stop: self.stop.word.clone(),
            alone_until: None,
        }))
    }

    /// A block of the first item's padding, for `unit`.
    pub(super) fn claim_padding(&mut self, unit: u32) -> Picked {
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
        self.padding.push(item.seq.0);
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

    /// A block that ran next to the command at `seq` has ended.
    pub(super) fn end_padding(&mut self, seq: Seq) {
        if let Some(at) = self.padding.iter().position(|of| *of == seq.0) {
            self.padding.swap_remove(at);
        }
    }

    /// The oldest command next to which a block runs; it may have ended.
    pub(crate) fn oldest_padding(&self) -> Option<u64> {
        self.padding.iter().copied().min()
    }

    /// Pops items whose blocks have all finished into `abandoned`, and wakes all waiters.
    pub(super) fn advance(&mut self, abandoned: &mut Vec<Item>) {
        while let Some(item) = self.items.front()
            && item.record.remaining() == 0
        {
            item.stop_padding();
            self.done.store(item.seq.0.saturating_add(1), Ordering::SeqCst);
            abandoned.extend(self.items.pop_front());
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
    pub(super) fn fail(&mut self, error: Error, abandoned: &mut Vec<Item>) {
        self.abandon_all(abandoned);
        self.failed.get_or_insert(error);
        self.show_failure();
    }

    pub(super) fn show_failure(&self) {
        if self.failed.is_none() || self.running > 0 {
            return;
        }
        self.done.store(FAILED, Ordering::SeqCst);
        self.wake();
    }

    pub(super) fn abandon_all(&mut self, abandoned: &mut Vec<Item>) {
        self.items.iter().for_each(Item::stop_padding);
        abandoned.extend(self.items.drain(..));
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
    /// The one that ended the queue.
    pub(crate) fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Adds `item`. A queue that has failed, or fails by the record that `item` resumes, forgets
    /// it.
    pub(super) fn push(&mut self, item: Item, abandoned: &mut Vec<Item>) {
        let failed = self.failed.clone().or_else(|| item.record.failed());
        if self.items.is_empty() {
            let evictions = self.stop.evictions(); // before the poll of the word
            // Units have passed by, and no reactivation tells them to check again.
            self.evictions = if self.stop.is_raised() { CAME_STOPPED } else { evictions };
        }
        self.items.push_back(item);
        match failed {
            Some(error) => self.fail(error, abandoned),
            None => self.advance(abandoned), // it may have no blocks left
        }
    }

    pub(super) fn try_drain(&mut self, abandoned: &mut Vec<Item>) -> Result<Option<Drained<Cpu>>> {
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
        self.abandon_all(abandoned);
        Ok(Some(stopped))
    }
}

/// The submitting end of a queue.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) id: u64,
    pub(crate) done: Arc<AtomicU64>,
    pub(crate) wake_at: Arc<AtomicU64>,
}
