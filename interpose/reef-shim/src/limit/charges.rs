//! Charges of this process's allocations, which are given back at their ends.

use super::device::{self, LimitState, Limited};
use super::exported;
use super::exporters::Exporter;
use super::shared_blocks::{self, Part};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// Kind of a handle: handles of different kinds may be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// An address.
    Memory,
    Array,
    Mipmapped,
    /// A module, with its global variables.
    Module,
    Library,
    /// A context, with its threads' stacks, unless it is the process's first one.
    Context,
    /// An address of another process's memory that is open.
    Opened,
}

/// Charge of one allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    pub(crate) device: &'static Limited,
    pub(crate) bytes: u64,
    /// Context with which it ends.
    pub(crate) context: usize,
    /// True if other processes, or a file, may keep its memory.
    pub(crate) is_exported: bool,
    /// Other devices on which it counts as well, a bit for each ordinal: managed memory moves.
    pub(crate) others: u64,
    /// Process that is charged in the place of this one, of imported memory.
    pub(crate) exporter: Option<Exporter>,
    /// Number of closes that end it, of memory of another process.
    pub(crate) opened: u64,
    /// Its part of a block, which is charged in its place.
    pub(crate) part: Option<Part>,
    /// Number that no other allocation has. Later ones have greater ones.
    pub(crate) number: u64,
}

/// Number of the last charge.
static LAST: AtomicU64 = AtomicU64::new(0);

impl Charge {
    pub(crate) fn new(device: &'static Limited, bytes: u64, context: usize) -> Self {
        Self {
            device,
            bytes,
            context,
            is_exported: false,
            others: 0,
            exporter: None,
            opened: 1,
            part: None,
            number: LAST.fetch_add(1, SeqCst) + 1,
        }
    }

    pub(crate) fn is_on(&self, device: &Limited) -> bool {
        self.device.ordinal == device.ordinal || self.others & 1 << device.ordinal != 0
    }

    /// Gives it back after the allocation has ended.
    pub(crate) fn end(self) {
        if self.exporter.is_some() {
            return;
        }
        for ordinal in (0..64).filter(|ordinal| self.others & 1 << ordinal != 0) {
            if let LimitState::Limited(device) = device::of(ordinal) {
                device.give_back(self.bytes);
            }
        }
        let whole = (self.bytes, self.is_exported);
        match self.part.map_or(whole, |part| shared_blocks::leave(part, self.is_exported)) {
            (bytes, true) => exported::add(self.device, bytes),
            (bytes, false) => self.device.give_back(bytes),
        }
    }
}

static CHARGES: LazyLock<Mutex<HashMap<(Kind, usize), Charge>>> = LazyLock::new(Mutex::default);

fn charges() -> MutexGuard<'static, HashMap<(Kind, usize), Charge>> {
    CHARGES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub(crate) fn note(kind: Kind, handle: usize, charge: Charge) {
    if let Some(former) = charges().insert((kind, handle), charge) {
        former.end(); // unseen
    }
}

/// Removes an allocation that is about to end: afterwards another one may get its handle.
pub(crate) fn take(kind: Kind, handle: usize) -> Option<Charge> {
    charges().remove(&(kind, handle))
}

/// Counts that memory of another process is open once more. Returns false if it isn't open.
pub(crate) fn open_again(at: usize) -> bool {
    let mut charges = charges();
    let known = charges.get_mut(&(Kind::Opened, at));
    known.map(|known| known.opened += 1).is_some()
}

/// Notes memory of another process, which another thread may have opened there meanwhile: that
/// counts on with this charge.
pub(crate) fn open(at: usize, charge: Charge) {
    let mut charges = charges();
    let other = charges.remove(&(Kind::Opened, at));
    let opened = charge.opened + other.map_or(0, |other| other.opened);
    charges.insert((Kind::Opened, at), Charge { opened, ..charge });
    other.into_iter().for_each(Charge::end);
}

