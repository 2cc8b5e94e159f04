//! Interpreter of PTX for tests: some forty instructions, one block after the other.
//!
//! In go a kernel, the bytes of its parameters and memory; out comes memory. Blocks run whole, in
//! the order that the caller gives. It shows protocols, not what a compiler makes of them.

mod block;
mod memory;
#[cfg(test)]
mod preemption_points;
mod thread;
#[cfg(test)]
mod variants;

pub use block::{Grid, Program};
pub use memory::Memory;
