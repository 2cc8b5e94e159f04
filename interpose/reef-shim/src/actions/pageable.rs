//! Memory that the driver moves to a device on demand.
//!
//! Ordinary memory of the host (HMM, ATS) is in no account, so a program with a limit finds a
//! device that doesn't do this, as far as the driver is asked. Managed memory counts on the device
//! that was current when it was allocated, and on each one that it is moved to by a call.

use super::reserve::{make_room, refuse_on_panic};
use crate::driver::calls;
use crate::driver::lists::copied;
use crate::driver::state::Inside;
use crate::limit::charges::{self, Charge, Kind};
use crate::limit::device::{self, LimitState, Limited};
use crate::limit::pools::stores::stores;
use crate::limit::refusal::say;
use reef_cuda_abi::codes::{INVALID_VALUE, OUT_OF_MEMORY};

/// `CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS` and `…_USES_HOST_PAGE_TABLES`.
const ACCESS: u32 = 88;
const HOST_TABLES: u32 = 100;
/// `CU_POINTER_ATTRIBUTE_IS_MANAGED`.
const IS_MANAGED: u32 = 8;
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const DEVICE: u32 = 1;
/// `CU_MEM_ADVISE_SET_PREFERRED_LOCATION`.
const PREFER: u32 = 3;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    kind: u32,
    ordinal: i32,
}

impl Location {
    /// Returns a device, or the host for a negative number.
    pub(crate) fn of_device(ordinal: i32) -> Self {
        Self { kind: if ordinal < 0 { 0 } else { DEVICE }, ordinal }
    }

    fn limit_state(self) -> LimitState {
        let limited = device::at(self.kind, self.ordinal).filter(|at| device::limit(*at).is_some());
        limited.map_or(LimitState::Unlimited, device::of)
    }
}

/// Returns an attribute of a device to the program. One whose memory is limited has no access to
/// ordinary memory.
pub(crate) fn attribute(
    value: *mut i32,
    which: u32,
    ordinal: i32,
    real: impl FnOnce() -> u32,
) -> u32 {
    if which != ACCESS && which != HOST_TABLES {
        return real();
    }
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    // SAFETY: null, or where the driver has just written.
    if let (0, Some(_), Some(value)) = (code, device::limit(ordinal), unsafe { value.as_mut() }) {
        if which == ACCESS && *value != 0 {
            say(&format!(
                "device {ordinal}: it moves ordinary memory that kernels touch to itself, which the limit does not count; \
                 `uvm_disable_hmm=1` of the module nvidia-uvm turns this off"
            ));
        }
        *value = 0;
    }
    code
}

/// Moves a range to a location, or refuses to.
pub(crate) fn prefetch(at: usize, bytes: usize, to: Location, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    match refuse_on_panic(|| refusal(at, bytes, to)) {
        0 => real(),
        code => code,
    }
}

/// Tells the driver how a range is used, or refuses to: memory moves to its preferred location.
pub(crate) fn advise(
    at: usize,
    bytes: usize,
    advice: u32,
    to: Location,
    real: impl FnOnce() -> u32,
) -> u32 {
    if advice == PREFER { prefetch(at, bytes, to, real) } else { real() }
}

