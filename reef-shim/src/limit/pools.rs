//! Memory that the driver takes and gives back by itself: pools, and the memory of graphs. What counts is what it says
//! that it has reserved.

use super::device::Limited;
use crate::own::calls;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`, `…_USED_MEM_CURRENT`.
const RESERVED: u32 = 5;
const USED: u32 = 7;
/// `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`.
const GRAPHS_RESERVED: u32 = 2;
/// The driver takes memory for pools in multiples of this.
pub(crate) const POOL_UNIT: u64 = 2 << 20;

/// Where the driver keeps memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Store {
    Pool(usize),
    /// Of the graphs on the device of this number.
    Graphs(i32),
}

impl Store {
    /// Bytes that the driver has taken for it. Zero if it doesn't say.
    fn reserved(self) -> u64 {
        let mut value = 0;
        let code = match self {
            Self::Pool(pool) => calls::pool_attribute(pool, RESERVED, &mut value),
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
struct Charged {
    device: &'static Limited,
    bytes: u64,
}

/// All stores that are charged. A store is one device's for its life, whichever device is current when it is used.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    charged: HashMap<Store, Charged>,
    /// The devices of pools, limited or not, by their numbers.
    owners: HashMap<usize, i32>,
}

static STORES: LazyLock<Mutex<Stores>> = LazyLock::new(Mutex::default);

/// All stores. Whoever allocates from a pool has this meanwhile, because another allocation would change how much is
/// spare; the driver's own lock of a pool would make both wait as well.
pub(crate) fn stores() -> MutexGuard<'static, Stores> {
    STORES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Stores {
    /// Whose a store is: the device's that is known, or `device` from now on.
    pub(crate) fn of(&mut self, store: Store, device: &'static Limited) -> &'static Limited {
        self.charged.entry(store).or_insert(Charged { device, bytes: 0 }).device
    }

    /// Notes whose a pool is. The driver may have the address of one that was destroyed unseen for another.
    pub(crate) fn own(&mut self, pool: usize, ordinal: i32) {
        self.owners.insert(pool, ordinal);
    }

    /// The number of a pool's device, if the program got the pool by a call that names one.
    pub(crate) fn owner(&self, pool: usize) -> Option<i32> {
        self.owners.get(&pool).copied()
    }

    /// Brings the books to what the driver says of a store, `reserved` bytes of which are in the books besides. It is
    /// `device`'s if it wasn't known.
    pub(crate) fn settle(&mut self, device: &'static Limited, store: Store, reserved: u64) {
        let charged = self.charged.entry(store).or_insert(Charged { device, bytes: 0 });
        let (now, before) = (store.reserved(), charged.bytes.saturating_add(reserved));
        let device = charged.device;
        charged.bytes = now;
        if now > before { device.add(now - before) } else { device.give_back(before - now) }
    }

    /// The stores of a device.
    fn all_of(&self, device: &Limited) -> Vec<Store> {
        let its = |(_, charged): &(&Store, &Charged)| charged.device.ordinal == device.ordinal;
        self.charged.iter().filter(its).map(|(store, _)| *store).collect()
    }

    /// Brings the books to what the driver says of all stores of a device.
    pub(crate) fn settle_all(&mut self, device: &'static Limited) {
        self.all_of(device).into_iter().for_each(|store| self.settle(device, store, 0));
    }

    /// Has the driver give back what no one uses in the pools of a device. Those of other devices stay as they are:
    /// their memory would make no room here.
    pub(crate) fn trim_all(&mut self, device: &'static Limited) {
        for store in self.all_of(device) {
            if let Store::Pool(pool) = store {
                let _ = calls::trim_pool(pool, 0); // what it doesn't give back stays charged
            }
            self.settle(device, store, 0);
        }
    }

    /// Forgets a pool that was destroyed.
    pub(crate) fn forget(&mut self, pool: usize) {
        self.owners.remove(&pool);
        if let Some(charged) = self.charged.remove(&Store::Pool(pool)) {
            charged.device.give_back(charged.bytes);
        }
    }
}
