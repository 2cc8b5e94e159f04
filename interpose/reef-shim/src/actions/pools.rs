//! Allocations from pools.

use super::memory_handles::{AllocationProperties, Owner};
use super::reserve::{await_room, refuse_on_panic, settle_frees};
use crate::driver::calls::{self, Stream};
use crate::driver::state::Inside;
use crate::limit::device::{self, LimitState, Limited};
use crate::limit::exporters;
use crate::limit::imports;
use crate::limit::pending;
use crate::limit::pools::graphs;
use crate::limit::pools::holes::StreamKey;
use crate::limit::pools::stores::{KeptPool, Store, Stores, stores, stream_key};
use reef_cuda_abi::codes::OUT_OF_MEMORY;
use std::ffi::c_void;
use std::sync::MutexGuard;
use std::time::Duration;

/// Longest wait for work to give memory back before an allocation is refused.
const FREE_TIMEOUT: Duration = Duration::from_secs(1);

/// Allocates from a pool, or from the current one of the stream's device. In a capture nothing is
/// allocated: the graph is charged when it is launched.
pub(crate) fn allocate(
    to: *mut usize,
    bytes: usize,
    pool: Option<usize>,
    stream: Stream,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    refuse_on_panic(|| match calls::with_relaxed_capture(|| limit_state(pool, stream)) {
        LimitState::Unlimited => real(),
        LimitState::Broken => OUT_OF_MEMORY,
        LimitState::Limited(device) => {
            if let Some(capture) = calls::capture_number(stream) {
                return in_capture(device, to, pool, stream, capture, real);
            }
            match pool_of_request(pool, device) {
                Some(found) => from_pool(device, to, bytes as u64, found, stream, || match pool {
                    Some(_) => real(),
                    None => allocate_from(to, bytes, found, stream).unwrap_or_else(real),
                }),
                None => real(), // the driver says why
            }
        }
    })
}

/// Allocates in a capture, where the driver allocates nothing, unless another thread ends the
/// capture before: then the pool may have grown. What exceeds the limit is freed again.
fn in_capture(
    device: &'static Limited,
    to: *const usize,
    pool: Option<usize>,
    stream: Stream,
    capture: u64,
    real: impl FnOnce() -> u32,
) -> u32 {
    let code = real();
    if code != 0 || calls::capture_number(stream) == Some(capture) {
        return code;
    }
    let Some(pool) = pool_of_request(pool, device) else { return code };
    let device = stores().of(Store::Pool(pool), device);
    let settle = || {
        let mut stores = stores();
        stores.forget(pool); // the allocation may be in what is known as free
        calls::with_relaxed_capture(|| stores.settle(device, Store::Pool(pool), 0));
    };
    settle();
    if !device.is_exceeded() {
        return code;
    }
    let free = |at: &usize| {
        // SAFETY: an allocation of a moment ago, which the program doesn't know yet. One of a graph
        // the driver refuses to free here.
        unsafe { calls::free(*at) }
    };
    calls::with_relaxed_capture(|| {
        // SAFETY: null, or where the driver has just written.
        let _ = unsafe { to.as_ref() }.map(free); // memory that isn't freed stays charged
        let _ = calls::trim_pool(pool, 0);
    });
    settle();
    device.count_refusal();
    OUT_OF_MEMORY
}

/// Allocates from the pool in which there is room: another one may be current by now. Returns the
/// driver's code, or `None` if that pool has no memory or can't be named.
fn allocate_from(to: *mut usize, bytes: usize, pool: usize, stream: Stream) -> Option<u32> {
    // SAFETY: the program's place for an address, which the driver demands.
    let code = unsafe { calls::alloc_from(to, bytes, pool, stream.0) };
    code.filter(|code| *code != OUT_OF_MEMORY)
}

/// Returns the pool that is asked for, or a device's current one.
fn pool_of_request(pool: Option<usize>, device: &Limited) -> Option<usize> {
    let mut current = 0;
    pool.or_else(|| {
        (calls::current_pool(&mut current, device.ordinal) == Some(0)).then_some(current)
    })
}

/// Returns the limit state of a pool's own device, whichever device is current. For an unknown
/// pool, that of the stream's device.
fn limit_state(pool: Option<usize>, stream: Stream) -> LimitState {
    let owner = pool.and_then(|pool| stores().owner(pool));
    match owner {
        Some(Some(ordinal)) => device::of(ordinal),
        Some(None) => LimitState::Unlimited,
        None => device::of_stream(stream),
    }
}

