//! Decoding of words to instructions, by the encodings of AMD's ISA document.
//!
//! - **In**: a word of code, and the one behind it.
//! - **Out**: an `Inst` with its line of the opcode table and its operands, or why it is none.
//! - **Invariant**: what isn't fully understood is refused, so that nothing is executed as
//!   something else.

pub(super) mod instruction;
mod memory;
mod scalar;
mod vector;
pub(super) mod words;
