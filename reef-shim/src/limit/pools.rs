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

/// What each store was charged with.
#[derive(Debug, Default)]
pub(crate) struct Stores(HashMap<Store, (u64, Option<&'static Limited>)>);

static STORES: LazyLock<Mutex<Stores>> = LazyLock::new(Mutex::default);

/// All stores. Whoever allocates from a pool has this meanwhile, because another allocation would change how much is
/// spare; the driver's own lock of a pool would make both wait as well.
pub(crate) fn stores() -> MutexGuard<'static, Stores> {
    STORES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Stores {
    /// Brings the books to what the driver says of a store, `reserved` bytes of which are in the books besides.
    pub(crate) fn settle(&mut self, device: &'static Limited, store: Store, reserved: u64) {
        let (charged, of) = self.0.entry(store).or_default();
        *of = Some(device);
        let now = store.reserved();
        let before = charged.saturating_add(reserved);
        *charged = now;
        if now > before { device.add(now - before) } else { device.give_back(before - now) }
    }

    /// The same of all stores of a device.
    pub(crate) fn settle_all(&mut self, device: &'static Limited) {
        let its = |(_, of): &(u64, Option<&'static Limited>)| {
            of.is_some_and(|of| of.ordinal == device.ordinal)
        };
        let all: Vec<Store> =
            self.0.iter().filter(|(_, of)| its(of)).map(|(store, _)| *store).collect();
        all.into_iter().for_each(|store| self.settle(device, store, 0));
    }

    /// Has the driver give back what no one uses in the pools of a device.
    pub(crate) fn trim_all(&mut self, device: &'static Limited) {
        self.0.keys().for_each(|store| {
            if let Store::Pool(pool) = store {
                let _ = calls::trim_pool(*pool, 0); // what it doesn't give back stays charged
            }
        });
        self.settle_all(device);
    }

    /// Forgets a pool that was destroyed.
    pub(crate) fn forget(&mut self, pool: usize) {
        if let Some((charged, Some(device))) = self.0.remove(&Store::Pool(pool)) {
            device.give_back(charged);
        }
    }
}
