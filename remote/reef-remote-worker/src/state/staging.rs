//! Pinned memory that copies pass through.

use super::lock::lock;
use crate::driver::Driver;
use reef_cuda_abi::codes::{NOT_READY, NOT_SUPPORTED, OUT_OF_MEMORY};
use reef_remote_calls::Call;
use std::collections::HashMap;
use std::sync::Mutex;

/// Bytes of the smallest block.
const MIN_LEN: usize = 64 << 10;
/// Bytes of all blocks of a context after which a copy waits for an earlier one.
const MAX_TOTAL: usize = 256 << 20;

/// Bytes of all blocks of a session: copies that have not ended take no more.
const MAX_OF_SESSION: usize = 1 << 30;

/// Memory of one copy, and the event after it.
#[derive(Debug)]
pub(crate) struct Block {
    context: u64,
    at: usize,
    len: usize,
    pub(crate) event: usize,
}

impl Block {
    /// Returns its bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: host memory of the driver's, of this length, which this block alone names. No
        // copy uses it: the block was free, or its event has passed.
        unsafe { std::slice::from_raw_parts_mut(self.at as *mut u8, self.len) }
    }

    /// Returns its address.
    pub(crate) fn address(&self) -> usize {
        self.at
    }
}

#[derive(Debug, Default)]
struct Pool {
    free: HashMap<usize, Vec<Block>>,
    pending: std::collections::VecDeque<Block>,
    total: usize,
}

/// Blocks of each context.
#[derive(Debug, Default)]
pub(crate) struct Staging(Mutex<HashMap<u64, Pool>>);

impl Staging {
    /// Takes a block of at least `len` bytes. The context is current in this thread.
    ///
    /// # Errors
    ///
    /// The driver's code.
    pub(crate) fn take(&self, driver: &Driver, context: u64, len: usize) -> Result<Block, u32> {
        let len = len.next_power_of_two().max(MIN_LEN);
        let mut pools = lock(&self.0);
        let pool = pools.entry(context).or_default();
        while let Some(block) = pool.pending.front() {
            let wait =
                if pool.total >= MAX_TOTAL { Call::cuEventSynchronize } else { Call::cuEventQuery };
            // SAFETY: an event of the block's.
            let code = unsafe { driver.of(wait).call([block.event]) };
            if code == NOT_READY {
                break;
            }
            let block = pool.pending.pop_front().expect("it is the first one");
            pool.free.entry(block.len).or_default().push(block);
        }
        if let Some(block) = pool.free.get_mut(&len).and_then(Vec::pop) {
            return Ok(block);
        }
        if pools.values().map(|pool| pool.total).sum::<usize>() + len > MAX_OF_SESSION {
            return Err(OUT_OF_MEMORY);
        }
        let pool = pools.entry(context).or_default();
        let (mut at, mut event) = (0_usize, 0_usize);
        // SAFETY: a place for an address.
        let code = unsafe { driver.functions.host_alloc.call([&raw mut at as usize, len, 1]) };
        if code != 0 || at == 0 {
            return Err(if code == 0 { NOT_SUPPORTED } else { code });
        }
        let flags = 2; // CU_EVENT_DISABLE_TIMING
        // SAFETY: a place for a handle.
        let code = unsafe { driver.of(Call::cuEventCreate).call([&raw mut event as usize, flags]) };
        if code != 0 {
            return Err(code);
        }
        pool.total += len;
        Ok(Block { context, at, len, event })
    }

    /// Gives a block back that is free once its event has passed.
    pub(crate) fn give_later(&self, block: Block) {
        lock(&self.0).entry(block.context).or_default().pending.push_back(block);
    }

    /// Gives a block back.
    pub(crate) fn give(&self, block: Block) {
        let mut pools = lock(&self.0);
        if let Some(pool) = pools.get_mut(&block.context) {
            pool.free.entry(block.len).or_default().push(block);
        }
    }

    /// Forgets the blocks of a context, which have ended with it.
    pub(crate) fn forget(&self, context: u64) {
        lock(&self.0).remove(&context);
    }
}
