//! Physical memory by handles: it exists until neither a handle nor a mapping is left, in the
//! address space or in a holder.

use super::device::Limited;
use super::exported;
use super::exporters::Exporter;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// Allocation of physical memory.
#[derive(Debug)]
struct PhysicalMemory {
    /// `None` for multicast objects, which have no memory of their own.
    device: Option<&'static Limited>,
    bytes: u64,
    mappings: u64,
    /// Number of releases until its handles are gone.
    references: u64,
    /// True if other processes, or a file, may have it: its end is unknown.
    is_exported: bool,
    /// Process that is charged in the place of this one, of imported memory.
    exporter: Option<Exporter>,
}

/// Holder that keeps memory besides the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A sparse array, by its handle.
    Array(usize),
    /// A multicast object, which is an allocation.
    Object(u64),
}

/// Region of a holder: the words by which the program names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region(pub(crate) [u64; 4]);

/// Mapping of an allocation to addresses.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    bytes: u64,
    allocation: u64,
    /// Number that no other mapping has.
    number: u64,
}

/// Physical memory that this process has created or imported, and that is limited. Imports from
/// processes without limits are unknown.
#[derive(Debug, Default)]
pub(crate) struct MemoryTable {
    /// Number of the last allocation or mapping.
    last: u64,
    memory: HashMap<u64, PhysicalMemory>,
    /// Allocations by handle, with the number of releases that each handle needs.
    handles: HashMap<u64, (u64, u64)>,
    mappings: BTreeMap<u64, Mapping>,
    /// Allocations in regions of holders.
    held: Vec<(Holder, Region, u64)>,
}

static MEMORY: LazyLock<Mutex<MemoryTable>> = LazyLock::new(Mutex::default);

