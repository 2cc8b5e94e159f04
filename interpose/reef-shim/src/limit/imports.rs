//! Imported memory: its exporter is charged with it, and this process once that one has ended.

use super::charges::{self, Charge, Kind};
use super::device::{self, LimitState, Limited};
use super::exporters::Exporter;
use super::memory_handles::memory_table;
use super::sizes::{BLOCK, granted, round_up};
use super::slot_thread::call_after_reclaims;
use crate::driver::calls;
use crate::driver::primary;
use reef_guest::limit::Account;
use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
const ORDINAL: u32 = 9;

/// Exporters of imported pools.
static POOLS: LazyLock<Mutex<HashMap<usize, Exporter>>> = LazyLock::new(Mutex::default);

fn pools() -> MutexGuard<'static, HashMap<usize, Exporter>> {
    POOLS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub(crate) fn note_pool(pool: usize, exporter: Option<Exporter>) {
    let mut pools = pools();
    match exporter {
        Some(exporter) => drop(pools.insert(pool, exporter)),
        None => drop(pools.remove(&pool)), // its handle came back
    }
}

/// Notes an allocation of an imported pool at an address.
pub(crate) fn note_pointer(at: usize, pool: usize) {
    let exporter = pools().get(&pool).copied();
    let charge = exporter.and_then(|exporter| charge(at, exporter));
    // No context ends an allocation of a pool.
    let charge = charge.map(|charge| Charge { context: 0, ..charge });
    charge.into_iter().for_each(|charge| charges::note(Kind::Memory, at, charge));
}

/// Notes memory that was opened by a handle at an address. Memory that is open there already keeps
/// its exporter.
pub(crate) fn note_opened(at: usize, exporter: Option<Exporter>) {
    if charges::open_again(at) {
        return;
    }
    if let Some(charge) = exporter.and_then(|exporter| charge(at, exporter)) {
        let bytes = round_up(charge.bytes, BLOCK); // a small one keeps the block that it shares
        charges::open(at, Charge { bytes, ..charge });
    }
}

/// Notes imported physical memory.
pub(crate) fn note_handle(handle: u64, device: &'static Limited, exporter: Exporter) {
    call_after_reclaims(take_over);
    memory_table().import(handle, device, exporter);
}

/// Returns the charge of imported memory at an address, if it is on a device with limits.
fn charge(at: usize, exporter: Exporter) -> Option<Charge> {
    let (mut base, mut bytes, mut ordinal) = (0, 0, 0);
    let is_known = calls::address_range(&mut base, &mut bytes, at) == Some(0)
        && calls::pointer_attribute(&mut ordinal, ORDINAL, at) == Some(0);
    let state = is_known.then(|| device::of(ordinal as i32))?;
    let LimitState::Limited(device) = state else { return None };
    call_after_reclaims(take_over);
    let charge = Charge::new(device, granted(bytes as u64), primary::owner());
    Some(Charge { exporter: Some(exporter), ..charge })
}

/// Charges this process with its imports on a device whose exporters are not charged any more.
fn take_over(ordinal: i32, account: &Account) {
    let mut exporters = HashSet::new();
    memory_table().add_exporters(&mut exporters);
    charges::add_exporters(&mut exporters);
    exporters.retain(|exporter| !exporter.is_charged(account));
    if !exporters.is_empty() {
        memory_table().take_over(ordinal, &exporters);
        charges::take_over(ordinal, &exporters);
    }
}
