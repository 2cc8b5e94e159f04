//! Allocations whose physical memory can be released and made again at the same address.

use super::calls::{self, Access, Properties, Refused, check};
use crate::driver::calls as driver;
use crate::driver::state::Inside;
use crate::settings::settings;
use reef_cuda_abi::codes::OUT_OF_MEMORY;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// Smaller allocations are the driver's: physical memory comes in pieces of 2 MiB.
const MIN_BYTES: usize = 1 << 20;

/// Allocation, with physical memory or without.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allocation {
    pub(super) at: usize,
    /// A multiple of the device's granularity.
    pub(super) bytes: usize,
    /// Handle of its physical memory; zero while it is off the device.
    pub(super) handle: u64,
    pub(super) ordinal: i32,
    pub(super) context: usize,
    /// True if something else may use the physical memory, by a handle or a file.
    pub(super) is_pinned: bool,
}

static ALLOCATIONS: Mutex<BTreeMap<usize, Allocation>> = Mutex::new(BTreeMap::new());

fn allocations() -> MutexGuard<'static, BTreeMap<usize, Allocation>> {
    ALLOCATIONS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns whether an allocation that can be swapped has physical memory of its own.
pub(crate) fn has_blocks(bytes: u64) -> bool {
    settings().is_swappable && bytes >= MIN_BYTES as u64
}

/// Allocates memory, by `real` if it can't be swapped.
pub(crate) fn allocate(to: *mut usize, bytes: usize, real: impl FnOnce() -> u32) -> u32 {
    if !settings().is_swappable || bytes < MIN_BYTES || to.is_null() || driver::context() == 0 {
        return real();
    }
    match Allocation::new(bytes) {
        Ok(allocation) => {
            allocations().insert(allocation.at, allocation);
            // SAFETY: not null, and cuMemAlloc demands of the program that `to` may be written.
            unsafe { *to = allocation.at };
            0
        }
        Err(Refused { code: OUT_OF_MEMORY, .. }) => OUT_OF_MEMORY,
        Err(_) => real(),
    }
}

/// Frees memory, by `real` if it is the driver's. Waits for the context's work, as the driver does.
pub(crate) fn free(at: usize, real: impl FnOnce() -> u32) -> u32 {
    if !settings().is_swappable {
        return real();
    }
    let Some(allocation) = allocations().remove(&at) else { return real() };
    let waited = driver::in_context(allocation.context, calls::synchronize);
    allocation.end();
    waited.unwrap_or(0)
}

/// Frees what a context had that has ended.
pub(crate) fn end_context(context: usize) {
    if settings().is_swappable {
        let mut allocations = allocations();
        allocations.extract_if(.., |_, one| one.context == context).for_each(|(_, one)| one.end());
    }
}

/// Keeps the memory at an address on the device: something else has a handle or a file of it.
pub(crate) fn pin(at: usize) {
    if settings().is_swappable {
        let mut allocations = allocations();
        let found = allocations.range_mut(..=at).next_back();
        if let Some((_, one)) = found.filter(|(_, one)| at - one.at < one.bytes) {
            one.is_pinned = true;
        }
    }
}

/// Returns all that may leave, by address.
pub(super) fn all() -> Vec<Allocation> {
    allocations().values().filter(|one| !one.is_pinned).copied().collect()
}

/// Notes the physical memory of allocations.
pub(super) fn note(changed: &[Allocation]) {
    let mut allocations = allocations();
    for one in changed {
        allocations.insert(one.at, *one);
    }
}

impl Allocation {
    fn new(bytes: usize) -> Result<Self, Refused> {
        let _inside = Inside::always();
        let context = driver::context();
        let no_device = Refused::of("cuCtxGetDevice", 101);
        let ordinal = driver::device().ok_or(no_device)?;
        let (properties, mut unit) = (Properties::of(ordinal), 0);
        check("cuMemGetAllocationGranularity", calls::granularity(&mut unit, &properties, 0))?;
        let bytes = bytes.checked_next_multiple_of(unit.max(1));
        let bytes = bytes.ok_or(Refused::of("cuMemCreate", OUT_OF_MEMORY))?;
        let mut at = 0;
        check("cuMemAddressReserve", calls::reserve(&mut at, bytes, 0, 0, 0))?;
        let mut allocation = Self { at, bytes, handle: 0, ordinal, context, is_pinned: false };
        allocation.take().inspect_err(|_| {
            // SAFETY: reserved a moment ago, and nothing is mapped.
            let _ = unsafe { calls::free_address(at, bytes) };
        })?;
        Ok(allocation)
    }

    /// Makes physical memory, and maps it, unless it is there.
    pub(super) fn take(&mut self) -> Result<(), Refused> {
        if self.handle != 0 {
            return Ok(());
        }
        let mut handle = 0;
        let properties = Properties::of(self.ordinal);
        check("cuMemCreate", calls::create(&mut handle, self.bytes, &properties, 0))?;
        check("cuMemMap", calls::map(self.at, self.bytes, 0, handle, 0)).inspect_err(|_| {
            // SAFETY: a handle of a moment ago, which is not used again.
            let _ = unsafe { calls::release(handle) };
        })?;
        self.handle = handle;
        let access = Access::of(self.ordinal);
        let granted = calls::set_access(self.at, self.bytes, &access, 1);
        check("cuMemSetAccess", granted).inspect_err(|_| self.leave())
    }

    /// Unmaps and releases its physical memory, which nothing uses. Memory that the driver doesn't
    /// unmap stays as it is.
    pub(super) fn leave(&mut self) {
        // SAFETY: nothing uses the mapping: no call is under way, and no work.
        let unmapped = unsafe { calls::unmap(self.at, self.bytes) };
        if unmapped == Some(0) {
            // SAFETY: a handle of ours, which is not used again.
            let _ = unsafe { calls::release(self.handle) };
            self.handle = 0;
        }
    }

    /// Ends it, and its address.
    fn end(mut self) {
        let _inside = Inside::always();
        if self.handle != 0 {
            self.leave();
        }
        // SAFETY: nothing is mapped; the program has given the address back.
        let _ = unsafe { calls::free_address(self.at, self.bytes) };
    }
}
