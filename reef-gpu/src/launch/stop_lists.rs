//! Where launches note which of their blocks were stopped.
//!
//! Each guarded launch has a slot while it is in flight: a counter, and a list with room for all of its
//! blocks. Only blocks that are stopped write there, so a slot that was not preempted is clean already.

use crate::driver::buffer::Buffer;
use crate::driver::context::Context;
use crate::vendor::calls::Vendor;
use reef_core::{Error, Result};
use std::sync::{Arc, Weak};

/// Most launches of a queue in flight.
pub(crate) const SLOTS: usize = 16384;

/// A counter and a list.
#[derive(Debug)]
pub(crate) struct Slot<V: Vendor> {
    /// Of the counter, among the queue's.
    pub(crate) index: usize,
    pub(crate) list: Buffer<V>,
    capacity: u32,
}

/// The slots of one queue.
#[derive(Debug)]
pub(crate) struct Slots<V: Vendor> {
    context: Arc<Context<V>>,
    /// A counter for each slot, in the device's memory.
    pub(crate) counters: Buffer<V>,
    /// Not in flight. A list in here may still be read by a launch that resumes.
    free: Vec<Arc<Slot<V>>>,
    /// All of them, by index; a graph's are not given back, but end with it.
    made: Vec<Weak<Slot<V>>>,
}

impl<V: Vendor> Slots<V> {
    pub(crate) fn new(context: &Arc<Context<V>>) -> Result<Self> {
        let counters = Buffer::device(context, SLOTS * size_of::<u32>())?;
        Ok(Self { context: context.clone(), counters, free: Vec::new(), made: Vec::new() })
    }

    /// A slot for `blocks` blocks; memory is allocated only when all that fit are in use.
    pub(crate) fn take(&mut self, blocks: u32) -> Result<Arc<Slot<V>>> {
        let fits = |slot: &Arc<Slot<V>>| slot.capacity >= blocks && Arc::strong_count(slot) == 1;
        match self.free.iter().rposition(fits) {
            Some(at) => Ok(self.free.swap_remove(at)),
            None => self.make(blocks),
        }
    }

    #[cold]
    fn make(&mut self, blocks: u32) -> Result<Arc<Slot<V>>> {
        let index = match self.unused() {
            Some(index) => index,
            None => {
                let text = format!("{}: more than {SLOTS} preemptible launches in flight", V::NAME);
                return Err(Error::Invalid(text));
            }
        };
        let capacity = blocks.max(256).next_power_of_two();
        let list = Buffer::device(&self.context, capacity as usize * size_of::<u32>())?;
        let slot = Arc::new(Slot { index, list, capacity });
        if index == self.made.len() {
            self.made.push(Weak::new());
        }
        self.made[index] = Arc::downgrade(&slot);
        Ok(slot)
    }

    /// An index that no slot has: a new one, one of a graph that is gone, or one whose list is too short.
    fn unused(&mut self) -> Option<usize> {
        if self.made.len() < SLOTS {
            return Some(self.made.len());
        }
        let gone = |slot: &Weak<Slot<V>>| slot.strong_count() == 0;
        self.made.iter().position(gone).or_else(|| {
            let at = self.free.iter().position(|slot| Arc::strong_count(slot) == 1)?;
            Some(self.free.swap_remove(at).index)
        })
    }

    /// The launch has ended.
    pub(crate) fn give_back(&mut self, slot: Arc<Slot<V>>) {
        self.free.push(slot);
    }

    /// Counters that are or were in use.
    pub(crate) fn made(&self) -> usize {
        self.made.len()
    }

    /// The address of a slot's counter.
    pub(crate) fn counter(&self, slot: &Slot<V>) -> u64 {
        self.counters.address() + (slot.index * size_of::<u32>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendor::fake::Fake;

    #[test]
    fn slots_of_graphs_that_are_gone_are_used_again() {
        let context = Arc::new(Context::new(Fake::default()));
        let mut slots = Slots::new(&context).unwrap();
        for _ in 0..2 * SLOTS {
            drop(slots.take(8).unwrap()); // as a graph's end does
        }
        let held: Vec<_> = (0..SLOTS).map(|_| slots.take(8).unwrap()).collect();
        assert!(matches!(slots.take(8), Err(Error::Invalid(_))), "all are in flight");
        let mut indices: Vec<_> = held.iter().map(|slot| slot.index).collect();
        indices.sort_unstable();
        assert_eq!(indices, (0..SLOTS).collect::<Vec<_>>());
    }
}