/// Moves ranges to locations by `real`, or refuses to. `lists` are the addresses of ranges, their
/// sizes, locations, and each location's first range. `real` takes the places of these: the driver
/// gets copies, because another thread of the program may change its own ones meanwhile.
///
/// # Safety
///
/// The lists are null, or have twice `count` and twice `location_count` entries.
pub(crate) unsafe fn prefetch_all(
    lists: [usize; 4],
    count: usize,
    location_count: usize,
    real: impl FnOnce([usize; 4]) -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real(lists) };
    let [ranges, sizes, locations, first] = lists;
    if ranges == 0 || sizes == 0 || locations == 0 {
        return real(lists); // the driver says why
    }
    // SAFETY: `# Safety` demands `count` ranges and sizes, and `location_count` locations. The
    // fourth list is null or has as many numbers.
    let copies = unsafe {
        (
            copied(ranges as *const usize, count),
            copied(sizes as *const usize, count),
            copied(locations as *const Location, location_count),
            copied(first as *const usize, location_count),
        )
    };
    let (Some(ranges), Some(sizes), Some(locations), Some(numbers)) = copies else {
        return OUT_OF_MEMORY;
    };
    // A location is that of the ranges from its first one to the next location's. Without first
    // ones the driver moves nothing.
    let goes_to = |range: usize, to: usize| {
        numbers.is_empty()
            || numbers[to] <= range && numbers.get(to + 1).is_none_or(|next| range < *next)
    };
    let moves = ranges.iter().zip(&sizes).enumerate().flat_map(|(range, (at, bytes))| {
        let of = locations.iter().enumerate().filter(move |(to, _)| goes_to(range, *to));
        of.map(|(_, to)| (*at, *bytes, *to))
    });
    let code = refuse_on_panic(|| {
        let mut codes = moves.map(|(at, bytes, to)| refusal(at, bytes, to));
        codes.find(|code| *code != 0).unwrap_or(0)
    });
    if code != 0 {
        return code;
    }
    let first = if first == 0 { 0 } else { numbers.as_ptr() as usize };
    real([ranges.as_ptr() as usize, sizes.as_ptr() as usize, locations.as_ptr() as usize, first])
}

/// Returns the code for a range that may not move to a location: it would pass the limit there, or
/// the limit does not count it. Zero: it may. A range may go on after the end of an allocation.
fn refusal(at: usize, bytes: usize, to: Location) -> u32 {
    let device = match to.limit_state() {
        LimitState::Unlimited => return 0,
        LimitState::Broken => return OUT_OF_MEMORY,
        LimitState::Limited(device) => device,
    };
    let (mut from, end) = (at, at.saturating_add(bytes));
    loop {
        let (mut is_managed, mut base, mut len) = (0, 0, 0);
        if calls::pointer_attribute(&mut is_managed, IS_MANAGED, from) != Some(0) || is_managed == 0
        {
            return refusal_of_ordinary(device);
        }
        if !count_managed(from, device) {
            return OUT_OF_MEMORY;
        }
        if calls::address_range(&mut base, &mut len, from) != Some(0) {
            return 0; // the driver says why
        }
        let next = base.saturating_add(len);
        if next <= from || next >= end {
            return 0;
        }
        from = next;
    }
}

/// Returns the code for ordinary memory, which no limit counts. Zero: the device does not move it.
fn refusal_of_ordinary(device: &Limited) -> u32 {
    let mut has_access = 0;
    // An error leaves zero.
    let _ = calls::device_attribute(&mut has_access, ACCESS, device.ordinal);
    if has_access == 0 {
        return 0;
    }
    say(&format!(
        "device {}: ordinary memory may not move there, because the limit does not count it",
        device.ordinal
    ));
    INVALID_VALUE
}

/// Counts all of the managed memory around an address on a device, until it is freed. Returns false
/// if there is no room.
fn count_managed(address: usize, device: &'static Limited) -> bool {
    let charge = charges::at(address);
    let is_there = charge.is_some_and(|charge| charge.is_on(device));
    if is_there || stores().counts(address, device) {
        return true;
    }
    // Without a charge it was allocated while a device without a limit was current.
    let (mut base, mut len) = (0, 0);
    let bytes = match charge {
        Some(charge) => charge.bytes,
        None if calls::address_range(&mut base, &mut len, address) == Some(0) => len as u64,
        None => return true, // the driver says why
    };
    if !make_room(device, bytes) {
        return false;
    }
    match charge {
        None => charges::note(Kind::Memory, base, Charge::new(device, bytes, 0)),
        Some(_) if charges::count_on(address, device, bytes) => {}
        Some(_) => device.give_back(bytes),
    }
    true
}
