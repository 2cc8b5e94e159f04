//! Physical memory by handles (`cuMemCreate`), its mappings, and multicast objects.

use super::reserve::{refuse_on_panic, with_reservation};
use crate::driver::calls::{self, Stream};
use crate::driver::lists::copied;
use crate::driver::pause_gate::touch;
use crate::driver::state::Inside;
use crate::limit::charges;
use crate::limit::device::{self, LimitState};
use crate::limit::exporters;
use crate::limit::imports;
use crate::limit::memory_handles::{Holder, MemoryTable, Region, memory_table};
use crate::limit::pending;
use crate::limit::pools::stores::stores;
use crate::swap::allocations;
use reef_cuda_abi::codes::OUT_OF_MEMORY;
use reef_cuda_abi::layouts::ArrayMapInfo;
use std::ffi::c_void;

/// `CUmemAllocationProp`, as far as it is read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationProperties {
    kind: u32,
    handles: u32,
    location: u32,
    ordinal: i32,
}

/// `CU_MEM_LOCATION_TYPE_NONE`, `…_HOST` to `…_HOST_NUMA_CURRENT`, and `…_INVISIBLE`, which is that
/// of imports.
const ELSEWHERE: [u32; 5] = [0, 2, 3, 4, 5];
/// `CU_MEM_ALLOCATION_TYPE_MANAGED`: it moves to where it is used.
const MANAGED: u32 = 2;

impl AllocationProperties {
    pub(super) fn new(kind: u32, [location, ordinal]: [u32; 2]) -> Self {
        Self { kind, handles: 0, location, ordinal: ordinal as i32 }
    }

    pub(super) fn owner(&self) -> Owner {
        match (device::at(self.location, self.ordinal), self.kind) {
            (Some(device), _) => Owner::Device(device),
            (None, MANAGED) => Owner::Any,
            _ if ELSEWHERE.contains(&self.location) => Owner::Host,
            _ => Owner::Any, // a location of a newer driver may be on any device
        }
    }
}

/// Owner of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Device(i32),
    /// The device of the context that is current when it is used.
    Any,
    Host,
}

impl Owner {
    fn limit_state(self) -> LimitState {
        match self {
            Self::Device(ordinal) => device::of(ordinal),
            Self::Any => device::current(),
            Self::Host => LimitState::Unlimited,
        }
    }
}

/// Returns the device on which memory of these properties lies. `None`: it has none of its own.
pub(crate) fn device_of(properties: *const AllocationProperties) -> Option<i32> {
    // SAFETY: null, or a `CUmemAllocationProp` of the program's: the driver demands one that can be
    // read during the call.
    match unsafe { properties.as_ref() }?.owner() {
        Owner::Device(ordinal) => Some(ordinal),
        Owner::Any | Owner::Host => None,
    }
}

/// Makes an allocation of physical memory.
pub(crate) fn create(
    handle: *mut u64,
    bytes: usize,
    properties: *const AllocationProperties,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    // SAFETY: null, or a `CUmemAllocationProp` of the program's: cuMemCreate demands one that can
    // be read during the call.
    let properties = unsafe { properties.as_ref() }.filter(|_| !handle.is_null());
    let state = properties.map(|properties| properties.owner().limit_state());
    refuse_on_panic(|| match state {
        None | Some(LimitState::Unlimited) => real(),
        Some(LimitState::Broken) => OUT_OF_MEMORY,
        Some(LimitState::Limited(device)) => with_reservation(device, bytes as u64, real, || {
            // SAFETY: where the driver has just written.
            memory_table().create(unsafe { *handle }, Some(device), bytes as u64);
        }),
    })
}

/// Releases a handle. The lock is held meanwhile: the driver may give the same handle to another
/// thread at once.
pub(crate) fn release(handle: u64, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let mut memory = memory_table();
    let code = real();
    if code == 0 {
        memory.release(handle);
    }
    code
}

pub(crate) fn map(at: u64, bytes: usize, handle: u64, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let mut memory = memory_table();
    let code = real();
    if code == 0 {
        memory.map(at, bytes as u64, handle);
    }
    code
}

/// Ends mappings. It may wait for the device, so no lock is held: another thread may map something
/// there before this call has returned.
pub(crate) fn unmap(at: u64, bytes: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let mappings = memory_table().mapped(at, bytes as u64);
    let code = real();
    if code == 0 {
        memory_table().unmap(&mappings);
    }
    code
}

/// Gets the handle of the allocation that is mapped at an address.
pub(crate) fn retain(handle: *mut u64, at: u64, real: impl FnOnce() -> u32) -> u32 {
    let _touch = touch();
    allocations::pin(at as usize);
    let Some(_inside) = Inside::limited() else { return real() };
    let mut memory = memory_table();
    let code = real();
    // SAFETY: null, or where the driver has just written.
    if let (0, Some(handle)) = (code, unsafe { handle.as_ref() }) {
        memory.retain(*handle, at);
    }
    code
}

/// Finds an allocation, and keeps it during a call, whatever other threads release meanwhile.
fn keep(find: impl FnOnce(&MemoryTable) -> Option<u64>) -> Option<u64> {
    let mut memory = memory_table();
    let found = find(&memory)?;
    memory.keep(found);
    Some(found)
}

/// Exports an allocation to other processes, which may keep it: its end can't be seen.
pub(crate) fn export(handle: u64, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let kept = keep(|memory| memory.of_handle(handle));
    let code = real();
    if let Some(allocation) = kept {
        let mut memory = memory_table();
        if code == 0 {
            memory.export(allocation);
        }
        memory.leave(&[allocation]);
    }
    code
}