fn from_pool(
    device: &'static Limited,
    to: *mut usize,
    bytes: u64,
    pool: usize,
    stream: Stream,
    real: impl FnOnce() -> u32,
) -> u32 {
    let store = Store::Pool(pool);
    let device = stores().of(store, device);
    let key = calls::with_relaxed_capture(|| stream_key(stream));
    let Some(mut room) = admit(device, bytes, pool, key) else { return OUT_OF_MEMORY };
    let code = real();
    let growth = calls::with_relaxed_capture(|| room.stores.settle(device, store, room.reserved));
    if growth.unreserved > 0 {
        room.stores.forget(pool); // granted or not: the next one may not count on that memory
    }
    // SAFETY: null, or where the driver has just written.
    let Some(at) = (unsafe { to.as_mut() }).filter(|_| code == 0) else { return code };
    if growth.unreserved > 0 && device.is_exceeded() {
        // The pool has grown though it had room: the program doesn't get what exceeds the limit.
        // SAFETY: an allocation of a moment ago, which the program doesn't know yet.
        let _ = calls::with_relaxed_capture(|| unsafe { calls::free_in(*at, stream.0) });
        room.stores.note_stream(key, stream); // the pool can be trimmed once it has reached that
        *at = 0;
        device.count_refusal();
        return OUT_OF_MEMORY;
    }
    room.stores.allocated(*at, bytes, pool, growth);
    0
}

/// Room for an allocation from a pool.
struct Admission {
    /// Bytes that are reserved, by which the pool may grow.
    reserved: u64,
    _kept: KeptPool,
    /// Keeps the pool's free memory for the allocation.
    stores: MutexGuard<'static, Stores>,
}

impl Admission {
    /// Returns room for an allocation, if `reserve` finds the bytes.
    fn with(
        device: &'static Limited,
        bytes: u64,
        pool: usize,
        stream: StreamKey,
        reserve: impl FnOnce(u64) -> bool,
    ) -> Option<Self> {
        let mut stores = stores();
        calls::with_relaxed_capture(|| {
            let kept = KeptPool::new(pool);
            stores.settle(device, Store::Pool(pool), 0);
            let reserved = stores.needed(pool, bytes, stream);
            let has_room = reserved == 0 || reserve(reserved);
            has_room.then_some(Self { reserved, _kept: kept, stores })
        })
    }
}

/// Reserves what a pool may grow by for an allocation. If there is no room, streams get some time
/// to reach frees, and the ends of graphs.
fn admit(
    device: &'static Limited,
    bytes: u64,
    pool: usize,
    stream: StreamKey,
) -> Option<Admission> {
    let mut admission = None;
    let mut try_reserve = || {
        let try_reserve = |bytes| device.try_reserve(bytes);
        admission = Admission::with(device, bytes, pool, stream, try_reserve);
        admission.is_some()
    };
    if try_reserve() || await_room(device, FREE_TIMEOUT, try_reserve) {
        return admission;
    }
    // The memory of dead processes makes room.
    Admission::with(device, bytes, pool, stream, |bytes| device.reserve(bytes))
}

/// Gets a device's pool.
pub(crate) fn own_pool(pool: *mut usize, ordinal: i32, real: impl FnOnce() -> u32) -> u32 {
    own(pool, Owner::Device(ordinal), real)
}

/// Notes the owner of a pool that was created or asked for. A pool that may be any device's is
/// charged where it is used.
fn own(pool: *mut usize, owner: Owner, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    // SAFETY: null, or where the driver has just written.
    if let (0, Some(pool)) = (code, unsafe { pool.as_ref() }) {
        let ordinal = match owner {
            Owner::Device(ordinal) => Some(ordinal),
            Owner::Host => None,
            Owner::Any => return code,
        };
        let state = ordinal.map(device::of);
        let mut stores = stores();
        stores.own(*pool, ordinal);
        if let Some(LimitState::Limited(device)) = state {
            stores.of(Store::Pool(*pool), device);
        }
    }
    code
}

/// Creates a pool. `CUmemPoolProps` begins like `CUmemAllocationProp`.
pub(crate) fn create_pool(
    pool: *mut usize,
    properties: *const AllocationProperties,
    real: impl FnOnce() -> u32,
) -> u32 {
    // SAFETY: null, or a `CUmemPoolProps` of the program's, as cuMemPoolCreate demands. It begins
    // with the fields that are read.
    own(pool, unsafe { properties.as_ref() }.map_or(Owner::Any, AllocationProperties::owner), real)
}

