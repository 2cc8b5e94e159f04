//! The world's pools, and allocations from them.

use super::device_memory::{give_back, take};
use super::pool::CHUNK;
use super::world::World;

impl World {
    /// Takes memory from a pool, which grows if need be. False: there is none left.
    pub(crate) fn use_pool(&mut self, pool: usize, bytes: u64) -> bool {
        let pool = self.pools.entry(pool).or_default();
        let more = (pool.used + bytes).saturating_sub(pool.reserved).next_multiple_of(CHUNK);
        if more > 0 && !pool.is_host && !take(more) {
            return false;
        }
        pool.reserved += more;
        pool.used += bytes;
        true
    }

    /// Gives memory back to its pool.
    fn leave_pool(&mut self, pool: usize, bytes: u64) {
        let found = self.pools.entry(pool).or_default();
        found.used -= bytes;
        if found.is_destroyed && found.used == 0 {
            found.shrink(0);
            self.pools.remove(&pool);
        }
    }

    /// Destroys a pool. What is still used of it keeps it.
    pub(crate) fn destroy_pool(&mut self, pool: usize) {
        let found = self.pools.entry(pool).or_default();
        found.is_destroyed = true;
        if found.used == 0 {
            found.shrink(0);
            self.pools.remove(&pool);
        }
    }

    pub(crate) fn trim_pool(&mut self, pool: usize, keep: u64) {
        self.pools.entry(pool).or_default().shrink(keep);
    }

    /// Has all pools give back what is beyond their thresholds, because a call waits.
    pub(crate) fn release_pools(&mut self) {
        let living = self.pools.values_mut().filter(|pool| !pool.is_destroyed);
        living.for_each(|pool| pool.shrink(pool.threshold));
    }

    /// Ends an allocation. False: there is none, but for one of graphs.
    pub(crate) fn free(&mut self, at: usize) -> bool {
        if self.free_of_graphs(at) {
            return true;
        }
        self.taken.remove(&at).into_iter().for_each(give_back);
        if let Some((pool, bytes)) = self.pooled.remove(&at) {
            self.leave_pool(pool, bytes);
        }
        self.asked.remove(&at);
        self.memory.remove(&at).is_some()
    }
}
