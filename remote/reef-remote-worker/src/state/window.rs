//! Addresses that client and worker have reserved at the same place, and memory that is mapped
//! there.

use super::quota::Quota;
use crate::driver::Driver;
use reef_cuda_abi::codes::{INVALID_VALUE, OUT_OF_MEMORY};
use reef_remote_calls::{SLAB_LEN, WINDOW_LEN, WINDOW_SLOTS};
use std::collections::BTreeMap;
use std::sync::Arc;

/// `CUmemAllocationProp`: pinned memory of one device, which no other process may open.
#[repr(C)]
struct Properties {
    kind: u32,
    handle_types: u32,
    place: Location,
    meta: usize,
    flags: [u32; 2],
}

/// `CUmemLocation`: a device.
#[repr(C)]
#[derive(Clone, Copy)]
struct Location {
    kind: u32,
    device: i32,
}

/// `CUmemAccessDesc`: reads and writes of a device.
#[repr(C)]
struct Access {
    place: Location,
    flags: u32,
}

/// Memory at an address of the window: one physical allocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slab {
    pub(crate) bytes: u64,
    /// Number of the context with which it ends.
    pub(crate) context: u64,
    pub(crate) device: i32,
    handle: usize,
}

/// Reserved addresses, and the memory that is mapped there.
#[derive(Debug)]
pub(crate) struct Window {
    base: u64,
    /// Lengths of free ranges, by their first addresses.
    free: BTreeMap<u64, u64>,
    slabs: BTreeMap<u64, Slab>,
    /// Bound of the program's memory, if it has one.
    quota: Option<Arc<Quota>>,
}

impl Window {
    /// Reserves the first of these windows that the driver gives at the address that is asked for.
    pub(crate) fn reserve(
        driver: &Driver,
        slots: &[u64],
        quota: Option<&Arc<Quota>>,
    ) -> Option<Self> {
        let known = slots.iter().filter(|slot| WINDOW_SLOTS.contains(slot));
        known.take(WINDOW_SLOTS.len()).find_map(|slot| Self::at(driver, *slot, quota))
    }

    fn at(driver: &Driver, base: u64, quota: Option<&Arc<Quota>>) -> Option<Self> {
        let (mut got, bytes) = (0_u64, WINDOW_LEN as usize);
        let place = &raw mut got as usize;
        // SAFETY: a place for an address, and numbers.
        let code =
            unsafe { driver.functions.address_reserve.call([place, bytes, 0, base as usize, 0]) };
        if code != 0 {
            return None;
        }
        if got != base {
            // SAFETY: what was reserved a moment ago.
            unsafe { driver.functions.address_free.call([got as usize, bytes]) };
            return None;
        }
        let free = BTreeMap::from([(base, WINDOW_LEN)]);
        Some(Self { base, free, slabs: BTreeMap::new(), quota: quota.cloned() })
    }

    /// Returns the first address.
    pub(crate) const fn base(&self) -> u64 {
        self.base
    }

    /// Returns the memory that is mapped, by its first addresses.
    pub(crate) const fn slabs(&self) -> &BTreeMap<u64, Slab> {
        &self.slabs
    }

    /// Gives memory to the context that `of` returns, or ends it.
    pub(crate) fn keep(&mut self, driver: &Driver, of: impl Fn(u64, &Slab) -> Option<u64>) {
        let all: Vec<u64> = self.slabs.keys().copied().collect();
        for at in all {
            let context = self.slabs.get(&at).and_then(|slab| of(at, slab));
            match (context, self.slabs.get_mut(&at)) {
                (Some(context), Some(slab)) => slab.context = context,
                _ => self.unmap(driver, at),
            }
        }
    }

    /// Maps new memory for a context with its device, and returns its first address.
    ///
    /// # Errors
    ///
    /// The driver's code.
    pub(crate) fn lease(
        &mut self,
        driver: &Driver,
        of: (u64, i32),
        bytes: u64,
    ) -> Result<u64, u32> {
        let bytes = bytes.checked_next_multiple_of(SLAB_LEN).ok_or(OUT_OF_MEMORY)?.max(SLAB_LEN);
        let room = self.free.iter().find(|(_, len)| **len >= bytes);
        let at = *room.ok_or(OUT_OF_MEMORY)?.0;
        self.map(driver, at, bytes, of)?;
        Ok(at)
    }

