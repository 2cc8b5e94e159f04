//! Operations of the opcodes: one line each, grouped by kind.
//!
//! - **In**: a wave and a decoded instruction.
//! - **Out**: the wave after it.
//! - **Invariant**: an operation changes active lanes only.

mod access;
mod bytes;
mod compare;
mod convert;
mod cross;
mod division;
mod double;
mod float;
mod flow;
mod global;
mod half;
mod int;
mod lanes;
mod lds;
pub(super) mod opcodes;
mod packed;
mod scalar;
mod scalar_memory;
mod scratch;
mod short;
mod transfers;
mod wide;
