//! Sizes of blocks that fill the device best.

use crate::calls::export::{give, plain};
use crate::calls::table::table;
use crate::codes::*;
use crate::session::session;
use crate::state::thread::{contexts, in_thread};
use reef_remote_calls::Call;

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
    // SAFETY: the caller's promise.
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
    let (best, count) = largest(most, warp.max(1), resident, active)?;
    // SAFETY: the caller's promise.
    unsafe {
        give(blocks, count * units)?;
        give(threads, best)
    }
}

/// Returns the largest number of threads, of whole warps up to `most`, by which most threads are
/// resident, and how many such blocks a multiprocessor has.
fn largest(
    most: i32,
    warp: i32,
    resident: i32,
    mut active: impl FnMut(i32) -> Result<i32, u32>,
) -> Result<(i32, i32), u32> {
    let (mut best, mut threads) = ((0, 0), most);
    while threads > 0 {
        let blocks = active(threads)?;
        if blocks * threads > best.0 * best.1 {
            best = (threads, blocks);
        }
        if best.0 * best.1 == resident {
            break;
        }
        threads = (threads - 1) / warp * warp;
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_resident_threads_by_the_largest_blocks() {
        // 2048 threads and 16 blocks at most: 1024 is the first that fills it.
        let active = |threads: i32| Ok((2048 / threads).min(16));
        assert_eq!(largest(1024, 32, 2048, active), Ok((1024, 2)));
        // A bound that is no whole number of warps is tried first.
        assert_eq!(largest(1000, 32, 2048, active), Ok((672, 3)));
        // 1500 threads' worth of registers: blocks of 736 leave the least over.
        let active = |threads: i32| Ok(1500 / threads);
        assert_eq!(largest(1024, 32, 2048, active), Ok((736, 2)));
        assert_eq!(largest(1024, 32, 2048, |_| Err(INVALID_VALUE)), Err(INVALID_VALUE));
        assert_eq!(largest(0, 32, 2048, active), Ok((0, 0)));
    }
}