/// Returns the linear memory at an address, or around it.
fn find_linear(
    charges: &mut HashMap<(Kind, usize), Charge>,
    address: usize,
) -> Option<(usize, &mut Charge)> {
    let holds = |((kind, from), charge): &(&(Kind, usize), &mut Charge)| {
        let bytes = usize::try_from(charge.bytes).unwrap_or(usize::MAX);
        *kind == Kind::Memory && (*from..from.saturating_add(bytes)).contains(&address)
    };
    charges.iter_mut().find(holds).map(|((_, from), charge)| (*from, charge))
}

/// Marks the linear memory at an address, or around it, as exported.
pub(crate) fn export(address: usize) {
    let mut charges = charges();
    let found = find_linear(&mut charges, address);
    found.into_iter().for_each(|(_, charge)| charge.is_exported = true);
}

/// Returns the charge of the linear memory at an address, or around it.
pub(crate) fn at(address: usize) -> Option<Charge> {
    whole_at(address).map(|(_, charge)| charge)
}

/// Returns the beginning and the charge of the linear memory at an address, or around it.
pub(crate) fn whole_at(address: usize) -> Option<(usize, Charge)> {
    find_linear(&mut charges(), address).map(|(from, charge)| (from, *charge))
}

/// Returns whether linear memory begins at an address.
pub(crate) fn is_linear(address: usize) -> bool {
    charges().contains_key(&(Kind::Memory, address))
}

/// Counts the linear memory at an address, or around it, on another device as well, of which its
/// bytes are reserved. Returns false if it counts there already, or has ended.
pub(crate) fn count_on(address: usize, device: &'static Limited, bytes: u64) -> bool {
    let mut charges = charges();
    let its = |charge: &&mut Charge| charge.bytes == bytes && !charge.is_on(device);
    let found = find_linear(&mut charges, address).map(|(_, charge)| charge).filter(its);
    found.map(|charge| charge.others |= 1 << device.ordinal).is_some()
}

/// Returns whether a device has an allocation of a kind.
pub(crate) fn has(kind: Kind, ordinal: i32) -> bool {
    charges().iter().any(|((of, _), charge)| *of == kind && charge.device.ordinal == ordinal)
}

/// Adds the exporters that are charged in the place of this process.
pub(crate) fn add_exporters(to: &mut HashSet<Exporter>) {
    to.extend(charges().values().filter_map(|charge| charge.exporter));
}

/// Charges this process with imports on a device in the place of exporters that have ended.
pub(crate) fn take_over(ordinal: i32, ended: &HashSet<Exporter>) {
    for charge in charges().values_mut().filter(|charge| charge.device.ordinal == ordinal) {
        if charge.exporter.take_if(|exporter| ended.contains(exporter)).is_some() {
            charge.device.add(charge.bytes);
        }
    }
}

/// Returns the contexts that were made.
pub(crate) fn contexts() -> Vec<(&'static Limited, usize)> {
    let charges = charges();
    let made = charges.iter().filter(|((kind, _), _)| *kind == Kind::Context);
    made.map(|((_, handle), charge)| (charge.device, *handle)).collect()
}

/// Returns the number of the last charge.
pub(crate) fn last() -> u64 {
    LAST.load(SeqCst)
}

/// Gives back all allocations that ended with a context: those up to this number. Later ones are of
/// another context that has its handle. Returns the arrays among them.
pub(crate) fn end_context(context: usize, last: u64) -> Vec<usize> {
    let (mut gone, mut arrays) = (Vec::new(), Vec::new());
    charges().retain(|(kind, handle), charge| {
        let stays = charge.context != context || charge.number > last;
        if !stays {
            gone.push(*charge);
            arrays.extend(matches!(kind, Kind::Array | Kind::Mipmapped).then_some(*handle));
        }
        stays
    });
    gone.into_iter().for_each(Charge::end);
    arrays
}
