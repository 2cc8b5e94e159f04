//! Sizes of blocks that fill the device best.

use crate::calls::export::{give, plain};
use crate::calls::table::table;
use crate::session::session;
use crate::state::thread::{contexts, in_thread};
use reef_cuda_abi::codes::*;
use reef_remote_calls::{Call, largest_block};

plain! {
    cuOccupancyMaxPotentialBlockSize(
        blocks: *mut i32, threads: *mut i32, function: u64, dynamic: SharedOf, shared: usize, limit: i32
    ) = potential;
    cuOccupancyMaxPotentialBlockSizeWithFlags(
        blocks: *mut i32, threads: *mut i32, function: u64, dynamic: SharedOf, shared: usize, limit: i32, flags: u32
    ) = potential_with_flags;
}

/// Function of the program's that tells the bytes of shared memory for a block's threads.
type SharedOf = Option<unsafe extern "C" fn(i32) -> usize>;

/// Device attributes: threads of a block, threads of a warp, multiprocessors, threads of one.
const DEVICE_ATTRIBUTES: [usize; 4] = [1, 10, 16, 39];
/// Function attribute: threads of a block.
const FUNCTION_THREADS: usize = 0;

unsafe fn potential(
    blocks: *mut i32,
    threads: *mut i32,
    function: u64,
    dynamic: SharedOf,
    shared: usize,
    limit: i32,
) -> Result<(), u32> {
    // SAFETY: cuOccupancyMaxPotentialBlockSize has the same demands, without flags: `blocks` and
    // `threads` may be written, and `dynamic` is null or a function of the program's.
    unsafe { potential_with_flags(blocks, threads, function, dynamic, shared, limit, 0) }
}

unsafe fn potential_with_flags(
    blocks: *mut i32,
    threads: *mut i32,
    function: u64,
    dynamic: SharedOf,
    shared: usize,
    limit: i32,
    flags: u32,
) -> Result<(), u32> {
    let session = session()?;
    if limit < 0 {
        return Err(INVALID_VALUE);
    }
    let context = in_thread(|thread| thread.context())?;
    let device = contexts().get(&context).copied().ok_or(INVALID_CONTEXT)?;
    let facts = session.facts.devices.get(device as usize).ok_or(INVALID_DEVICE)?;
    let fact = |attribute: usize| {
        let found = facts.attributes.iter().find(|(at, _)| *at as usize == attribute);
        found.map_or(0, |(_, value)| *value)
    };
    let [most, warp, units, resident] = DEVICE_ATTRIBUTES.map(fact);
    let mut own = 0_i32;
    let args = [&raw mut own as usize, FUNCTION_THREADS, function as usize];
    // SAFETY: a place for a number.
    unsafe { table(Call::cuFuncGetAttribute, false, &args) }?;
    let most = [most, own, limit].into_iter().filter(|bound| *bound > 0).min().unwrap_or(0);
    let active = |threads: i32| {
        // SAFETY: the program's function, which is called as the driver calls it.
        let shared = dynamic.map_or(shared, |dynamic| unsafe { dynamic(threads) });
        let mut active = 0_i32;
        let place = &raw mut active as usize;
        let args = [place, function as usize, threads as usize, shared, flags as usize];
        let call = Call::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags;
        // SAFETY: a place for a number.
        unsafe { table(call, false, &args) }.map(|()| active)
    };
    let (best, count) = largest_block(most, warp.max(1), resident, active)?;
    // SAFETY: cuOccupancyMaxPotentialBlockSize demands that `blocks` and `threads` may be written;
    // `give` refuses null.
    unsafe {
        give(blocks, count.saturating_mul(units))?;
        give(threads, best)
    }
}
