//! Memory that the driver takes and gives back by itself: pools, and the memory of graphs. What
//! counts is what it says that it has reserved.

use super::device::Limited;
use super::graphs;
use crate::driver::calls;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`, `…_USED_MEM_CURRENT`.
const RESERVED: u32 = 5;
const USED: u32 = 7;
/// `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`.
const GRAPHS_RESERVED: u32 = 2;
/// The driver takes memory for pools in multiples of this.
pub(crate) const POOL_UNIT: u64 = 32 << 20;

/// Where the driver keeps memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Store {
    Pool(usize),
    /// A pool that was destroyed and has allocations: it is there until the last of them has ended.
    Ended(u64),
    /// Of the graphs on the device of this number.
    Graphs(i32),
}

impl Store {
    /// Bytes that the driver has taken for it. Zero if it doesn't say.
    fn reserved(self) -> u64 {
        let mut value = 0;
        let code = match self {
            Self::Pool(pool) => calls::pool_attribute(pool, RESERVED, &mut value),
            Self::Ended(_) => None,
            Self::Graphs(device) => calls::graph_memory(device, GRAPHS_RESERVED, &mut value),
        };
        if code == Some(0) { value } else { 0 }
    }

    /// Bytes of a pool that nobody uses.
    pub(crate) fn spare(self) -> u64 {
        let Self::Pool(pool) = self else { return 0 };
        let mut used = 0;
        match calls::pool_attribute(pool, USED, &mut used) {
            Some(0) => self.reserved().saturating_sub(used),
            _ => 0,
        }
    }
}

/// A store's device, and what that was charged with.
#[derive(Clone, Copy, Debug)]
struct StoreCharge {
    device: &'static Limited,
    bytes: u64,
}

/// All stores that are charged. A store is one device's for its life, whichever device is current
/// when it is used.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    charged: HashMap<Store, StoreCharge>,
    /// The devices of pools, limited or not, by their numbers; nothing for pools of the host's
    /// memory.
    owners: HashMap<usize, Option<i32>>,
    /// Allocations from pools that may be destroyed, and how many pools were.
    live: HashMap<usize, Store>,
    ended: u64,
}

static STORES: LazyLock<Mutex<Stores>> = LazyLock::new(Mutex::default);

/// All stores. Whoever allocates from a pool has this meanwhile, because another allocation would
/// change how much is spare; the driver's own lock of a pool would make both wait as well.
pub(crate) fn stores() -> MutexGuard<'static, Stores> {
    STORES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Stores {
    /// Whose a store is: the device's that is known, or `device` from now on.
    pub(crate) fn of(&mut self, store: Store, device: &'static Limited) -> &'static Limited {
        self.charged.entry(store).or_insert(StoreCharge { device, bytes: 0 }).device
    }

    /// Notes whose a pool is. The driver may have the address of one that was destroyed unseen for
    /// another.
    pub(crate) fn own(&mut self, pool: usize, ordinal: Option<i32>) {
        self.owners.insert(pool, ordinal);
    }

    /// The number of a pool's device, if the program got the pool by a call that names one: nothing
    /// for the host.
    pub(crate) fn owner(&self, pool: usize) -> Option<Option<i32>> {
        self.owners.get(&pool).copied()
    }

    /// Brings the books to what the driver says of a store, `reserved` bytes of which are in the
    /// books besides. It is `device`'s if it wasn't known.
    pub(crate) fn settle(&mut self, device: &'static Limited, store: Store, reserved: u64) {
        let charged = self.charged.entry(store).or_insert(StoreCharge { device, bytes: 0 });
        let (now, before) = (store.reserved(), charged.bytes.saturating_add(reserved));
        let device = charged.device;
        if let Store::Ended(_) = store {
            return; // the driver says nothing of it
        }
        charged.bytes = now;
        if now > before { device.add(now - before) } else { device.give_back(before - now) }
    }

    /// The stores of a device.
    fn all_of(&self, device: &Limited) -> Vec<Store> {
        let its = |(_, charged): &(&Store, &StoreCharge)| charged.device.ordinal == device.ordinal;
        self.charged.iter().filter(its).map(|(store, _)| *store).collect()
    }

    /// Brings the books to what the driver says of all stores of a device.
    pub(crate) fn settle_all(&mut self, device: &'static Limited) {
        self.all_of(device).into_iter().for_each(|store| self.settle(device, store, 0));
    }

    /// Has the driver give back what no one uses in the pools and graphs of a device. Those of
    /// other devices stay as they are: their memory would make no room here.
    pub(crate) fn trim_all(&mut self, device: &'static Limited) {
        for store in self.all_of(device) {
            // What it doesn't give back stays charged.
            let _ = match store {
                Store::Pool(pool) => calls::trim_pool(pool, 0),
                Store::Graphs(ordinal) => {
                    graphs::unback(ordinal);
                    calls::trim_graphs(ordinal)
                }
                Store::Ended(_) => None,
            };
            self.settle(device, store, 0);
        }
    }

    /// An allocation was made from a pool.
    pub(crate) fn allocated(&mut self, at: usize, pool: usize) {
        self.ended(at); // one that was here before has ended unseen
        self.live.insert(at, Store::Pool(pool));
    }

    /// Returns whether something is an allocation from a pool that may be destroyed.
    pub(crate) fn is_live(&self, at: usize) -> bool {
        self.live.contains_key(&at)
    }

    /// An allocation from a pool has ended. The last one of a pool that was destroyed ends the
    /// pool.
    pub(crate) fn ended(&mut self, at: usize) {
        let Some(store) = self.live.remove(&at) else { return };
        if let Store::Ended(_) = store
            && !self.live.values().any(|other| *other == store)
        {
            self.give_back(store);
        }
    }

    /// A pool was destroyed. The driver keeps its memory while there are allocations from it.
    pub(crate) fn destroyed(&mut self, pool: usize) {
        self.owners.remove(&pool);
        let store = Store::Pool(pool);
        if !self.live.values().any(|of| *of == store) {
            return self.give_back(store);
        }
        self.ended += 1;
        let ended = Store::Ended(self.ended);
        self.live.values_mut().filter(|of| **of == store).for_each(|of| *of = ended);
        if let Some(charged) = self.charged.remove(&store) {
            self.charged.insert(ended, charged);
        }
    }

    fn give_back(&mut self, store: Store) {
        if let Some(charged) = self.charged.remove(&store) {
            charged.device.give_back(charged.bytes);
        }
    }
}
