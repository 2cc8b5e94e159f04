//! Padding: a real-time kernel with best-effort blocks next to it, in one call.
//!
//! The blocks are a guarded launch in a stream of the lowest priority, which the device serves when
//! no real-time block waits for a place. What they are is the same on all GPUs
//! (`launch/companions.rs` in reef-gpu), and how many at a time but for `Facts::padding_per_unit`;
//! the order of the parts, and the calls that keep it, are the vendor's:
//!
//! | call | for |
//! |---|---|
//! | `cuEventRecord`, `cuStreamWaitEvent` | the blocks begin no earlier than the kernel may: behind what is ahead of it in its stream |
//! | `cuLaunchKernel` | the kernel, before anything else of this launch that could take time |
//! | `cuStreamWriteValue32` | behind the kernel: the word that stops the blocks (`reset.rs`). It takes effect before a thread sees that the kernel has ended |
//! | `cuLaunchKernel` | the blocks, and a kernel of one block that tells which of them were stopped |

use crate::context::Context;
use crate::handles::Stream;
use reef_core::Result;
use reef_gpu::{PaddedParts, PaddedStreams, Padding};

impl Padding for Context {
    unsafe fn launch_padded(
        &self,
        streams: PaddedStreams<Stream>,
        parts: &mut dyn PaddedParts,
    ) -> Result<()> {
        if streams.is_busy {
            self.bind()?;
            // SAFETY: both streams are open: `Padding::launch_padded` demands it.
            unsafe { self.order.put(self.driver, streams.real_time.0, streams.best_effort.0) }?;
        }
        parts.real_time()?;
        parts.stop()?;
        parts.best_effort()
    }
}
