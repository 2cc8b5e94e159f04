//! A software device: units are threads, blocks are function calls.

mod kernel;
#[allow(dead_code)]
mod kernels;
mod memory;

pub use kernel::{Block, Kernel, Outcome};
pub use memory::Buffer;
