//! Memory that the driver allocates and frees by itself: pools, and the memory of graphs. The
//! number that it returns as reserved is charged.

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
/// Unit in which the driver allocates memory for pools, in bytes.
pub(crate) const POOL_UNIT: u64 = 32 << 20;

/// Store of memory that the driver keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Store {
    Pool(usize),
    /// A destroyed pool with allocations: it exists until the last of them has ended.
    Ended(u64),
    /// The memory of graphs on the device of this ordinal.
    Graphs(i32),
}

impl Store {
    /// Returns the bytes that the driver has allocated for it. Zero if it doesn't say.
    fn reserved(self) -> u64 {
        let mut value = 0;
        let code = match self {
            Self::Pool(pool) => calls::pool_attribute(pool, RESERVED, &mut value),
            Self::Ended(_) => None,
            Self::Graphs(device) => calls::graph_memory(device, GRAPHS_RESERVED, &mut value),
        };
        if code == Some(0) { value } else { 0 }
    }

    /// Returns the unused bytes of a pool.
    pub(crate) fn spare(self) -> u64 {
        let Self::Pool(pool) = self else { return 0 };
        let mut used = 0;
        match calls::pool_attribute(pool, USED, &mut used) {
            Some(0) => self.reserved().saturating_sub(used),
            _ => 0,
        }
    }
}

/// Device of a store, and its charged bytes.
#[derive(Clone, Copy, Debug)]
struct StoreCharge {
    device: &'static Limited,
    bytes: u64,
}

/// All stores that are charged. A store belongs to one device for its life, whichever device is
/// current when it is used.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    charged: HashMap<Store, StoreCharge>,
    /// Ordinals of pools' devices, limited or not; `None` for pools of host memory.
    owners: HashMap<usize, Option<i32>>,
    /// Allocations from pools that may be destroyed, and the number of pools that were.
    live: HashMap<usize, Store>,
    ended: u64,
}

static STORES: LazyLock<Mutex<Stores>> = LazyLock::new(Mutex::default);

/// Returns all stores. A thread that allocates from a pool keeps this lock, because another
/// allocation would change the unused bytes; the driver's own lock of a pool would make both wait
/// as well.
pub(crate) fn stores() -> MutexGuard<'static, Stores> {
    STORES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Stores {
    /// Returns the device of a store: the known one, or `device` from now on.
    pub(crate) fn of(&mut self, store: Store, device: &'static Limited) -> &'static Limited {
        self.charged.entry(store).or_insert(StoreCharge { device, bytes: 0 }).device
    }

    /// Notes the device of a pool. The driver may reuse the address of a pool that was destroyed
    /// unseen.
    pub(crate) fn own(&mut self, pool: usize, ordinal: Option<i32>) {
        self.owners.insert(pool, ordinal);
    }

    /// Returns the ordinal of a pool's device, if the program got the pool by a call that names
    /// one; the inner `None` means the host.
    pub(crate) fn owner(&self, pool: usize) -> Option<Option<i32>> {
        self.owners.get(&pool).copied()
    }

    /// Corrects the charge of a store to the driver's number. `reserved` bytes are reserved in
    /// addition to the charge. An unknown store belongs to `device`.
    pub(crate) fn settle(&mut self, device: &'static Limited, store: Store, reserved: u64) {
        let charged = self.charged.entry(store).or_insert(StoreCharge { device, bytes: 0 });
        let (now, before) = (store.reserved(), charged.bytes.saturating_add(reserved));
        let device = charged.device;
        if let Store::Ended(_) = store {
            return; // the driver returns nothing for it
        }
        charged.bytes = now;
        if now > before { device.add(now - before) } else { device.give_back(before - now) }
    }

    /// Returns the stores of a device.
    fn all_of(&self, device: &Limited) -> Vec<Store> {
        let its = |(_, charged): &(&Store, &StoreCharge)| charged.device.ordinal == device.ordinal;
        self.charged.iter().filter(its).map(|(store, _)| *store).collect()
    }

    /// Corrects the charges of all stores of a device to the driver's numbers.
    pub(crate) fn settle_all(&mut self, device: &'static Limited) {
        self.all_of(device).into_iter().for_each(|store| self.settle(device, store, 0));
    }

    /// Has the driver free unused memory of the pools and graphs of a device. Those of other
    /// devices stay as they are: their memory would make no room here.
    pub(crate) fn trim_all(&mut self, device: &'static Limited) {
        for store in self.all_of(device) {
            // Memory that isn't freed stays charged.
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

    /// Notes an allocation from a pool.
    pub(crate) fn allocated(&mut self, at: usize, pool: usize) {
        self.ended(at); // an earlier one at this address has ended unseen
        self.live.insert(at, Store::Pool(pool));
    }

    /// Returns whether an address is an allocation from a pool that may be destroyed.
    pub(crate) fn is_live(&self, at: usize) -> bool {
        self.live.contains_key(&at)
    }

    /// Notes the end of an allocation from a pool. The last one of a destroyed pool ends the pool.
    pub(crate) fn ended(&mut self, at: usize) {
        let Some(store) = self.live.remove(&at) else { return };
        if let Store::Ended(_) = store
            && !self.live.values().any(|other| *other == store)
        {
            self.give_back(store);
        }
    }

    /// Notes that a pool was destroyed. The driver keeps its memory while it has allocations.
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
