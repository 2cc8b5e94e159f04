//! A software device: units are threads, blocks are function calls.

mod kernel;
mod memory;

pub use kernel::{Block, Kernel, Outcome};
pub use memory::Buffer;
