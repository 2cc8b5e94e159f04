//! The software device: units are threads, blocks are function calls.
//!
//! It needs no GPU, supports every [`PreemptLevel`](reef_core::PreemptLevel), block-exact resume
//! and padding, and runs the same conformance suite as the GPU backends. Networks really run on it.
//!
//! ```
//! use reef_core::{Args, Device, Launch, Priority, Queue, Seq};
//! use reef_cpu::{Cpu, Kernel, Outcome};
//!
//! let device = Cpu::open(0, "units=1")?;
//! let hello = Kernel::new("hello", |block, args| {
//!     println!("block {} of {:?}", block.index, args.words());
//!     Outcome::Done
//! });
//! // `hello` takes any arguments and touches no memory.
//! let launch = unsafe { Launch::new(hello, [3, 1, 1], [1, 1, 1], Args::new(&[42])) };
//! let mut queue = device.queue(Priority::BestEffort, None)?;
//! queue.launch(Seq(0), &launch, None)?;
//! while queue.completed()? < Seq(1) {}
//! # Ok::<(), reef_core::Error>(())
//! ```

mod builtin;
mod checkpoint;
mod device;
mod event;
mod hardware;
mod kernel;
mod kernels;
mod memory;
mod operators;
mod options;
mod preemptor;
mod queue;
mod sync;
#[cfg(test)]
mod tests;

pub use checkpoint::Checkpoint;
pub use event::Event;
pub use hardware::cpu::Cpu;
pub use kernel::{Block, Kernel, Outcome};
pub use memory::buffer::Buffer;
pub use options::Options;
pub use preemptor::Preemptor;
pub use queue::Queue;
