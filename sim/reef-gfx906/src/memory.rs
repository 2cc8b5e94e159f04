//! Memory that the device knows: what was allocated for it or registered with it, and which of that
//! it may touch.
//!
//! An address means the same to the device and to the host. Waves run under [`Memory::view`], and
//! nothing is unmapped while there is one: a wave that has checked an address may use it.

use crate::abi::MemoryFlags;
use crate::clock::Clock;
use crate::isa::code::Code;
use crate::isa::wave;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of device memory: an MI50's 16 GB.
pub(crate) const DEVICE_BYTES: u64 = 17_163_091_968;
/// The node of the device; the host is node 0.
pub(crate) const DEVICE_NODE: u32 = 1;

const PAGE: u64 = 4096;
/// The runtime cuts its blocks from aligned ones of this size.
const ALIGNMENT: u64 = 2 << 20;

/// A piece of memory with one owner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) node: u32,
    pub(crate) flags: MemoryFlags,
    pub(crate) mapped: bool,
    pub(crate) user_data: u64,
    /// Number of times that the host has registered it; 0 for memory that was allocated here.
    pub(crate) registrations: u32,
}

impl Region {
    /// No memory at all.
    pub(crate) fn nowhere() -> Self {
        let flags = MemoryFlags::default();
        Self { start: 0, bytes: 0, node: 0, flags, mapped: false, user_data: 0, registrations: 0 }
    }

    fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.bytes
    }

    /// First and last page that the device sees, as addresses.
    fn pages(&self) -> (u64, u64) {
        (self.start & !(PAGE - 1), (self.start + self.bytes).next_multiple_of(PAGE))
    }
}

#[derive(Debug, Default)]
struct Regions {
    allocated: BTreeMap<u64, Region>,
    registered: BTreeMap<u64, Region>,
    used: u64,
}

impl Regions {
    fn find(&mut self, address: u64) -> Option<&mut Region> {
        let allocated = self.allocated.range_mut(..=address).next_back();
        let registered = self.registered.range_mut(..=address).rev();
        let mut regions = allocated.into_iter().chain(registered).map(|(_, region)| region);
        regions.find(|region| region.contains(address))
    }

    /// All that is mapped, sorted, without overlaps.
    fn mapped(&self) -> Vec<(u64, u64)> {
        let regions = self.allocated.values().chain(self.registered.values());
        let mut ranges: Vec<_> = regions.filter(|r| r.mapped).map(Region::pages).collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, kept| {
            let touches = next.0 <= kept.1;
            if touches {
                kept.1 = kept.1.max(next.1);
            }
            touches
        });
        ranges
    }
}

/// All memory of the device and of the host that it sees.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    regions: Mutex<Regions>,
    /// Mapped ranges, sorted; read by threads that touch memory for the device.
    mapped: RwLock<Vec<(u64, u64)>>,
    /// Code that waves have decoded; forgotten where memory is freed or copied to.
    code: Arc<Code>,
}

impl Memory {
    /// Memory of `node`; its address is `at` if the flags say so.
    ///
    /// # Errors
    ///
    /// `None` if there is no more of it.
    pub(crate) fn allocate(
        &self,
        node: u32,
        bytes: u64,
        flags: MemoryFlags,
        at: u64,
    ) -> Option<u64> {
        let bytes = bytes.checked_next_multiple_of(PAGE).filter(|&bytes| bytes > 0)?;
        let mut regions = self.regions.lock();
        let counted = if counts(node, flags) { bytes } else { 0 };
        if counted > DEVICE_BYTES - regions.used {
            return None;
        }
        let start = map(bytes, flags, at)?;
        regions.used += counted;
        let region = Region { start, bytes, node, flags, ..Region::nowhere() };
        regions.allocated.insert(start, region);
        Some(start)
    }

    /// Gives back what was allocated at `start`; false if nothing was.
    pub(crate) fn free(&self, start: u64) -> bool {
        let mut regions = self.regions.lock();
        let Some(region) = regions.allocated.remove(&start) else { return false };
        if counts(region.node, region.flags) {
            regions.used -= region.bytes;
        }
        let mut mapped = self.mapped.write();
        *mapped = regions.mapped();
        self.code.forget(start..start + region.bytes);
        // SAFETY: the range was mapped by `allocate`, its owner has given it back, and no view is
        // open.
        unsafe { munmap(start as *mut c_void, region.bytes as usize) }.is_ok()
    }