/// Gets the pool of a location for memory of this kind.
pub(crate) fn pool_of(
    pool: *mut usize,
    location: *const [u32; 2],
    kind: u32,
    real: impl FnOnce() -> u32,
) -> u32 {
    // SAFETY: null, or a `CUmemLocation` of two words, which the driver demands of the program for
    // the length of the call.
    let location = unsafe { location.as_ref() };
    own(pool, location.map_or(Owner::Any, |at| AllocationProperties::new(kind, *at).owner()), real)
}

/// Exports an allocation to other processes, which keep its memory after it is freed: the driver
/// does not say when that ends.
pub(crate) fn export_pointer(at: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let mut stores = stores(); // locked, so that no stream frees it meanwhile
    let code = real();
    if code == 0 {
        stores.export(at);
    }
    code
}

/// Imports a pool. The process that exported it is charged as long as it runs: there is nothing of
/// this one's in it, though the driver says that it has reserved what was imported from it.
pub(crate) fn import_pool(
    pool: *mut usize,
    from: usize,
    kind: u32,
    real: impl FnOnce() -> u32,
) -> u32 {
    let exporter = Inside::limited().and_then(|_inside| exporters::of_file(from, kind));
    let code = own(pool, Owner::Host, real); // enters by itself
    let Some(_inside) = Inside::limited() else { return code };
    // SAFETY: null, or where the driver has just written.
    if let (0, Some(pool)) = (code, unsafe { pool.as_ref() }) {
        imports::note_pool(*pool, exporter);
    }
    code
}

/// Exports a pool, whose importers may import its allocations.
pub(crate) fn export_pool(to: *const c_void, kind: u32, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if code == 0 {
        exporters::mark(to, kind);
    }
    code
}

/// Imports an allocation of an imported pool.
pub(crate) fn import_pointer(at: *const usize, pool: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    // SAFETY: null, or where the driver has just written.
    if let (0, Some(at)) = (code, unsafe { at.as_ref() }) {
        imports::note_pointer(*at, pool);
    }
    code
}

/// Reads or sets an attribute of a pool, while no thread allocates from one: that changes some
/// attributes, and sets them back.
pub(crate) fn attribute(real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let _stores = stores();
    real()
}

/// Has the driver free the unused memory of a pool.
pub(crate) fn trim(pool: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let state = limit_state(Some(pool), Stream::new(0, false));
    let mut stores = stores(); // locked: nothing counts on memory that is given back meanwhile
    let code = real();
    if let LimitState::Limited(device) = state {
        calls::with_relaxed_capture(|| stores.settle(device, Store::Pool(pool), 0));
    }
    code
}

/// Destroys a pool. Its unused memory is freed before, because the driver reports a pool's memory
/// only while it has a handle.
pub(crate) fn destroy_pool(pool: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let state = limit_state(Some(pool), Stream::new(0, false));
    if let LimitState::Limited(device) = state {
        calls::with_relaxed_capture(|| settle_frees(device));
    }
    let mut stores = stores(); // locked, so that no other thread gets the same handle
    if let LimitState::Limited(device) = state {
        calls::with_relaxed_capture(|| {
            let _ = calls::trim_pool(pool, 0); // memory that isn't freed stays charged
            stores.settle(device, Store::Pool(pool), 0);
        });
    }
    let code = real();
    if code == 0 {
        stores.destroyed(pool);
    }
    code
}

/// Frees an allocation from a pool at once by `real`, or other memory. It may wait for the device,
/// so no lock is held.
pub(crate) fn free(at: usize, real: impl FnOnce() -> u32) -> u32 {
    let freed = stores().begin_free(at); // another thread may get its address at once
    let code = real();
    if let Some((number, allocation)) = freed {
        stores().end_free(at, number, allocation, code == 0);
    }
    code
}

/// Frees an allocation in a stream by `real`, as [`free`]. The stream may use it again at once. The
/// lock is held meanwhile: nothing may count on memory that the driver has not got back.
pub(crate) fn free_in(at: usize, stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    let mut stores = stores();
    let is_captured = || calls::is_capturing(stream);
    if !stores.has(at) || is_captured() {
        drop(stores);
        return real();
    }
    let key = calls::with_relaxed_capture(|| stream_key(stream));
    let code = real();
    if code == 0 {
        stores.freed_in(at, key, stream);
    }
    code
}

/// Notes that a stream is about to be destroyed: what it has freed ends when it has reached that.
pub(crate) fn end_stream(stream: Stream) {
    let Some(_inside) = Inside::limited() else { return };
    if calls::is_capturing(stream) {
        return;
    }
    calls::with_relaxed_capture(|| {
        let key = stream_key(stream);
        graphs::end_stream(key);
        let last = stores().end_stream(key);
        last.into_iter().for_each(|(ended, number)| {
            pending::add(stream, move || stores().reached(ended, number));
        });
    });
}
