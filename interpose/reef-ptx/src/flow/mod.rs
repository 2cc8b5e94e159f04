//! Flow of control and of addresses in one function.
//!
//! In goes a function of a text; out come its instructions with registers and successors, the
//! memory that each may read or write, and loops that may wait for other blocks. All is
//! conservative: a register has every value that any of its definitions may give it.

pub(crate) mod access;
pub(crate) mod code;
pub(crate) mod loops;
mod meeting;
pub(crate) mod opcode;
pub(crate) mod reach;
pub(crate) mod registers;
pub(crate) mod roots;
pub(crate) mod uniform;
pub(crate) mod waits;
