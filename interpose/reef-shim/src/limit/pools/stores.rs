//! Stores of memory that the driver keeps. The number that it returns as reserved is charged.

use super::graphs;
use super::holes::{Freed, Holes, POOL_UNIT, StreamKey, granted};
use crate::driver::calls::{self, Stream};
use crate::limit::device::Limited;
use crate::limit::exported;
use crate::limit::sizes::round_up;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`.
const RESERVED: u32 = 5;
/// `CU_MEMPOOL_ATTR_USED_MEM_CURRENT`.
const USED: u32 = 7;
/// `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`.
const GRAPHS_RESERVED: u32 = 2;
/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`: the bytes that the driver keeps for a pool in waits.
const THRESHOLD: u32 = 4;
/// `CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC`: 1 if a stream gets what others have freed as soon
/// as they have reached the frees. 0: only after a call has waited for that.
const OPPORTUNISTIC: u32 = 2;

/// Returns an attribute of a pool. `None` if the driver doesn't say.
fn attribute(pool: usize, attribute: u32) -> Option<u64> {
    let mut value = 0; // those of four bytes are its lower half
    (calls::pool_attribute(pool, attribute, &mut value) == Some(0)).then_some(value)
}

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
    /// Returns the bytes that the driver has allocated for it. `None` if it doesn't say.
    fn reserved(self) -> Option<u64> {
        match self {
            Self::Pool(pool) => attribute(pool, RESERVED),
            Self::Ended(_) => None,
            Self::Graphs(device) => {
                let mut value = 0;
                let code = calls::graph_memory(device, GRAPHS_RESERVED, &mut value);
                (code == Some(0)).then_some(value)
            }
        }
    }
}

/// Pool whose free memory is there for an allocation: it keeps all of it, whatever other threads
/// wait for, and gives it to any stream that may have it.
#[derive(Debug)]
pub(crate) struct KeptPool {
    pool: usize,
    /// Attributes that were lower, with their values before.
    before: [Option<(u32, u64)>; 2],
}

impl KeptPool {
    pub(crate) fn new(pool: usize) -> Self {
        let raise = |(which, to): (u32, u64)| {
            let before = attribute(pool, which).filter(|before| *before < to)?;
            let is_set = calls::set_pool_attribute(pool, which, &to) == Some(0);
            is_set.then_some((which, before))
        };
        Self { pool, before: [(THRESHOLD, u64::MAX), (OPPORTUNISTIC, 1)].map(raise) }
    }
}

impl Drop for KeptPool {
    fn drop(&mut self) {
        if self.before.iter().all(Option::is_none) {
            return;
        }
        calls::with_relaxed_capture(|| {
            for (which, before) in self.before.into_iter().flatten() {
                let _ = calls::set_pool_attribute(self.pool, which, &before); // as it was before
            }
        });
    }
}

/// Returns the key of a stream that isn't captured.
pub(crate) fn stream_key(stream: Stream) -> StreamKey {
    let context = calls::stream_context(stream);
    let mut id = 0;
    let is_known = calls::in_context(context, || calls::stream_id(stream.0, &mut id) == Some(0));
    // SAFETY: asks for a number.
    let thread = || unsafe { libc::gettid() } as u64;
    let handle = || if stream.is_own() { thread() << 32 } else { stream.0 as u64 };
    StreamKey(context, if is_known { id } else { handle() })
}

/// Device of a store, and its charged bytes.
#[derive(Clone, Copy, Debug)]
struct StoreCharge {
    device: &'static Limited,
    bytes: u64,
    /// Other processes may have imported an allocation, whose memory they keep.
    is_exported: bool,
}

impl StoreCharge {
    fn new(device: &'static Limited) -> Self {
        Self { device, bytes: 0, is_exported: false }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolAllocation {
    store: Store,
    bytes: u64,
}

/// Change of a store's reserved bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Bytes that the driver has allocated for it.
    pub(crate) bytes: u64,
    /// Bytes among them that were not reserved before.
    pub(crate) unreserved: u64,
}

/// All stores that are charged. A store belongs to one device for its life, whichever device is
/// current when it is used.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    charged: HashMap<Store, StoreCharge>,
    /// Ordinals of pools' devices, limited or not; `None` for pools of host memory.
    owners: HashMap<usize, Option<i32>>,
    /// Allocations from pools by address, the number of pools that were destroyed, and of frees.
    live: BTreeMap<usize, PoolAllocation>,
    ended: u64,
    frees: u64,
    holes: HashMap<usize, Holes>,
    /// Pieces of destroyed pools that streams have freed.
    ending: Vec<(Freed, Store)>,
    /// Streams that have freed, or launched graphs with memory, as long as they have handles.
    streams: HashMap<StreamKey, Stream>,
}

