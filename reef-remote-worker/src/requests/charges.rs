//! Calls of the table that allocate or free memory.

use crate::driver::NOT_SUPPORTED;
use crate::state::quota::{Charge, Quota};
use crate::state::shared::Shared;
use reef_remote_calls::{Call, MAX_ARGS, Spec};

/// Multiple of a pitch: the driver's is less.
const MAX_PITCH_UNIT: u64 = 512;
/// Limits of a context that take memory of the device: stacks, the queue of `printf`, the heap of
/// kernels, and what kernels launch.
const LIMITS: std::ops::RangeInclusive<usize> = 0..=4;
/// Attribute of a pool: bytes that it keeps.
const RELEASE_THRESHOLD: usize = 4;

/// Effect of a call that is to be made on the account.
#[derive(Debug)]
pub(crate) enum Change {
    /// None.
    No,
    /// These bytes are reserved for an allocation.
    Begins(u64),
    /// The allocation at this address may end.
    Ends(u64, Charge),
}

impl Change {
    /// Prepares a call with these arguments.
    ///
    /// # Errors
    ///
    /// The driver's code, for a call that must not be made.
    pub(crate) fn prepare(
        shared: &Shared,
        quota: &Quota,
        spec: &'static Spec,
        args: &[usize; MAX_ARGS],
    ) -> Result<Self, u32> {
        let is = |call: Call| std::ptr::eq(spec, call.spec());
        let word = |at: usize| args[at] as u64;
        let bytes = if is(Call::cuMemAlloc_v2) {
            word(1)
        } else if is(Call::cuMemAllocPitch_v2) {
            let row = word(2).checked_next_multiple_of(MAX_PITCH_UNIT);
            row.and_then(|row| row.checked_mul(word(3))).unwrap_or(u64::MAX)
        } else if is(Call::cuMemAllocAsync) {
            check_capture(shared, quota, args[2])?;
            word(1)
        } else if is(Call::cuMemAllocFromPoolAsync) {
            check_capture(shared, quota, args[3])?;
            word(1)
        } else if is(Call::cuMemFree_v2) || is(Call::cuMemFreeAsync) {
            if is(Call::cuMemFreeAsync) {
                check_capture(shared, quota, args[1])?;
            }
            let charge = quota.take(word(0));
            return Ok(charge.map_or(Self::No, |charge| Self::Ends(word(0), charge)));
        } else {
            let takes_memory = is(Call::cuCtxSetLimit) && LIMITS.contains(&args[0])
                || is(Call::cuMemPoolSetAttribute) && args[1] == RELEASE_THRESHOLD;
            return if takes_memory && quota.is_bounded() {
                Err(NOT_SUPPORTED)
            } else {
                Ok(Self::No)
            };
        };
        quota.reserve(bytes).map(|()| Self::Begins(bytes))
    }

    /// Notes what the call has done. `at` is the address that it has written.
    pub(crate) fn settle(self, quota: &Quota, context: u64, code: u32, at: u64) {
        match (self, code) {
            (Self::Begins(bytes), 0) => quota.put(at, Charge { bytes, context }),
            (Self::Begins(bytes), _) => quota.release(bytes),
            (Self::Ends(_, charge), 0) => quota.release(charge.bytes),
            (Self::Ends(at, charge), _) => quota.put(at, charge),
            (Self::No, _) => {}
        }
    }
}

/// Refuses memory of a graph: the graph could be launched after it is counted as freed.
fn check_capture(shared: &Shared, quota: &Quota, stream: usize) -> Result<(), u32> {
    if !quota.is_bounded() {
        return Ok(());
    }
    let mut status = 0_u32;
    let ask = shared.driver.of(Call::cuStreamIsCapturing);
    // SAFETY: a stream of the driver's, and a place for a number.
    unsafe { ask.call([stream, &raw mut status as usize]) };
    if status == 0 { Ok(()) } else { Err(NOT_SUPPORTED) }
}
