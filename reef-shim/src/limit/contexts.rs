//! What contexts take beyond what they begin with: stacks of all threads, what kernels print to,
//! and their heap, as their limits say.

use super::device::Limited;
use crate::driver::calls;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// `CU_LIMIT_STACK_SIZE` to `…_DEV_RUNTIME_PENDING_LAUNCH_COUNT`; those above take no memory of the
/// device.
const STACK: u32 = 0;
const PRINTED: u32 = 1;
const HEAP: u32 = 2;
const DEPTH: u32 = 3;
const PENDING: u32 = 4;
/// What a context begins with: bytes of a stack, of what is printed, and of the heap.
const BEGIN: [(u32, u64); 3] = [(STACK, 1 << 10), (PRINTED, 1 << 20), (HEAP, 8 << 20)];
/// What a level of kernels that wait for their own takes, and a launch of theirs: at most, as far
/// as is known.
const LEVEL: u64 = 160 << 20;
const LAUNCH: u64 = 4 << 10;
/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT` and `…_MAX_THREADS_PER_MULTIPROCESSOR`.
const UNITS: u32 = 16;
const THREADS: u32 = 39;

/// A limit of a context that was set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RaisedLimit {
    device: &'static Limited,
    /// What it took before it was set first.
    base: u64,
    /// What it is charged with.
    pub(crate) bytes: u64,
}

static RAISED: LazyLock<Mutex<HashMap<(usize, u32), RaisedLimit>>> = LazyLock::new(Mutex::default);

/// All limits that were set. Whoever sets one has this meanwhile.
pub(crate) fn raised_limits() -> MutexGuard<'static, HashMap<(usize, u32), RaisedLimit>> {
    RAISED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// What a limit of this value takes. `None`: no memory, or the driver doesn't say how many threads
/// there are.
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

/// What a context takes at least.
pub(crate) fn begin(device: &Limited) -> u64 {
    BEGIN.into_iter().filter_map(|(limit, value)| cost(device, limit, value)).sum()
}

impl RaisedLimit {
    /// A limit that takes so much before it is set.
    pub(crate) fn new(device: &'static Limited, base: u64) -> Self {
        Self { device, base, bytes: 0 }
    }

    /// What is charged for a limit that takes so much.
    pub(crate) fn charge(&self, cost: u64) -> u64 {
        cost.saturating_sub(self.base)
    }

    /// Corrects the books, in which so much is reserved besides, to what the limit takes.
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

/// Gives back what a context had that has ended.
pub(crate) fn end(context: usize) {
    raised_limits().retain(|(of, _), raised| {
        let stays = *of != context;
        if !stays {
            raised.device.give_back(raised.bytes);
        }
        stays
    });
}