    /// Maps new memory at an address.
    ///
    /// # Errors
    ///
    /// The driver's code; `INVALID_VALUE` where the addresses are not free.
    pub(crate) fn map(
        &mut self,
        driver: &Driver,
        at: u64,
        bytes: u64,
        of: (u64, i32),
    ) -> Result<(), u32> {
        let (context, device) = of;
        let end = at.checked_add(bytes).ok_or(INVALID_VALUE)?;
        let before = self.free.range(..=at).next_back().map(|(from, len)| (*from, *len));
        let (from, len) = before.ok_or(INVALID_VALUE)?;
        let is_whole = bytes > 0 && bytes.is_multiple_of(SLAB_LEN) && at.is_multiple_of(SLAB_LEN);
        if !is_whole || end > from + len {
            return Err(INVALID_VALUE);
        }
        if let Some(quota) = &self.quota {
            quota.reserve(bytes)?;
        }
        let handle = back(driver, at, bytes, device).inspect_err(|_| self.release(bytes))?;
        self.free.remove(&from);
        for (from, end) in [(from, at), (end, from + len)] {
            if from < end {
                self.free.insert(from, end - from);
            }
        }
        self.slabs.insert(at, Slab { bytes, context, device, handle });
        Ok(())
    }

    /// Ends the memory whose first address this is. The device doesn't use it any more.
    pub(crate) fn unmap(&mut self, driver: &Driver, at: u64) {
        let Some(slab) = self.slabs.remove(&at) else { return };
        unback(driver, at, slab.bytes, slab.handle);
        self.release(slab.bytes);
        let (mut from, mut len) = (at, slab.bytes);
        if let Some(behind) = self.free.remove(&(at + slab.bytes)) {
            len += behind;
        }
        let before = self.free.range(..at).next_back().map(|(from, len)| (*from, *len));
        if let Some((before, its)) = before.filter(|(before, its)| before + its == at) {
            (from, len) = (before, len + its);
        }
        self.free.insert(from, len);
    }

    fn release(&self, bytes: u64) {
        if let Some(quota) = &self.quota {
            quota.release(bytes);
        }
    }

    /// Ends the memory of a context that has ended.
    pub(crate) fn end_context(&mut self, driver: &Driver, context: u64) {
        let of = |(at, slab): (&u64, &Slab)| (slab.context == context).then_some(*at);
        let gone: Vec<u64> = self.slabs.iter().filter_map(of).collect();
        gone.into_iter().for_each(|at| self.unmap(driver, at));
    }
}

/// Makes physical memory of a device, maps it, and lets the device use it.
fn back(driver: &Driver, at: u64, bytes: u64, device: i32) -> Result<usize, u32> {
    let functions = &driver.functions;
    let (at, bytes) = (at as usize, bytes as usize);
    let place = Location { kind: 1, device };
    let properties = Properties { kind: 1, handle_types: 0, place, meta: 0, flags: [0; 2] };
    let access = Access { place, flags: 3 };
    let mut handle = 0_usize;
    let check = |code: u32| if code == 0 { Ok(()) } else { Err(code) };
    // SAFETY: places for a handle and of the driver's structures; addresses that are reserved, and
    // free.
    unsafe {
        let place = &raw mut handle as usize;
        check(functions.mem_create.call([place, bytes, &raw const properties as usize, 0]))?;
        let mapped = check(functions.mem_map.call([at, bytes, 0, handle, 0]));
        let usable = mapped.and_then(|()| {
            let access = &raw const access as usize;
            let set = check(functions.mem_set_access.call([at, bytes, access, 1]));
            set.inspect_err(|_| {
                functions.mem_unmap.call([at, bytes]);
            })
        });
        usable.inspect_err(|_| {
            functions.mem_release.call([handle]);
        })?;
    }
    Ok(handle)
}

fn unback(driver: &Driver, at: u64, bytes: u64, handle: usize) {
    // SAFETY: a mapping and a handle of this window's, which nothing else names.
    unsafe {
        driver.functions.mem_unmap.call([at as usize, bytes as usize]);
        driver.functions.mem_release.call([handle]);
    }
}
