//! Lists in which commands note their blocks that were stopped.
//!
//! Each guarded command has a stop list while it is in flight: a counter, and a list with room for
//! all of its blocks. Only blocks that are stopped write there, so a stop list that was not
//! preempted is clean already.
//!
//! Launches of one command share a list. They run in order, so of what they note the entries of the
//! first that was stopped come first, and all launches after it are there whole: the count alone
//! says where to go on.

use crate::code::guard::MAX_BLOCKS;
use crate::driver::buffer::Buffer;
use crate::driver::context::Context;
use crate::driver::scratch::Scratch;
use crate::hal::calls::Vendor;
use reef_core::{Error, Result};
use std::sync::{Arc, Weak};

/// Counters that are allocated at a time.
pub(crate) const BANK: usize = 1024;

/// A counter and a list.
#[derive(Debug)]
pub(crate) struct StopList<V: Vendor> {
    /// Index of the counter, among the queue's.
    pub(crate) index: usize,
    pub(crate) list: Scratch<V>,
    capacity: u32,
}

impl<V: Vendor> StopList<V> {
    /// A list of these blocks, which a launch resumes: it has no counter, as nothing stops in it.
    pub(crate) fn of(context: &Arc<Context<V>>, blocks: &[u32]) -> Result<Self> {
        let list = Scratch::new(context, size_of_val(blocks))?;
        // SAFETY: there is room for all of them, and no launch knows the list yet.
        unsafe { list.write(blocks) }?;
        Ok(Self { index: usize::MAX, list, capacity: blocks.len() as u32 })
    }

    /// Numbers of the blocks in `count` entries from entry `first` on, of a list in which nothing
    /// stops any more.
    ///
    /// # Errors
    ///
    /// `State` if there is no room for as many; an error of the driver.
    pub(crate) fn blocks(&self, first: u32, count: u32) -> Result<Vec<u32>> {
        if first.checked_add(count).is_none_or(|end| end > self.capacity) {
            return Err(Error::state(
                "draining a queue",
                "more blocks were stopped than a list has room for",
            ));
        }
        // SAFETY: they are inside; the queue was drained, so no launch writes into the list.
        let entries = unsafe { self.list.read(first as usize, count as usize) }?;
        // The highest bits say how often a block was stopped.
        Ok(entries.into_iter().map(|entry| entry & MAX_BLOCKS).collect())
    }
}

/// The stop lists of one queue. There are as many as it has commands in flight and graphs prepared.
#[derive(Debug)]
pub(crate) struct StopLists<V: Vendor> {
    context: Arc<Context<V>>,
    /// A counter for each stop list, in the device's memory. Prepared graphs know their addresses.
    banks: Vec<Buffer<V>>,
    /// Lists that are not in flight. A list in here may still be read by a launch that resumes.
    free: Vec<Arc<StopList<V>>>,
    /// All of them, by index; a graph's are not given back, but end with it.
    made: Vec<Weak<StopList<V>>>,
}

impl<V: Vendor> StopLists<V> {
    pub(crate) fn new(context: &Arc<Context<V>>) -> Result<Self> {
        let banks = vec![bank(context)?];
        Ok(Self { context: context.clone(), banks, free: Vec::new(), made: Vec::new() })
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
        let capacity = blocks.max(256).checked_next_power_of_two().unwrap_or(blocks);
        let list = Scratch::new(&self.context, capacity as usize * size_of::<u32>())?;
        let index = self.unused()?;
        let stop_list = Arc::new(StopList { index, list, capacity });
        if index == self.made.len() {
            self.made.push(Weak::new());
        }
        self.made[index] = Arc::downgrade(&stop_list);
        Ok(stop_list)
    }

    /// An index that no stop list has: a new one, one of a graph that is gone, or one whose list is
    /// too short.
    fn unused(&mut self) -> Result<usize> {
        if self.made.len() < self.banks.len() * BANK {
            return Ok(self.made.len());
        }
        let gone = |stop_list: &Weak<StopList<V>>| stop_list.strong_count() == 0;
        if let Some(index) = self.made.iter().position(gone) {
            return Ok(index);
        }
        let is_idle = |stop_list: &Arc<StopList<V>>| Arc::strong_count(stop_list) == 1;
        if let Some(at) = self.free.iter().position(is_idle) {
            return Ok(self.free.swap_remove(at).index);
        }
        self.banks.push(bank(&self.context)?);
        Ok(self.made.len())
    }

    /// The command has ended.
    pub(crate) fn give_back(&mut self, stop_list: Arc<StopList<V>>) {
        self.free.push(stop_list);
    }

    /// Addresses of the counters that are or were in use, bank by bank, and how many there are at
    /// each.
    pub(crate) fn counters(&self) -> impl ExactSizeIterator<Item = (u64, usize)> {
        let made = self.made.len();
        let of_bank = move |(n, bank): (usize, &Buffer<V>)| {
            (bank.address(), made.saturating_sub(n * BANK).min(BANK))
        };
        self.banks.iter().enumerate().map(of_bank)
    }

    /// The address of a stop list's counter.
    pub(crate) fn counter(&self, stop_list: &StopList<V>) -> u64 {
        let (bank, at) = (stop_list.index / BANK, stop_list.index % BANK);
        self.banks[bank].address() + (at * size_of::<u32>()) as u64
    }
}

fn bank<V: Vendor>(context: &Arc<Context<V>>) -> Result<Buffer<V>> {
    Buffer::device(context, BANK * size_of::<u32>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;

    #[test]
    fn slots_of_graphs_that_are_gone_are_used_again() {
        let context = Arc::new(Context::new(Fake::default()));
        let mut stop_lists = StopLists::new(&context).unwrap();
        for _ in 0..2 * BANK {
            drop(stop_lists.take(8).unwrap()); // as a graph's end does
        }
        let held: Vec<_> = (0..BANK).map(|_| stop_lists.take(8).unwrap()).collect();
        let mut indices: Vec<_> = held.iter().map(|stop_list| stop_list.index).collect();
        indices.sort_unstable();
        assert_eq!(indices, (0..BANK).collect::<Vec<_>>());
    }

    #[test]
    fn lists_beyond_a_bank_have_counters_of_their_own() {
        let context = Arc::new(Context::new(Fake::default()));
        let mut stop_lists = StopLists::new(&context).unwrap();
        let held: Vec<_> = (0..2 * BANK + 3).map(|_| stop_lists.take(8).unwrap()).collect();
        let mut counters: Vec<_> = held.iter().map(|list| stop_lists.counter(list)).collect();
        counters.sort_unstable();
        counters.dedup();
        assert_eq!(counters.len(), held.len());
        let made: Vec<_> = stop_lists.counters().map(|(_, count)| count).collect();
        assert_eq!(made, [BANK, BANK, 3]);
    }
}
