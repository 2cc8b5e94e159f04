//! PTX as statements.
//!
//! In goes a text; out come its functions, variables and statements, each with its place in the
//! text. Operands are text: what an instruction means is the concern of `flow`. The reader changes
//! nothing, so an `Edit` of no insertions gives the text back byte for byte.
//!
//! Source of the grammar: *Parallel Thread Execution ISA*, version 9.0, chapters 4, 5 and 11.

pub(crate) mod cursor;
pub(crate) mod edit;
pub(crate) mod function;
pub(crate) mod module;
pub(crate) mod statement;

pub use module::{Module, SourceLine};
