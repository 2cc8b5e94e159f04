//! Calls of the table that allocate or free memory.

use crate::state::lock::lock;
use crate::state::quota::{BLOCK, Charge, Quota};
use crate::state::shared::Shared;
use reef_cuda_abi::codes::NOT_SUPPORTED;
use reef_remote_calls::{Call, Kind, MAX_ARGS, Spec};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Time between two polls of allocations that end in streams.
const SETTLE_INTERVAL: Duration = Duration::from_millis(5);

/// Larger allocations of linear memory than this have blocks of their own, and smaller ones share a
/// block.
const MAX_SHARED: u64 = 1 << 20;
/// Unit of allocations from pools.
const POOL_UNIT: u64 = 512;
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
    /// These bytes are reserved for an allocation from a pool; zero: from none.
    Begins(u64, usize),
    /// These bytes of a pool, which end in this stream, are for an allocation there.
    Inherits(u64, usize, usize),
    /// A block is reserved for an allocation that shares one.
    Shares,
    /// The allocation at this address may end.
    Ends(u64, Charge),
    /// As above, when this stream comes there.
    EndsIn(usize, u64, Charge),
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
        context: u64,
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
            let pool = if quota.is_bounded() { own_pool(shared, context, args[2]) } else { 0 };
            return reserve(shared, quota, units(word(1), POOL_UNIT), args[2], pool);
        } else if is(Call::cuMemAllocFromPoolAsync) {
            check_capture(shared, quota, args[3])?;
            return reserve(shared, quota, units(word(1), POOL_UNIT), args[3], args[2]);
        } else if is(Call::cuMemFree_v2) || is(Call::cuMemFreeAsync) {
            if is(Call::cuMemFreeAsync) {
                check_capture(shared, quota, args[1])?;
            }
            let Some(charge) = quota.take(word(0)) else { return Ok(Self::No) };
            let is_later = is(Call::cuMemFreeAsync) && quota.is_bounded();
            return Ok(if is_later {
                Self::EndsIn(args[1], word(0), charge)
            } else {
                Self::Ends(word(0), charge)
            });
        } else {
            let takes_memory = is(Call::cuCtxSetLimit) && LIMITS.contains(&args[0])
                || is(Call::cuMemPoolSetAttribute) && args[1] == RELEASE_THRESHOLD;
            return if takes_memory && quota.is_bounded() {
                Err(NOT_SUPPORTED)
            } else {
                Ok(Self::No)
            };
        };
        // Only the driver knows whether a small allocation takes a new block.
        let change = reserve(shared, quota, units(bytes, BLOCK), 0, 0)?;
        Ok(if (1..=MAX_SHARED).contains(&bytes) { Self::Shares } else { change })
    }

    /// Notes what the call has done. `owner` is the context that its stream is of, or the current
    /// one, and `at` the address that it has written.
    pub(crate) fn settle(
        self,
        shared: &Arc<Shared>,
        quota: &Arc<Quota>,
        context: u64,
        owner: u64,
        code: u32,
        at: u64,
    ) {
        match (self, code) {
            (Self::EndsIn(stream, _, charge), 0) => {
                let lane = lock(&shared.handles).get(Kind::Context, context).unwrap_or(0);
                let charge = Charge { context: owner, ..charge }; // that of its event
                if shared.frees.add(&shared.driver, lane, stream, charge) {
                    watch(shared.clone(), quota.clone());
                }
            }
            (Self::Begins(bytes, pool) | Self::Inherits(bytes, pool, _), 0) => {
                quota.put(at, Charge { bytes, context: owner, pool, block: None });
            }
            (Self::Shares, 0) => quota.put_shared(at, owner),
            (Self::Shares, _) => quota.release(BLOCK),
            (Self::Begins(bytes, _), _) => quota.release(bytes),
            (Self::Inherits(bytes, pool, stream), _) => {
                shared.frees.give_back(quota, stream, pool, bytes);
            }
            (Self::Ends(_, charge), 0) => quota.end(charge),
            (Self::Ends(at, charge) | Self::EndsIn(_, at, charge), _) => quota.put(at, charge),
            (Self::No, _) => {}
        }
    }
}

fn units(bytes: u64, unit: u64) -> u64 {
    bytes.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}

/// Reserves bytes for an allocation, in a stream and from a pool if they are not zero.
fn reserve(
    shared: &Shared,
    quota: &Quota,
    bytes: u64,
    stream: usize,
    pool: usize,
) -> Result<Change, u32> {
    shared.frees.settle(&shared.driver, quota);
    match quota.reserve(bytes) {
        Err(_) if shared.frees.inherit(stream, pool, bytes) => {
            Ok(Change::Inherits(bytes, pool, stream))
        }
        reserved => reserved.map(|()| Change::Begins(bytes, pool)),
    }
}

/// Returns the pool from which a stream allocates without naming one: its device's. Zero: it is not
/// known. The lane's context is current, and is so again afterwards.
fn own_pool(shared: &Shared, context: u64, stream: usize) -> usize {
    let driver = &shared.driver;
    let lane = lock(&shared.handles).get(Kind::Context, context).unwrap_or(0);
    let (mut of, mut device, mut pool) = (lane, 0_i32, 0_usize);
    // SAFETY: a stream of the driver's, and a place for a handle.
    unsafe { driver.of(Call::cuStreamGetCtx).call([stream, &raw mut of as usize]) };
    driver.set_context(of);
    // SAFETY: a place for a number.
    let code = unsafe { driver.functions.context_device.call([&raw mut device as usize]) };
    driver.set_context(lane);
    let ask = driver.of(Call::cuDeviceGetMemPool);
    // SAFETY: a place for a handle, and a number.
    let code = code.max(unsafe { ask.call([&raw mut pool as usize, device as usize]) });
    if code == 0 { pool } else { 0 }
}

/// Releases ends as streams reach them, for other sessions of the tenant, until none is left.
fn watch(shared: Arc<Shared>, quota: Arc<Quota>) {
    let ends = shared.clone();
    let watch = move || {
        shared.driver.relax_captures();
        shared.frees.settle(&shared.driver, &quota);
        while !shared.frees.is_over() {
            thread::sleep(SETTLE_INTERVAL);
            shared.frees.settle(&shared.driver, &quota);
        }
    };
    // Without a thread they are released before the next allocation.
    if thread::Builder::new().name("reef-frees".into()).spawn(watch).is_err() {
        ends.frees.no_thread();
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
