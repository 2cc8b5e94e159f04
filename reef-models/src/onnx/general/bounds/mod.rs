//! Sizes that data decide, from operands to results.
//!
//! A network computes as many rows as there may be, and those behind the real ones are without
//! meaning. So an operator may have such an operand if no result depends on rows of another number:
//! the size goes on to the result then ([`after`]). Others get rows behind that change nothing
//! ([`before`]), or count the real rows themselves. The rest refuse it. Sizes that are computed of
//! such sizes are followed by what they are at most ([`points`]), and a shape may have one of them
//! ([`shapes`]).

pub(super) mod after;
pub(super) mod before;
pub(crate) mod points;
mod shapes;
