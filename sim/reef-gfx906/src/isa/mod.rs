//! The instructions of gfx906: decoding, and what each does to a wave of 64 lanes.
//!
//! An instruction is decoded once into an `Inst`: its line of the opcode table and its operands.
//! [`Code`] keeps what was decoded, so a loop decodes nothing. A vector register is an array of 64
//! lanes, and an operation is a loop over it that the compiler turns into vector instructions of
//! the host.
//!
//! - **In**: code in mapped memory, a wave's registers, shared memory of its workgroup.
//! - **Out**: the same after a number of steps, and why the wave has paused.
//! - **Invariant**: memory is touched only where it is mapped; what can't be executed is a fault
//!   that names it.
//!
//! Two things are simpler than on the chip: rounding is to nearest with denormals, whatever the
//! mode register says, and results of approximate instructions (`v_rcp_f32`, `v_exp_f32`, …) are
//! exact ones.

pub(crate) mod code;
mod decode;
mod dpp;
mod float;
#[cfg(test)]
mod golden;
mod inst;
#[cfg(test)]
mod mutation;
mod ops;
mod registers;
mod sdwa;
mod space;
mod table;
pub(crate) mod wave;

pub use code::Code;
pub use wave::{Fault, Memory, POISON, Pause, Wave, poisoned};
