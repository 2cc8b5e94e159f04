//! Allocations from pools and in graphs, and memory by handles.

use super::memory::{firmly, reserved};
use crate::bind::state::Inside;
use crate::guest::capture::{self, Capture};
use crate::limit::device::{self, Limited, Standing};
use crate::limit::pending;
use crate::limit::pools::{POOL_UNIT, Store, stores};
use crate::limit::refusal::OUT_OF_MEMORY;
use crate::limit::sizes::round_up;
use crate::limit::virtual_memory::pieces;
use crate::own::calls::{self, Stream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether graphs of this process may have memory of their own.
static HAS_GRAPH_MEMORY: AtomicBool = AtomicBool::new(false);

/// Allocates from a pool, or from the current one of the context's device.
pub(crate) fn allocate(
    bytes: usize,
    pool: Option<usize>,
    stream: Stream,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    firmly(|| match standing(pool) {
        Standing::Free => real(),
        Standing::Broken => OUT_OF_MEMORY,
        Standing::Limited(_) if capture::of(stream) != Capture::None => {
            HAS_GRAPH_MEMORY.store(true, Relaxed);
            real()
        }
        Standing::Limited(device) => from_pool(device, bytes as u64, pool, real),
    })
}

/// A pool stands where its own device does, whichever is current.
fn standing(pool: Option<usize>) -> Standing {
    let owner = pool.and_then(|pool| stores().owner(pool));
    owner.map_or_else(device::current, device::of)
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
        calls::relaxed(|| {
            pending::settle();
            stores.trim_all(device);
        });
        more = needed();
        if !device.reserve(more) {
            return OUT_OF_MEMORY;
        }
    }
    let code = real();
    calls::relaxed(|| stores.settle(device, store, more));
    code
}

/// A pool was made or asked for, which is this device's.
pub(crate) fn own_pool(pool: *mut usize, ordinal: i32, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    // SAFETY: null, or where the driver has just written.
    let pool = unsafe { pool.as_ref() };
    if let (0, Some(pool)) = (code, pool) {
        let standing = device::of(ordinal);
        let mut stores = stores();
        stores.own(*pool, ordinal);
        if let Standing::Limited(device) = standing {
            stores.of(Store::Pool(*pool), device);
        }
    }
    code
}

/// A pool is made: of the host's memory it isn't looked at.
pub(crate) fn create_pool(
    pool: *mut usize,
    place: *const Place,
    real: impl FnOnce() -> u32,
) -> u32 {
    // SAFETY: null, or the program's promise to the driver: `CUmemPoolProps` begins as `CUmemAllocationProp` does.
    let place = unsafe { place.as_ref() }.filter(|place| place.location == DEVICE);
    match place {
        Some(place) => own_pool(pool, place.ordinal, real),
        None => real(),
    }
}

/// Has the driver give back what no one uses in a pool.
pub(crate) fn trim(pool: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if let Standing::Limited(device) = standing(Some(pool)) {
        calls::relaxed(|| stores().settle(device, Store::Pool(pool), 0));
    }
    code
}

/// Destroys a pool.
pub(crate) fn destroy_pool(pool: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if code == 0 {
        stores().forget(pool);
    }
    code
}

/// A graph gets memory of its own.
pub(crate) fn graph_memory(real: impl FnOnce() -> u32) -> u32 {
    HAS_GRAPH_MEMORY.store(true, Relaxed);
    real()
}

/// Launches a graph, which may take memory: none if the limit is reached already. How much it will take the driver
/// says afterwards.
pub(crate) fn launch_graph(real: impl FnOnce() -> u32) -> u32 {
    if !HAS_GRAPH_MEMORY.load(Relaxed) {
        return real();
    }
    let limited = Inside::limited().map(|_inside| device::current());
    match limited {
        Some(Standing::Broken) => OUT_OF_MEMORY,
        Some(Standing::Limited(device)) => {
            let _ = Inside::limited().map(|_inside| {
                calls::relaxed(|| stores().settle(device, Store::Graphs(device.ordinal), 0));
            });
            if device.left() == 0 {
                return OUT_OF_MEMORY;
            }
            let code = real(); // has its own way in
            let _ = Inside::limited().map(|_inside| {
                calls::relaxed(|| stores().settle(device, Store::Graphs(device.ordinal), 0));
            });
            code
        }
        Some(Standing::Free) | None => real(),
    }
}

/// `CUmemAllocationProp`, as far as it is read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    kind: u32,
    handles: u32,
    location: u32,
    ordinal: i32,
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const DEVICE: u32 = 1;

/// Makes a piece of memory.
pub(crate) fn create(
    handle: *mut u64,
    bytes: usize,
    place: *const Place,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    // SAFETY: null, or the program's promise to the driver.
    let place = unsafe { place.as_ref() }.filter(|place| place.location == DEVICE);
    let standing = place.filter(|_| !handle.is_null()).map(|place| device::of(place.ordinal));
    firmly(|| match standing {
        None | Some(Standing::Free) => real(),
        Some(Standing::Broken) => OUT_OF_MEMORY,
        Some(Standing::Limited(device)) => reserved(device, bytes as u64, real, || {
            // SAFETY: where the driver has just written.
            pieces().create(unsafe { *handle }, device, bytes as u64);
        }),
    })
}

/// Releases a handle. The lock is held meanwhile: the driver may give the same handle to another thread at once.
pub(crate) fn release(handle: u64, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let mut pieces = pieces();
    let code = real();
    if code == 0 {
        pieces.release(handle);
    }
    code
}

/// Maps a piece.
pub(crate) fn map(at: u64, bytes: usize, handle: u64, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let mut pieces = pieces();
    let code = real();
    if code == 0 {
        pieces.map(at, bytes as u64, handle);
    }
    code
}

/// Ends mappings. It may wait for the device, so no lock is held: addresses stay the program's.
pub(crate) fn unmap(at: u64, bytes: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if code == 0 {
        pieces().unmap(at, bytes as u64);
    }
    code
}

/// Asks for the handle of what is mapped at an address.
pub(crate) fn retain(handle: *mut u64, at: u64, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let mut pieces = pieces();
    let code = real();
    // SAFETY: null, or where the driver has just written.
    if let (0, Some(handle)) = (code, unsafe { handle.as_ref() }) {
        pieces.retain(*handle, at);
    }
    code
}
