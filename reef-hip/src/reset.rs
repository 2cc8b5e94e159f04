//! Reset: words that make launched kernels void and stop running ones.
//!
//! The runtime has no call that stops a kernel; REEF's own stops waves by a patched kernel driver,
//! which reruns what had begun. Here each guarded launch carries an epoch, which its blocks compare
//! with a word at entry and at their preemption points; setting the word is what stops them
//! (`preempt/preemptor.rs` in reef-gpu). The calls:
//!
//! | call | for |
//! |---|---|
//! | `hipMalloc`, coarse-grained | the words: what writes one is a kernel of the runtime, so it meets the blocks in the second-level cache |
//! | `hipStreamWriteValue32` | setting one, in a stream of the highest priority or behind a kernel: a kernel of one wave, which needs a place |
//!
//! It has one: best-effort streams leave a compute unit alone (`masks.rs`).

use crate::context::Context;
use crate::handles::Stream;
use reef_core::Result;
use reef_gpu::{Memory, Reset};
use std::ffi::c_void;

// SAFETY: words are of the driver's memory, cleared before they are given.
unsafe impl Reset for Context {
    fn alloc_signals(&self, bytes: usize) -> Result<u64> {
        self.alloc(bytes)
    }

    unsafe fn free_signals(&self, memory: u64) {
        // SAFETY: `alloc_signals` took it from `alloc`. It is freed once, after its last use:
        // `Reset::free_signals` demands it.
        unsafe { self.free(memory) };
    }

    unsafe fn write_value(&self, stream: Stream, address: u64, value: u32) -> Result<()> {
        self.bind()?;
        // SAFETY: the word is memory that the device can write, without references:
        // `Reset::write_value` demands it. reef-gpu's `Stream` keeps the stream open.
        unsafe { self.driver.hipStreamWriteValue32(stream.0, address as *mut c_void, value, 0) }
    }
}