static STORES: LazyLock<Mutex<Stores>> = LazyLock::new(Mutex::default);

/// Returns all stores. A thread that allocates from a pool keeps this lock, because another
/// allocation would use the same free memory; the driver's own lock of a pool would make both wait
/// as well.
pub(crate) fn stores() -> MutexGuard<'static, Stores> {
    STORES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Stores {
    /// Returns the device of a store: the known one, or `device` from now on.
    pub(crate) fn of(&mut self, store: Store, device: &'static Limited) -> &'static Limited {
        self.charged.entry(store).or_insert(StoreCharge::new(device)).device
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
    pub(crate) fn settle(
        &mut self,
        device: &'static Limited,
        store: Store,
        reserved: u64,
    ) -> Growth {
        let charged = self.charged.entry(store).or_insert(StoreCharge::new(device));
        if let Store::Ended(_) = store {
            return Growth::default(); // the driver returns nothing for it
        }
        let before = charged.bytes;
        let now = store.reserved().unwrap_or(before); // what isn't known stays
        charged.bytes = now;
        let StoreCharge { device, is_exported, .. } = *charged;
        let expected = before.saturating_add(reserved);
        let unreserved = now.saturating_sub(expected);
        device.add(unreserved);
        // The driver does not count what importers keep.
        let kept = if is_exported { before.saturating_sub(now) } else { 0 };
        device.give_back(expected.saturating_sub(now) - kept);
        exported::add(device, kept);
        if now < before {
            self.shrank(store);
        }
        Growth { bytes: now.saturating_sub(before), unreserved }
    }

    /// Notes that the driver has given back memory of a store.
    fn shrank(&mut self, store: Store) {
        match store {
            Store::Pool(pool) => {
                // Other pools may have addresses of units that this one has given back.
                let is_live = |unit: Range<u64>| {
                    let (begin, end) = (unit.start as usize, unit.end as usize);
                    let before = self.live.range(..begin).next_back();
                    let reaches = before.filter(|(at, of)| **at as u64 + of.bytes > unit.start);
                    let mut all = reaches.into_iter().chain(self.live.range(begin..end));
                    all.any(|(_, of)| of.store == store)
                };
                self.holes.get_mut(&pool).into_iter().for_each(|holes| holes.shrink(is_live));
            }
            Store::Graphs(ordinal) => graphs::unback(ordinal),
            Store::Ended(_) => {}
        }
    }

    fn all_of(&self, device: &Limited) -> Vec<Store> {
        let its = |(_, charged): &(&Store, &StoreCharge)| charged.device.ordinal == device.ordinal;
        self.charged.iter().filter(its).map(|(store, _)| *store).collect()
    }

    pub(crate) fn graph_bytes(&self, device: &Limited) -> u64 {
        self.charged.get(&Store::Graphs(device.ordinal)).map_or(0, |charged| charged.bytes)
    }

    /// Corrects the charges of all stores of a device to the driver's numbers.
    pub(crate) fn settle_all(&mut self, device: &'static Limited) {
        for store in self.all_of(device) {
            self.settle(device, store, 0);
        }
    }

    /// Has the driver free unused memory of the pools and graphs of a device. Those of other
    /// devices stay as they are: their memory would make no room here.
    pub(crate) fn trim_all(&mut self, device: &'static Limited) {
        for store in self.all_of(device) {
            // Memory that isn't freed stays charged.
            let _ = match store {
                Store::Pool(pool) => calls::trim_pool(pool, 0),
                Store::Graphs(ordinal) => calls::trim_graphs(ordinal),
                Store::Ended(_) => None,
            };
            self.settle(device, store, 0);
        }
    }

    /// Returns the bytes that a pool may take more of its device for an allocation in a stream.
    /// Nothing only if both this library and the driver know of as much free memory in it.
    pub(crate) fn needed(&self, pool: usize, bytes: u64, stream: StreamKey) -> u64 {
        let all = round_up(bytes, POOL_UNIT);
        let Some(holes) = self.holes.get(&pool) else { return all };
        let needed = holes.needed(bytes, stream);
        let reserved = self.charged.get(&Store::Pool(pool)).map_or(0, |charged| charged.bytes);
        // The driver may count memory as used until a stream has reached its free.
        let all_free = reserved.saturating_add(holes.freed_bytes());
        let is_too_small = |used: u64| all_free.saturating_sub(used) < granted(bytes);
        let must_grow = needed == 0 && attribute(pool, USED).is_some_and(is_too_small);
        if must_grow { all } else { needed }
    }

    /// Forgets the free memory of a pool that has grown though it had room: its memory is not where
    /// it was thought to be.
    pub(crate) fn forget(&mut self, pool: usize) {
        self.holes.get_mut(&pool).into_iter().for_each(Holes::forget);
    }

    /// Notes an allocation from a pool, which has grown by so much for it.
    pub(crate) fn allocated(&mut self, at: usize, bytes: u64, pool: usize, growth: Growth) {
        let bytes = granted(bytes);
        let holes = self.holes.entry(pool).or_default();
        if growth.bytes > 0 {
            let next = self.live.range(at + 1..).next().map_or(u64::MAX, |(next, _)| *next as u64);
            holes.grow(at as u64, growth.bytes, next);
        }
        holes.fill(at as u64, bytes);
        self.live.insert(at, PoolAllocation { store: Store::Pool(pool), bytes });
    }

    /// Returns whether an address is an allocation from a pool.
    pub(crate) fn has(&self, at: usize) -> bool {
        self.live.contains_key(&at)
    }

    /// Returns whether an address is in an allocation from a pool that counts on a device.
    pub(crate) fn counts(&self, at: usize, device: &Limited) -> bool {
        let charged = self.live_at(at).and_then(|store| self.charged.get(&store));
        charged.is_some_and(|charged| charged.device.ordinal == device.ordinal)
    }

    /// Notes a stream whose work may give memory back when it ends.
    pub(crate) fn note_stream(&mut self, key: StreamKey, stream: Stream) {
        self.streams.insert(key, stream);
    }

    /// Returns the number of the last free, and the streams whose work may give memory back, with
    /// handles that may be those of other threads.
    pub(crate) fn streams(&self) -> (u64, Vec<(StreamKey, Stream)>) {
        (self.frees, self.streams.iter().map(|(key, stream)| (*key, *stream)).collect())
    }

    /// Notes that an allocation ends when a stream reaches this point.
    pub(crate) fn freed_in(&mut self, at: usize, key: StreamKey, stream: Stream) {
        self.note_stream(key, stream);
        self.add_freed(at, key);
    }

    /// Notes that an allocation is being freed, of which no stream has anything yet.
    pub(crate) fn begin_free(&mut self, at: usize) -> Option<(u64, PoolAllocation)> {
        self.add_freed(at, StreamKey::NONE)
    }

    /// Notes that an allocation has been freed, or that the driver refused to.
    pub(crate) fn end_free(
        &mut self,
        at: usize,
        number: u64,
        allocation: PoolAllocation,
        is_freed: bool,
    ) {
        if is_freed {
            return self.note_reached(|freed| freed.number == number);
        }
        self.holes.values_mut().for_each(|holes| holes.take_back(number));
        self.ending.retain(|(freed, _)| freed.number != number);
        self.live.insert(at, allocation);
    }

    fn add_freed(&mut self, at: usize, stream: StreamKey) -> Option<(u64, PoolAllocation)> {
        let allocation = self.live.remove(&at)?;
        self.frees += 1;
        let freed = Freed::new(stream, self.frees, at as u64, allocation.bytes);
        match allocation.store {
            Store::Pool(pool) => self.holes.entry(pool).or_default().add_in(freed),
            store => self.ending.push((freed, store)),
        }
        Some((self.frees, allocation))
    }

    /// Gives back a destroyed pool that has nothing more.
    fn end_if_over(&mut self, store: Store) {
        let has = self.live.values().any(|of| of.store == store)
            || self.ending.iter().any(|(_, of)| *of == store);
        if !has {
            self.give_back(store);
        }
    }

    /// Returns the streams of a device's pools whose frees have not been reached, as far as is
    /// known, each with the number of its last one.
    pub(crate) fn freeing(&self, device: &Limited) -> Vec<(StreamKey, Option<Stream>, u64)> {
        let mut last = HashMap::new();
        let mut note = |freed: &Freed| {
            let number = last.entry(freed.stream).or_insert(0);
            *number = freed.number.max(*number);
        };
        for store in self.all_of(device) {
            let Store::Pool(pool) = store else { continue };
            self.holes.get(&pool).into_iter().flat_map(Holes::freed).for_each(&mut note);
        }
        self.ending.iter().for_each(|(freed, _)| note(freed));
        last.remove(&StreamKey::NONE);
        let stream = |(key, number)| (key, self.streams.get(&key).copied(), number);
        last.into_iter().map(stream).collect()
    }

    /// Notes that streams have reached frees.
    fn note_reached(&mut self, is_reached: impl Fn(&Freed) -> bool) {
        self.holes.values_mut().for_each(|holes| holes.reached(&is_reached));
        let over: Vec<_> = self.ending.extract_if(.., |(freed, _)| is_reached(freed)).collect();
        over.into_iter().for_each(|(_, store)| self.end_if_over(store));
    }

    /// Notes that a stream has reached its frees up to a number.
    pub(crate) fn reached(&mut self, stream: StreamKey, number: u64) {
        self.note_reached(|freed| freed.stream == stream && freed.number <= number);
    }

    /// Forgets the handle of a stream that is about to end. A driver before CUDA 12 has no numbers
    /// of streams, so the next stream with the handle gets the key. Returns the key that the
    /// stream's frees have from now on, and the number of the last one, if that may not have been
    /// reached.
    pub(crate) fn end_stream(&mut self, stream: StreamKey) -> Option<(StreamKey, u64)> {
        self.streams.remove(&stream)?;
        self.frees += 1;
        let ended = StreamKey(stream.0, u64::MAX - self.frees); // above all handles and numbers
        self.holes.values_mut().for_each(|holes| holes.end_stream(stream, ended));
        let its = self.ending.iter_mut().filter(|(freed, _)| freed.stream == stream);
        its.for_each(|(freed, _)| freed.stream = ended);
        Some((ended, self.frees))
    }

    pub(crate) fn last_free(&self) -> u64 {
        self.frees
    }

    /// Notes that a context has ended, with its streams and its frees up to this number. Later ones
    /// are of another context that has its handle.
    pub(crate) fn end_context(&mut self, context: usize, last: u64) {
        self.streams.retain(|stream, _| stream.0 != context);
        self.note_reached(|freed| freed.stream.0 == context && freed.number <= last);
    }

    /// Notes that a pool was destroyed. The driver keeps its memory while it has allocations, among
    /// them those whose ends streams have not reached.
    pub(crate) fn destroyed(&mut self, pool: usize) {
        self.owners.remove(&pool);
        self.ended += 1;
        let (store, ended) = (Store::Pool(pool), Store::Ended(self.ended));
        if let Some(charged) = self.charged.remove(&store) {
            self.charged.insert(ended, charged);
        }
        self.live.values_mut().filter(|of| of.store == store).for_each(|of| of.store = ended);
        let freed = self.holes.remove(&pool).unwrap_or_default();
        self.ending.extend(freed.freed().iter().map(|freed| (*freed, ended)));
        self.end_if_over(ended);
    }

    /// Marks the pool of an allocation as exported: all pools, for one that is not known, as when
    /// another thread is about to free it.
    pub(crate) fn export(&mut self, at: usize) {
        let store = self.live_at(at);
        for (known, charged) in &mut self.charged {
            let is_pool = !matches!(known, Store::Graphs(_));
            charged.is_exported |= is_pool && store.is_none_or(|store| store == *known);
        }
    }

    /// Marks the pool of an address as exported, if one has an allocation there or is about to get
    /// it back.
    pub(crate) fn export_at(&mut self, at: usize) {
        let store = self.live_at(at).or_else(|| self.freed_at(at as u64));
        let Some(store) = store else { return };
        if let Some(charged) = self.charged.get_mut(&store) {
            charged.is_exported = true;
        }
    }

    /// Returns the store of the allocation around an address.
    fn live_at(&self, at: usize) -> Option<Store> {
        let (from, of) = self.live.range(..=at).next_back()?;
        (((at - from) as u64) < of.bytes).then_some(of.store)
    }

    /// Returns the store of the freed allocation around an address.
    fn freed_at(&self, at: u64) -> Option<Store> {
        let has = |(_, holes): &(&usize, &Holes)| holes.freed().iter().any(|freed| freed.has(at));
        let pool = self.holes.iter().find(has).map(|(pool, _)| Store::Pool(*pool));
        let ending = || self.ending.iter().find(|(freed, _)| freed.has(at)).map(|(_, of)| *of);
        pool.or_else(ending)
    }

    fn give_back(&mut self, store: Store) {
        match self.charged.remove(&store) {
            Some(StoreCharge { device, bytes, is_exported: true }) => exported::add(device, bytes),
            Some(StoreCharge { device, bytes, .. }) => device.give_back(bytes),
            None => {}
        }
    }
}
