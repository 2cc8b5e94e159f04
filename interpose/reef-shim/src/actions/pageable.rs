//! Ordinary memory of the host that the driver moves to a device (HMM, ATS). It is in no account,
//! so a program with a limit finds a device that doesn't do this, as far as the driver is asked.

use crate::driver::calls;
use crate::driver::state::Inside;
use crate::limit::device;
use crate::limit::refusal::say;

/// `CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS` and `…_USES_HOST_PAGE_TABLES`.
const ACCESS: u32 = 88;
const HOST_TABLES: u32 = 100;
/// `CU_POINTER_ATTRIBUTE_IS_MANAGED`: memory that is charged in full.
const IS_MANAGED: u32 = 8;
/// `CU_MEM_LOCATION_TYPE_DEVICE`, and the part of a device that has a memory.
const DEVICE: u32 = 1;
const PART: u32 = 6;
/// `CU_MEM_ADVISE_SET_PREFERRED_LOCATION`.
const PREFER: u32 = 3;
/// `CUDA_ERROR_INVALID_VALUE`: the answer of a device that moves managed memory alone.
const INVALID_VALUE: u32 = 1;

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

    /// Returns the device whose memory is limited.
    fn limited(self) -> Option<i32> {
        let ordinal = match self.kind {
            DEVICE => self.ordinal,
            PART => self.ordinal & 0xff,
            _ => return None,
        };
        device::limit(ordinal).map(|_| ordinal)
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
pub(crate) fn prefetch(at: usize, to: Location, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    if is_refused(at, to) { INVALID_VALUE } else { real() }
}

/// Tells the driver how a range is used, or refuses to: memory moves to its preferred location.
pub(crate) fn advise(at: usize, advice: u32, to: Location, real: impl FnOnce() -> u32) -> u32 {
    if advice == PREFER { prefetch(at, to, real) } else { real() }
}

/// Moves ranges to locations, or refuses to.
///
/// # Safety
///
/// The lists are null, or have `count` and `location_count` entries.
pub(crate) unsafe fn prefetch_all(
    ranges: *const usize,
    count: usize,
    locations: *const Location,
    location_count: usize,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    if ranges.is_null() || locations.is_null() {
        return real(); // the driver says why
    }
    // SAFETY: the caller's promise.
    let (ranges, locations) = unsafe {
        (
            std::slice::from_raw_parts(ranges, count),
            std::slice::from_raw_parts(locations, location_count),
        )
    };
    // Any range may go to any location.
    let refused = ranges.iter().any(|at| locations.iter().any(|to| is_refused(*at, *to)));
    if refused { INVALID_VALUE } else { real() }
}

/// Returns whether memory may not move: it is not charged, and the device's memory is limited.
fn is_refused(at: usize, to: Location) -> bool {
    let Some(ordinal) = to.limited() else { return false };
    let (mut has_access, mut is_managed) = (0, 0);
    let _ = calls::device_attribute(&mut has_access, ACCESS, ordinal); // an error leaves zero
    let is_ordinary = has_access != 0
        && (calls::pointer_attribute(&mut is_managed, IS_MANAGED, at) != Some(0)
            || is_managed == 0);
    if is_ordinary {
        say(&format!(
            "device {ordinal}: ordinary memory may not move there, because the limit does not count it"
        ));
    }
    is_ordinary
}