    /// Makes memory of the host known.
    pub(crate) fn register(&self, start: u64, bytes: u64, flags: MemoryFlags) {
        let mut regions = self.regions.lock();
        if regions.allocated.range(..=start).next_back().is_some_and(|(_, r)| r.contains(start)) {
            return;
        }
        let region = regions.registered.entry(start).or_insert(Region {
            start,
            bytes,
            flags,
            ..Region::nowhere()
        });
        region.registrations += 1;
        if bytes > region.bytes {
            region.bytes = bytes;
            *self.mapped.write() = regions.mapped();
        }
    }

    /// Takes back one registration of `start`.
    pub(crate) fn deregister(&self, start: u64) {
        let mut regions = self.regions.lock();
        let Some(region) = regions.registered.get_mut(&start) else { return };
        region.registrations -= 1;
        if region.registrations == 0 {
            regions.registered.remove(&start);
            *self.mapped.write() = regions.mapped();
        }
    }

    /// Lets the device touch the region around `address`; false if there is none.
    pub(crate) fn map(&self, address: u64) -> bool {
        self.change(address, |region| region.mapped = true)
    }

    /// Takes back one [`map`](Self::map) of the region that starts at `address`; false if there is
    /// none. What was registered more than once stays mapped for the others.
    pub(crate) fn unmap(&self, address: u64) -> bool {
        let shared = |region: &Region| region.start != address || region.registrations > 1;
        self.change(address, |region| region.mapped &= shared(region))
    }

    /// Keeps a word of the caller's with the region around `address`; false if there is none.
    pub(crate) fn set_user_data(&self, address: u64, user_data: u64) -> bool {
        self.change(address, |region| region.user_data = user_data)
    }

    fn change(&self, address: u64, change: impl FnOnce(&mut Region)) -> bool {
        let mut regions = self.regions.lock();
        let Some(region) = regions.find(address) else { return false };
        let before = region.mapped;
        change(region);
        if region.mapped != before {
            *self.mapped.write() = regions.mapped();
        }
        true
    }

    /// The region around `address`.
    pub(crate) fn find(&self, address: u64) -> Option<Region> {
        self.regions.lock().find(address).copied()
    }

    /// Bytes of device memory that are free.
    pub(crate) fn available(&self) -> u64 {
        DEVICE_BYTES - self.regions.lock().used
    }

    /// Makes a view: memory that is mapped now stays mapped as long as the view lives.
    pub(crate) fn view(&self, clock: Clock) -> View<'_> {
        View { mapped: self.mapped.read(), clock, code: &self.code }
    }

    /// Code that waves have decoded.
    pub(crate) fn code(&self) -> &Arc<Code> {
        &self.code
    }
}

/// Returns whether an allocation takes from the device's memory.
fn counts(node: u32, flags: MemoryFlags) -> bool {
    node == DEVICE_NODE && !flags.scratch()
}

fn map(bytes: u64, flags: MemoryFlags, at: u64) -> Option<u64> {
    let access =
        if flags.scratch() { ProtFlags::empty() } else { ProtFlags::READ | ProtFlags::WRITE };
    let kind = MapFlags::PRIVATE | MapFlags::NORESERVE;
    if flags.fixed_address() && at != 0 {
        let kind = kind | MapFlags::FIXED_NOREPLACE;
        // SAFETY: a new mapping, at an address where the kernel has made sure that nothing is.
        let start = unsafe { mmap_anonymous(at as *mut c_void, bytes as usize, access, kind) };
        return start.ok().map(|start| start as u64);
    }
    let room = bytes.checked_add(ALIGNMENT)?;
    // SAFETY: a new mapping wherever the kernel has room.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), room as usize, access, kind) };
    let start = start.ok()? as u64;
    let aligned = start.next_multiple_of(ALIGNMENT);
    trim(start, aligned);
    trim(aligned + bytes, start + room);
    Some(aligned)
}

/// Unmaps what aligning has left over.
fn trim(from: u64, to: u64) {
    if from < to {
        // SAFETY: a part of the mapping that `map` has just made, to which there is no other
        // pointer.
        let trimmed = unsafe { munmap(from as *mut c_void, (to - from) as usize) };
        debug_assert!(trimmed.is_ok(), "part of a mapping of ours: {trimmed:?}");
    }
}

