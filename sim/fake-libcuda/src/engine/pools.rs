//! The world's pools, and allocations from them.

use super::device_memory::{give_back, leave};
use super::pool::granted;
use super::world::World;

impl World {
    /// Allocates from a pool in a stream. None: there is no memory left.
    pub(crate) fn use_pool(&mut self, pool: usize, bytes: u64, stream: u64) -> Option<usize> {
        let at = self.pools.entry(pool).or_default().allocate(bytes, stream)?;
        self.pooled.insert(at, (pool, granted(bytes)));
        Some(at)
    }

    /// Returns whether managed memory of a pool begins at an address.
    pub(crate) fn is_of_managed_pool(&self, at: usize) -> bool {
        let pool = self.pooled.get(&at).and_then(|(pool, _)| self.pools.get(pool));
        pool.is_some_and(|pool| pool.is_managed)
    }

    /// Ends an allocation from a pool when a stream has reached this point: the pool, and the
    /// number with which the stream says so.
    pub(crate) fn leave_pool_in(&mut self, at: usize, stream: u64) -> Option<(usize, u64)> {
        let (pool, bytes) = self.pooled.remove(&at)?;
        let number = self.number();
        self.pools.entry(pool).or_default().leave_in(stream, number, at, bytes);
        Some((pool, number))
    }

    /// A stream has reached the end of an allocation.
    pub(crate) fn left_pool(&mut self, pool: usize, number: u64) {
        self.pools.entry(pool).or_default().reached(number);
        self.end_pool(pool);
    }

    /// Ends a destroyed pool that nothing uses.
    fn end_pool(&mut self, pool: usize) {
        let found = self.pools.entry(pool).or_default();
        if found.is_destroyed && found.is_unused() {
            found.absorb();
            found.shrink(0);
            self.pools.remove(&pool);
        }
    }

    /// Destroys a pool. What is still used of it keeps it.
    pub(crate) fn destroy_pool(&mut self, pool: usize) {
        self.pools.entry(pool).or_default().is_destroyed = true;
        self.end_pool(pool);
    }

    pub(crate) fn trim_pool(&mut self, pool: usize, keep: u64) {
        self.pools.entry(pool).or_default().shrink(keep);
    }

    /// Has all pools give back what is beyond their thresholds, because a call waits. What streams
    /// have freed by then is for all of them.
    pub(crate) fn release_pools(&mut self) {
        for pool in self.pools.values_mut().filter(|pool| !pool.is_destroyed) {
            pool.absorb();
            pool.shrink(pool.threshold);
        }
    }

    /// Keeps the memory of an allocation from a pool, which a file has, after its end as well.
    /// False: there is none at this address.
    pub(crate) fn hold_pooled(&mut self, at: usize, bytes: usize) -> bool {
        let end = |from: usize, granted: u64| from.saturating_add(granted as usize);
        let has = |(from, (_, granted)): &(&usize, &(usize, u64))| {
            **from <= at && at.saturating_add(bytes) <= end(**from, *granted)
        };
        let Some((&from, &(pool, granted))) = self.pooled.iter().find(has) else { return false };
        self.pools.entry(pool).or_default().held.push(from..end(from, granted));
        true
    }

    /// Ends an allocation. False: there is none, but for one of graphs.
    pub(crate) fn free(&mut self, at: usize) -> bool {
        if self.free_of_graphs(at) {
            return true;
        }
        if let Some((pool, bytes)) = self.pooled.remove(&at) {
            self.pools.entry(pool).or_default().leave(at, bytes);
            self.end_pool(pool);
            return true;
        }
        if let Some((owner, bytes)) = self.foreign.remove(&at) {
            leave(owner, bytes);
        }
        if let Some(bytes) = self.end_taken(at)
            && !self.keep_exported(at, bytes)
        {
            give_back(bytes);
        }
        self.asked.remove(&at);
        self.memory.remove(&at).is_some()
    }

    /// Ends what an allocation takes of the device. Returns the bytes that nothing takes any more.
    pub(crate) fn end_taken(&mut self, at: usize) -> Option<u64> {
        let bytes = self.taken.remove(&at)?;
        let place = self.small_arrays.remove(&at).unwrap_or(at);
        Some(self.shared_blocks.end(place).unwrap_or(bytes))
    }
}
