//! Where launches note which of their blocks were stopped.
//!
//! Each guarded launch has a slot while it is in flight: a counter, and a list with room for all of its
//! blocks. Only blocks that are stopped write there, so a slot that was not preempted is clean already.

use crate::context::Context;
use crate::driver::BACKEND;
use crate::memory::Buffer;
use reef_core::{Error, Result};
use std::sync::Arc;

/// Most launches of a queue in flight.
pub(crate) const SLOTS: usize = 4096;

/// A counter and a list.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Of the counter, among the queue's.
    pub(crate) index: usize,
    pub(crate) list: Buffer,
    capacity: u32,
}

/// The slots of one queue.
#[derive(Debug)]
pub(crate) struct Slots {
    context: Arc<Context>,
    /// A counter for each slot, in the device's memory.
    pub(crate) counters: Buffer,
    /// Not in flight. A list in here may still be read by a launch that resumes.
    free: Vec<Arc<Slot>>,
    made: usize,
}

impl Slots {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self> {
        let counters = Buffer::device(context, SLOTS * size_of::<u32>())?;
        Ok(Self { context: context.clone(), counters, free: Vec::new(), made: 0 })
    }

    /// A slot for `blocks` blocks; memory is allocated only when all that fit are in use.
    pub(crate) fn take(&mut self, blocks: u32) -> Result<Arc<Slot>> {
        let fits = |slot: &Arc<Slot>| slot.capacity >= blocks && Arc::strong_count(slot) == 1;
        match self.free.iter().rposition(fits) {
            Some(at) => Ok(self.free.swap_remove(at)),
            None => self.make(blocks),
        }
    }

    #[cold]
    fn make(&mut self, blocks: u32) -> Result<Arc<Slot>> {
        // A counter whose list nobody reads any more gets a longer list.
        let unread = self.free.iter().position(|slot| Arc::strong_count(slot) == 1);
        let index = match unread {
            _ if self.made < SLOTS => self.made,
            Some(at) => self.free.swap_remove(at).index,
            None => {
                let text = format!("{BACKEND}: more than {SLOTS} preemptible launches in flight");
                return Err(Error::Invalid(text));
            }
        };
        let capacity = blocks.max(256).next_power_of_two();
        let list = Buffer::device(&self.context, capacity as usize * size_of::<u32>())?;
        self.made = self.made.max(index + 1);
        Ok(Arc::new(Slot { index, list, capacity }))
    }

    /// The launch has ended.
    pub(crate) fn give_back(&mut self, slot: Arc<Slot>) {
        self.free.push(slot);
    }

    /// Counters that are or were in use.
    pub(crate) fn made(&self) -> usize {
        self.made
    }

    /// The address of a slot's counter.
    pub(crate) fn counter(&self, slot: &Slot) -> u64 {
        self.counters.address() + (slot.index * size_of::<u32>()) as u64
    }
}
