//! Allocations from pools.

use super::memory_handles::{AllocationProperties, Owner};
use super::reserve::refuse_on_panic;
use crate::driver::calls::{self, Stream};
use crate::driver::state::Inside;
use crate::limit::device::{self, LimitState, Limited};
use crate::limit::pending;
use crate::limit::pools::{POOL_UNIT, Store, stores};
use crate::limit::refusal::OUT_OF_MEMORY;
use crate::limit::sizes::round_up;

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
        LimitState::Limited(_) if calls::is_capturing(stream) => real(),
        LimitState::Limited(device) => {
            let code = from_pool(device, bytes as u64, pool, real);
            // SAFETY: null, or where the driver has just written.
            if let (0, Some(pool), Some(at)) = (code, pool, unsafe { to.as_ref() }) {
                stores().allocated(*at, pool);
            }
            code
        }
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
    bytes: u64,
    pool: Option<usize>,
    real: impl FnOnce() -> u32,
) -> u32 {
    let mut current = 0;
    let pool = pool.or_else(|| {
        (calls::current_pool(&mut current, device.ordinal) == Some(0)).then_some(current)
    });
    let Some(pool) = pool else { return real() }; // the driver says why
    let (store, mut stores) = (Store::Pool(pool), stores());
    let device = stores.of(store, device);
    let needed =
        || round_up(bytes, POOL_UNIT).saturating_sub(store.spare() / POOL_UNIT * POOL_UNIT);
    let mut more = needed();
    if !device.try_reserve(more) {
        drop(stores); // ends of other pools' allocations need it
        calls::with_relaxed_capture(pending::settle);
        stores = self::stores();
        calls::with_relaxed_capture(|| stores.trim_all(device));
        more = needed();
        if !device.reserve(more) {
            return OUT_OF_MEMORY;
        }
    }
    let code = real();
    calls::with_relaxed_capture(|| stores.settle(device, store, more));
    code
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
    // SAFETY: null, or the program's promise to the driver.
    own(pool, unsafe { properties.as_ref() }.map_or(Owner::Any, AllocationProperties::owner), real)
}

/// Gets the pool of a location for memory of this kind.
pub(crate) fn pool_of(
    pool: *mut usize,
    location: *const [u32; 2],
    kind: u32,
    real: impl FnOnce() -> u32,
) -> u32 {
    // SAFETY: null, or the program's promise to the driver.
    let location = unsafe { location.as_ref() };
    own(pool, location.map_or(Owner::Any, |at| AllocationProperties::new(kind, *at).owner()), real)
}

/// Has the driver free the unused memory of a pool.
pub(crate) fn trim(pool: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if let LimitState::Limited(device) = limit_state(Some(pool), Stream::new(0, false)) {
        calls::with_relaxed_capture(|| stores().settle(device, Store::Pool(pool), 0));
    }
    code
}

/// Destroys a pool. Its unused memory is freed before, because the driver reports a pool's memory
/// only while it has a handle.
pub(crate) fn destroy_pool(pool: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    calls::with_relaxed_capture(pending::settle);
    let state = limit_state(Some(pool), Stream::new(0, false));
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

/// Ends an allocation from a pool that may be destroyed, in a stream or at once.
pub(crate) fn end(at: usize, stream: Option<Stream>) {
    if !stores().is_live(at) {
        return;
    }
    match stream {
        Some(stream) => {
            calls::with_relaxed_capture(|| pending::add(stream, move || stores().ended(at)))
        }
        None => stores().ended(at),
    }
}