pub(crate) fn memory_table() -> MutexGuard<'static, MemoryTable> {
    MEMORY.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl MemoryTable {
    /// Adds an allocation.
    pub(crate) fn create(&mut self, handle: u64, device: Option<&'static Limited>, bytes: u64) {
        self.last += 1;
        let allocation = PhysicalMemory {
            device,
            bytes,
            mappings: 0,
            references: 1,
            is_exported: false,
            exporter: None,
        };
        self.memory.insert(self.last, allocation);
        self.handles.insert(handle, (self.last, 1));
    }

    /// Adds imported memory. Its size is unknown until it is mapped.
    pub(crate) fn import(&mut self, handle: u64, device: &'static Limited, exporter: Exporter) {
        let known = self.handles.get_mut(&handle).map(|(allocation, count)| {
            *count += 1;
            *allocation
        });
        match known {
            Some(allocation) => self.change(allocation, |allocation| allocation.references += 1),
            None => {
                self.create(handle, Some(device), 0);
                let memory = self.memory.get_mut(&self.last);
                memory.into_iter().for_each(|memory| memory.exporter = Some(exporter));
            }
        }
    }

    /// Adds the exporters that are charged in the place of this process.
    pub(crate) fn add_exporters(&self, to: &mut HashSet<Exporter>) {
        to.extend(self.memory.values().filter_map(|memory| memory.exporter));
    }

    /// Charges this process with imports on a device in the place of exporters that have ended.
    pub(crate) fn take_over(&mut self, ordinal: i32, ended: &HashSet<Exporter>) {
        for memory in self.memory.values_mut() {
            let Some(device) = memory.device.filter(|device| device.ordinal == ordinal) else {
                continue;
            };
            if memory.exporter.take_if(|exporter| ended.contains(exporter)).is_some() {
                device.add(memory.bytes);
            }
        }
    }

    /// Releases a handle once.
    pub(crate) fn release(&mut self, handle: u64) {
        let Some((allocation, count)) = self.handles.get_mut(&handle) else { return };
        let allocation = *allocation;
        *count -= 1;
        if *count == 0 {
            self.handles.remove(&handle);
        }
        self.change(allocation, |allocation| {
            allocation.references = allocation.references.saturating_sub(1)
        });
    }

    /// Maps a handle. A former mapping at the address has ended, even if the call that ended it has
    /// not returned yet.
    pub(crate) fn map(&mut self, at: u64, bytes: u64, handle: u64) {
        let Some((allocation, _)) = self.handles.get(&handle).copied() else { return };
        self.last += 1;
        let former = self.mappings.insert(at, Mapping { bytes, allocation, number: self.last });
        self.learn_size(allocation, bytes);
        self.change(allocation, |allocation| allocation.mappings += 1);
        former.into_iter().for_each(|former| self.leave(&[former.allocation]));
    }

    /// Notes the size of an import, of which a mapping has all.
    fn learn_size(&mut self, allocation: u64, bytes: u64) {
        let memory = self.memory.get_mut(&allocation).filter(|memory| memory.bytes < bytes);
        let Some(memory) = memory else { return };
        if let (Some(device), None) = (memory.device, memory.exporter) {
            device.add(bytes - memory.bytes);
        }
        memory.bytes = bytes;
    }

    /// Returns the mappings in a range of addresses, by address and number.
    pub(crate) fn mapped(&self, at: u64, bytes: u64) -> Vec<(u64, u64)> {
        let its = self.mappings.range(at..at.saturating_add(bytes));
        its.map(|(at, mapping)| (*at, mapping.number)).collect()
    }

    /// Removes mappings that have ended. Another one may be at the same address by now.
    pub(crate) fn unmap(&mut self, ended: &[(u64, u64)]) {
        for (at, number) in ended {
            let is_it = self.mappings.get(at).is_some_and(|mapping| mapping.number == *number);
            let gone = if is_it { self.mappings.remove(at) } else { None };
            gone.into_iter().for_each(|gone| self.leave(&[gone.allocation]));
        }
    }

    /// Adds a reference to the allocation at an address, by this handle.
    pub(crate) fn retain(&mut self, handle: u64, at: u64) {
        let Some(allocation) = self.at(at) else { return };
        self.handles.entry(handle).or_insert((allocation, 0)).1 += 1;
        self.change(allocation, |allocation| allocation.references += 1);
    }

    /// Returns the allocation that is mapped at an address.
    pub(crate) fn at(&self, at: u64) -> Option<u64> {
        let (from, mapping) = self.mappings.range(..=at).next_back()?;
        (at - from < mapping.bytes).then_some(mapping.allocation)
    }

    pub(crate) fn of_handle(&self, handle: u64) -> Option<u64> {
        self.handles.get(&handle).map(|(allocation, _)| *allocation)
    }

    /// Returns the ordinal of an allocation's device.
    pub(crate) fn device(&self, allocation: u64) -> Option<i32> {
        Some(self.memory.get(&allocation)?.device?.ordinal)
    }

    /// Returns a multicast object as a holder.
    pub(crate) fn object(&self, handle: u64) -> Option<Holder> {
        self.of_handle(handle).map(Holder::Object)
    }

    /// Marks an allocation as exported, and what is bound to it.
    pub(crate) fn export(&mut self, allocation: u64) {
        let bound = self.held.iter().filter(|(of, ..)| *of == Holder::Object(allocation));
        let all: Vec<_> = bound.map(|(.., bound)| *bound).chain([allocation]).collect();
        for one in all {
            if let Some(memory) = self.memory.get_mut(&one) {
                memory.is_exported = true;
            }
        }
    }

    pub(crate) fn put(&mut self, holder: Holder, region: Region, allocation: u64) {
        self.put_again(holder, region, allocation);
        self.change(allocation, |allocation| allocation.mappings += 1);
    }

    fn put_again(&mut self, holder: Holder, region: Region, allocation: u64) {
        let is_exported = |object: &u64| self.memory.get(object).is_some_and(|of| of.is_exported);
        if matches!(&holder, Holder::Object(object) if is_exported(object)) {
            self.export(allocation);
        }
        self.held.push((holder, region, allocation));
    }

    /// Removes what is in matching regions of a holder and is about to end: afterwards another
    /// thread may put something there. [`end_take`](Self::end_take) has to follow.
    pub(crate) fn begin_take(
        &mut self,
        holder: Holder,
        is_meant: impl Fn(&Region) -> bool,
    ) -> Vec<(Holder, Region, u64)> {
        let is_gone =
            |(of, region, _): &mut (Holder, Region, u64)| *of == holder && is_meant(region);
        self.held.extract_if(.., is_gone).collect()
    }

    /// Ends the mappings of what was removed, or puts it back if it has not ended.
    pub(crate) fn end_take(&mut self, taken: Vec<(Holder, Region, u64)>, has_ended: bool) {
        for (holder, region, allocation) in taken {
            if has_ended {
                self.leave(&[allocation]);
            } else {
                self.put_again(holder, region, allocation);
            }
        }
    }

    /// Removes the allocations in a region without ending their mappings, which
    /// [`leave`](Self::leave) has to do later.
    pub(crate) fn take_out(&mut self, holder: Holder, region: Region) -> Vec<u64> {
        let is_it = |(of, at, _): &mut (Holder, Region, u64)| (*of, *at) == (holder, region);
        self.held.extract_if(.., is_it).map(|(.., allocation)| allocation).collect()
    }

    /// Keeps an allocation as a mapping does, until [`leave`](Self::leave) ends that.
    pub(crate) fn keep(&mut self, allocation: u64) {
        self.change(allocation, |allocation| allocation.mappings += 1);
    }

    /// Ends a mapping of each allocation, in the address space or in a holder.
    pub(crate) fn leave(&mut self, gone: &[u64]) {
        for allocation in gone {
            self.change(*allocation, |allocation| {
                allocation.mappings = allocation.mappings.saturating_sub(1)
            });
        }
    }

    fn change(&mut self, at: u64, change: fn(&mut PhysicalMemory)) {
        let Some(allocation) = self.memory.get_mut(&at) else { return };
        change(allocation);
        if allocation.references == 0 && allocation.mappings == 0 {
            let PhysicalMemory { bytes, is_exported, exporter, .. } = *allocation;
            let end = if is_exported { exported::add } else { Limited::give_back };
            let charged = allocation.device.filter(|_| exporter.is_none());
            charged.into_iter().for_each(|device| end(device, bytes));
            self.memory.remove(&at);
            let taken = self.begin_take(Holder::Object(at), |_| true);
            self.end_take(taken, true);
        }
    }
}