/// View of the memory that the device may touch, as long as this lives.
#[derive(Debug)]
pub(crate) struct View<'a> {
    mapped: RwLockReadGuard<'a, Vec<(u64, u64)>>,
    clock: Clock,
    code: &'a Code,
}

impl View<'_> {
    /// The bytes there are about to change, and may have been instructions.
    pub(crate) fn forget_code(&self, address: u64, bytes: usize) {
        self.code.forget(address..address + bytes as u64);
    }
}

impl wave::Memory for View<'_> {
    fn is_mapped(&self, address: u64, bytes: usize) -> bool {
        self.mapped_around(address, bytes).is_some()
    }

    fn mapped_around(&self, address: u64, bytes: usize) -> Option<Range<u64>> {
        let end = address.checked_add(bytes as u64)?;
        let after = self.mapped.partition_point(|range| range.0 <= address);
        let &(first, past) = self.mapped.get(after.checked_sub(1)?)?;
        (end <= past).then_some(first..past)
    }

    fn clock(&self) -> u64 {
        self.clock.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::wave::Memory as _;

    fn mapped(memory: &Memory, address: u64, bytes: usize) -> bool {
        memory.view(Clock::Host).is_mapped(address, bytes)
    }

    #[test]
    fn the_device_sees_what_is_mapped_and_nothing_else() {
        let memory = Memory::default();
        let start = memory.allocate(DEVICE_NODE, 5000, MemoryFlags(0), 0).expect("some memory");
        assert_eq!(start % ALIGNMENT, 0);
        assert!(!mapped(&memory, start, 4));
        assert!(memory.map(start + 100));
        assert!(mapped(&memory, start, 8192));
        assert!(!mapped(&memory, start, 8193));
        assert!(!mapped(&memory, start - 1, 1));
        assert!(!mapped(&memory, u64::MAX, 8));
        assert!(memory.free(start));
        assert!(!mapped(&memory, start, 4));
        assert!(!memory.free(start));
    }

    #[test]
    fn device_memory_is_counted_and_ends() {
        let memory = Memory::default();
        let start = memory.allocate(DEVICE_NODE, 1 << 30, MemoryFlags(0), 0).expect("some memory");
        assert_eq!(memory.available(), DEVICE_BYTES - (1 << 30));
        assert_eq!(memory.allocate(DEVICE_NODE, DEVICE_BYTES, MemoryFlags(0), 0), None);
        assert!(memory.free(start));
        assert_eq!(memory.available(), DEVICE_BYTES);
        assert_eq!(memory.allocate(DEVICE_NODE, 0, MemoryFlags(0), 0), None);
        assert_eq!(memory.allocate(DEVICE_NODE, u64::MAX, MemoryFlags(0), 0), None);
    }

    #[test]
    fn memory_registered_twice_stays_until_deregistered_twice() {
        let memory = Memory::default();
        let start = vec![0u8; 3 * PAGE as usize].leak().as_ptr() as u64;
        memory.register(start, 100, MemoryFlags(0));
        assert!(memory.map(start));
        assert!(!mapped(&memory, start, 2 * PAGE as usize + 1));
        memory.register(start, 2 * PAGE, MemoryFlags(0));
        assert!(mapped(&memory, start, 2 * PAGE as usize), "more of what is mapped");
        assert!(memory.map(start));
        assert!(memory.unmap(start));
        memory.deregister(start);
        assert!(mapped(&memory, start, 2 * PAGE as usize), "the other one still has it");
        assert!(memory.unmap(start));
        memory.deregister(start);
        assert!(!mapped(&memory, start, 1));
        assert!(!memory.map(start));
    }

    #[test]
    fn only_the_start_of_a_region_unmaps_it() {
        let memory = Memory::default();
        let start = memory.allocate(0, 4 * PAGE, MemoryFlags(0), 0).expect("some memory");
        assert!(memory.map(start) && memory.unmap(start + PAGE));
        assert!(mapped(&memory, start, 4 * PAGE as usize));
        assert!(memory.unmap(start));
        assert!(!mapped(&memory, start, 1));
    }
}
