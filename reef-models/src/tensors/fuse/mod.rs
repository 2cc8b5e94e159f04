//! Formulas that follow each other become one, so that a chain of them is one step.
//!
//! In: steps in launch order. Out: fewer of them, which give the same bits. A formula is taken into
//! the one that reads it if nothing else does, both have as many outputs, and nothing is rounded
//! between them.

pub(super) mod formulas;
#[cfg(test)]
mod tests;
