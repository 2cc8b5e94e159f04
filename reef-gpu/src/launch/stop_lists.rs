//! Where launches note which of their blocks were stopped.
//!
//! Each guarded launch has a stop list while it is in flight: a counter, and a list with room for all of its
//! blocks. Only blocks that are stopped write there, so a stop list that was not preempted is clean already.

use crate::driver::buffer::Buffer;
use crate::driver::context::Context;
use crate::driver::scratch::Scratch;
use crate::vendor::calls::Vendor;
use reef_core::{Error, Result};
use std::sync::{Arc, Weak};

/// Most launches of a queue in flight.
pub(crate) const MAX_STOP_LISTS: usize = 16384;

/// A counter and a list.
#[derive(Debug)]
pub(crate) struct StopList<V: Vendor> {
    /// Of the counter, among the queue's.
    pub(crate) index: usize,
    pub(crate) list: Scratch<V>,
    capacity: u32,
}

/// The stop lists of one queue.
#[derive(Debug)]
pub(crate) struct StopLists<V: Vendor> {
    context: Arc<Context<V>>,
    /// A counter for each stop list, in the device's memory.
    pub(crate) counters: Buffer<V>,
    /// Not in flight. A list in here may still be read by a launch that resumes.
    free: Vec<Arc<StopList<V>>>,
    /// All of them, by index; a graph's are not given back, but end with it.
    made: Vec<Weak<StopList<V>>>,
}

impl<V: Vendor> StopLists<V> {
    pub(crate) fn new(context: &Arc<Context<V>>) -> Result<Self> {
        let counters = Buffer::device(context, MAX_STOP_LISTS * size_of::<u32>())?;
        Ok(Self { context: context.clone(), counters, free: Vec::new(), made: Vec::new() })
    }

    /// A stop list for `blocks` blocks; memory is allocated only when all that fit are in use.
    pub(crate) fn take(&mut self, blocks: u32) -> Result<Arc<StopList<V>>> {
        let fits = |stop_list: &Arc<StopList<V>>| {
            stop_list.capacity >= blocks && Arc::strong_count(stop_list) == 1
        };
        match self.free.iter().rposition(fits) {
            Some(at) => Ok(self.free.swap_remove(at)),
            None => self.make(blocks),
        }
    }

    #[cold]
    fn make(&mut self, blocks: u32) -> Result<Arc<StopList<V>>> {
        let index = match self.unused() {
            Some(index) => index,
            None => {
                let text = format!(
                    "{}: more than {MAX_STOP_LISTS} preemptible launches in flight",
                    V::NAME
                );
                return Err(Error::Invalid(text));
            }
        };
        let capacity = blocks.max(256).next_power_of_two();
        let list = Scratch::new(&self.context, capacity as usize * size_of::<u32>())?;
        let stop_list = Arc::new(StopList { index, list, capacity });
        if index == self.made.len() {
            self.made.push(Weak::new());
        }
        self.made[index] = Arc::downgrade(&stop_list);
        Ok(stop_list)
    }

    /// An index that no stop list has: a new one, one of a graph that is gone, or one whose list is too short.
    fn unused(&mut self) -> Option<usize> {
        if self.made.len() < MAX_STOP_LISTS {
            return Some(self.made.len());
        }
        let gone = |stop_list: &Weak<StopList<V>>| stop_list.strong_count() == 0;
        self.made.iter().position(gone).or_else(|| {
            let at = self.free.iter().position(|stop_list| Arc::strong_count(stop_list) == 1)?;
            Some(self.free.swap_remove(at).index)
        })
    }

    /// The launch has ended.
    pub(crate) fn give_back(&mut self, stop_list: Arc<StopList<V>>) {
        self.free.push(stop_list);
    }

    /// Counters that are or were in use.
    pub(crate) fn made(&self) -> usize {
        self.made.len()
    }

    /// The address of a stop list's counter.
    pub(crate) fn counter(&self, stop_list: &StopList<V>) -> u64 {
        self.counters.address() + (stop_list.index * size_of::<u32>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendor::fake::Fake;

    #[test]
    fn slots_of_graphs_that_are_gone_are_used_again() {
        let context = Arc::new(Context::new(Fake::default()));
        let mut stop_lists = StopLists::new(&context).unwrap();
        for _ in 0..2 * MAX_STOP_LISTS {
            drop(stop_lists.take(8).unwrap()); // as a graph's end does
        }
        let held: Vec<_> = (0..MAX_STOP_LISTS).map(|_| stop_lists.take(8).unwrap()).collect();
        assert!(matches!(stop_lists.take(8), Err(Error::Invalid(_))), "all are in flight");
        let mut indices: Vec<_> = held.iter().map(|stop_list| stop_list.index).collect();
        indices.sort_unstable();
        assert_eq!(indices, (0..MAX_STOP_LISTS).collect::<Vec<_>>());
    }
}
