//! Memory of contexts beyond their initial memory: stacks of all threads, the print buffer, and the
//! heap, as their limits say.

use super::device::Limited;
use crate::driver::calls;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// `CU_LIMIT_STACK_SIZE` to `…_DEV_RUNTIME_PENDING_LAUNCH_COUNT`; limits above these take no device
/// memory.
const STACK: u32 = 0;
const PRINTED: u32 = 1;
const HEAP: u32 = 2;
const DEPTH: u32 = 3;
const PENDING: u32 = 4;
/// Initial limits of a context: bytes of a stack, of the print buffer, and of the heap.
const BEGIN: [(u32, u64); 3] = [(STACK, 1 << 10), (PRINTED, 1 << 20), (HEAP, 8 << 20)];
/// Maximum bytes, as far as is known, of a nesting level of kernels that wait for child kernels,
/// and of a pending launch.
const LEVEL: u64 = 160 << 20;
const LAUNCH: u64 = 4 << 10;
/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT` and `…_MAX_THREADS_PER_MULTIPROCESSOR`.
const UNITS: u32 = 16;
const THREADS: u32 = 39;

/// Limit of a context that was set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RaisedLimit {
    device: &'static Limited,
    /// Bytes that it took before it was first set.
    base: u64,
    /// Bytes that it is charged with.
    pub(crate) bytes: u64,
}

static RAISED: LazyLock<Mutex<HashMap<(usize, u32), RaisedLimit>>> = LazyLock::new(Mutex::default);

/// Returns all limits that were set. A thread that sets one keeps this lock.
pub(crate) fn raised_limits() -> MutexGuard<'static, HashMap<(usize, u32), RaisedLimit>> {
    RAISED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns the bytes of a limit with this value. `None`: it takes no memory, or the driver doesn't
/// return the number of threads.
pub(crate) fn cost(device: &Limited, limit: u32, value: u64) -> Option<u64> {
    let attribute = |which| {
        let mut value = 0;
        let code = calls::device_attribute(&mut value, which, device.ordinal);
        (code == Some(0)).then(|| value.max(0) as u64)
    };
    let each = match limit {
        STACK => attribute(UNITS)?.saturating_mul(attribute(THREADS)?),
        PRINTED | HEAP => 1,
        DEPTH => LEVEL,
        PENDING => LAUNCH,
        _ => return None,
    };
    Some(value.saturating_mul(each))
}

/// Returns the minimum bytes of a context.
pub(crate) fn begin(device: &Limited) -> u64 {
    BEGIN.into_iter().filter_map(|(limit, value)| cost(device, limit, value)).sum()
}

impl RaisedLimit {
    /// Creates the record of a limit that takes `base` bytes before it is set.
    pub(crate) fn new(device: &'static Limited, base: u64) -> Self {
        Self { device, base, bytes: 0 }
    }

    /// Returns the charge for a limit that takes `cost` bytes.
    pub(crate) fn charge(&self, cost: u64) -> u64 {
        cost.saturating_sub(self.base)
    }

    /// Corrects the account to `cost`. `reserved` bytes are reserved in addition to the charge.
    pub(crate) fn settle(&mut self, reserved: u64, cost: u64) {
        let (before, now) = (self.bytes.saturating_add(reserved), self.charge(cost));
        self.bytes = now;
        if now > before {
            self.device.add(now - before)
        } else {
            self.device.give_back(before - now)
        }
    }
}

/// Limits of a context, which is about to end.
pub(crate) type ContextLimits = Vec<((usize, u32), RaisedLimit)>;

/// Removes the limits of a context that is about to end: afterwards another one may get its handle.
pub(crate) fn take(context: usize) -> ContextLimits {
    raised_limits().extract_if(|(of, _), _| *of == context).collect()
}

/// Gives back the charges of a context that has ended, or notes its limits again if it has not.
pub(crate) fn end(taken: ContextLimits, has_ended: bool) {
    if has_ended {
        taken.into_iter().for_each(|(_, raised)| raised.device.give_back(raised.bytes));
        return;
    }
    let mut all = raised_limits();
    for (which, raised) in taken {
        // Another thread may have set it meanwhile.
        let more = all.get(&which).map_or(0, |later| later.bytes);
        all.insert(which, RaisedLimit { bytes: raised.bytes.saturating_add(more), ..raised });
    }
}