/// Exports an allocation by a file or another handle at `to`.
pub(crate) fn export_to(
    to: *const c_void,
    kind: u32,
    handle: u64,
    real: impl FnOnce() -> u32,
) -> u32 {
    let code = export(handle, real); // enters by itself
    if let (0, Some(_inside)) = (code, Inside::limited()) {
        exporters::mark(to, kind);
    }
    code
}

/// Imports an allocation by a file or another handle.
pub(crate) fn import(
    handle: *const u64,
    from: usize,
    kind: u32,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let exporter = exporters::of_file(from, kind);
    let code = real();
    // SAFETY: null, or where the driver has just written.
    let handle = unsafe { handle.as_ref() }.filter(|_| code == 0);
    if let (Some(exporter), Some(handle)) = (exporter, handle)
        && let Some(LimitState::Limited(device)) = owner_of(*handle).map(Owner::limit_state)
    {
        imports::note_handle(*handle, device, exporter);
    }
    code
}

/// Returns the owner of a handle's memory. `None`: it has none, or the driver doesn't say.
fn owner_of(handle: u64) -> Option<Owner> {
    let mut words = [0; 8]; // `CUmemAllocationProp` has four
    let code = calls::allocation_properties(&mut words, handle)?;
    let location = [words[1] as u32, (words[1] >> 32) as u32];
    (code == 0).then(|| AllocationProperties::new(words[0] as u32, location).owner())
}

/// Exports the memory at an address, which a file may keep after its end: an allocation that is
/// mapped there, linear memory, or that of a pool.
pub(crate) fn export_at(address: u64, real: impl FnOnce() -> u32) -> u32 {
    let _touch = touch();
    allocations::pin(address as usize);
    let Some(_inside) = Inside::limited() else { return real() };
    let mut stores = stores(); // locked, so that no pool gets the memory back meanwhile
    let code = real();
    if code == 0 {
        stores.export_at(address as usize);
        drop(stores);
        let mut memory = memory_table();
        match memory.at(address) {
            Some(allocation) => memory.export(allocation),
            None => charges::export(address as usize),
        }
    }
    code
}

/// Makes a multicast object, which has no memory of its own.
pub(crate) fn create_multicast(handle: *mut u64, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    // SAFETY: null, or where the driver has just written.
    if let (0, Some(handle)) = (code, unsafe { handle.as_ref() }) {
        memory_table().create(*handle, None, 0);
    }
    code
}

/// Binds an allocation, by its handle or an address, to a multicast object, which keeps it for a
/// device: that of the allocation, if none is named.
pub(crate) fn bind(
    object: u64,
    device: Option<i32>,
    at: usize,
    bytes: usize,
    from: Result<u64, u64>,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let kept = keep(|memory| match from {
        Ok(handle) => memory.of_handle(handle),
        Err(address) => memory.at(address),
    });
    let code = real();
    let Some(allocation) = kept else { return code };
    let mut memory = memory_table();
    match memory.object(object) {
        _ if code != 0 => {}
        Some(holder) => {
            let device = device.or_else(|| memory.device(allocation)).unwrap_or(-1);
            let region = Region([at as u64, bytes as u64, device as u64, 0]);
            memory.put(holder, region, allocation);
        }
        // The object is an import, whose end is unknown.
        None => memory.export(allocation),
    }
    memory.leave(&[allocation]);
    code
}

/// Unbinds a device's range of a multicast object.
pub(crate) fn unbind(
    object: u64,
    device: i32,
    at: usize,
    bytes: usize,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let (mut memory, end) = (memory_table(), at.saturating_add(bytes) as u64);
    let holder = memory.object(object);
    let is_meant =
        |Region([from, _, of, _]): &Region| *of == device as u64 && (at as u64..end).contains(from);
    let taken = holder.map(|holder| memory.begin_take(holder, is_meant)).unwrap_or_default();
    drop(memory); // another thread may bind something there before the call has returned
    let code = real();
    memory_table().end_take(taken, code == 0);
    code
}

/// `CU_MEM_OPERATION_TYPE_MAP`; the other one is its end.
const MAP: u32 = 1;

/// Maps allocations into sparse arrays, which keep them, or unmaps them once the stream has reached
/// this point.
pub(crate) fn map_arrays(
    list: usize,
    count: u32,
    stream: Stream,
    real: impl FnOnce(usize) -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real(list) };
    // SAFETY: cuMemMapArrayAsync demands that the list is null or has `count` entries.
    let own = unsafe { copied(list as *const ArrayMapInfo, count as usize) };
    let Some(own) = own else { return OUT_OF_MEMORY };
    // The driver gets the copy: another thread of the program may change its list meanwhile.
    let code = real(if own.is_empty() { list } else { own.as_ptr() as usize });
    if code != 0 {
        return code;
    }
    for ArrayMapInfo { array, region, operation, handle, .. } in own {
        let (holder, region) = (Holder::Array(array), Region(region));
        let gone = memory_table().take_out(holder, region);
        if !gone.is_empty() {
            calls::with_relaxed_capture(|| {
                pending::add(stream, move || memory_table().leave(&gone))
            });
        }
        if operation == MAP {
            let mut memory = memory_table();
            let allocation = memory.of_handle(handle);
            allocation.into_iter().for_each(|allocation| memory.put(holder, region, allocation));
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_unknown_locations_is_the_current_devices() {
        let owner = |kind, location| AllocationProperties::new(kind, [location, 3]).owner();
        assert_eq!([1, 6].map(|location| owner(1, location)), [Owner::Device(3); 2]);
        assert_eq!(ELSEWHERE.map(|location| owner(1, location)), [Owner::Host; 5]);
        assert_eq!((owner(1, 7), owner(MANAGED, 2)), (Owner::Any, Owner::Any));
    }
}
