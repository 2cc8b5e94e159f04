//! Reset: words that make launched kernels void and stop running ones.
//!
//! The driver has no call that stops a kernel. Each guarded launch carries an epoch, which its
//! blocks compare with a word at entry and at their preemption points; setting the word is what
//! stops them (`preempt/preemptor.rs` in reef-gpu). The calls:
//!
//! | call | for |
//! |---|---|
//! | `cuMemAlloc` | the words: streams can't write into memory of the driver's pools |
//! | `cuStreamWriteValue32` | setting one, in a stream of the highest priority or behind a kernel: the front end of the device does it, without a kernel, so it takes effect on a device that is full |
//!
//! A driver may lack the second: CUDA 11.7 has it as an option of the module. There, reef-gpu sets
//! words by a kernel of one thread, which waits for a place.

use crate::context::Context;
use crate::handles::Stream;
use reef_core::Result;
use reef_gpu::{Reset, with_asked};

// SAFETY: words are of the driver's memory, cleared before they are given.
unsafe impl Reset for Context {
    fn alloc_signals(&self, bytes: usize) -> Result<u64> {
        self.bind()?;
        let mut memory = 0;
        // SAFETY: the pointer is valid for the call.
        let done = unsafe { self.driver.cuMemAlloc_v2(&mut memory, bytes) };
        done.map_err(|error| with_asked(error, bytes))?;
        // SAFETY: allocated above, and used by nothing but the fill, which was refused.
        self.zero(memory, bytes).inspect_err(|_| unsafe { self.free_signals(memory) })?;
        Ok(memory)
    }

    unsafe fn free_signals(&self, memory: u64) {
        if self.bind().is_ok() {
            // SAFETY: it came from `alloc_signals`, once.
            let _ = unsafe { self.driver.cuMemFree_v2(memory) };
        }
    }

    unsafe fn write_value(&self, stream: Stream, address: u64, value: u32) -> Result<()> {
        self.bind()?;
        // SAFETY: the word is memory that the device can write, without references:
        // `Reset::write_value` demands it. reef-gpu's `Stream` keeps the stream open.
        unsafe { self.driver.cuStreamWriteValue32_v2(stream.0, address, value, 0) }
    }
}
