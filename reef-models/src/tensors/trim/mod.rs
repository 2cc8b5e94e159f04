//! Elements that nothing reads aren't made: a network that reads one row of the last layer's result
//! makes that row alone, and of what only that row is made of.
//!
//! In: steps in launch order. Out: steps with smaller results where all that reads them reads the
//! same places of one axis ([`steps`]): a [`cut`]. What [`rules`] know of an operation says which
//! places of its inputs it reads then. Results that others read stay whole, and so do constants.
//!
//! Invariant: every element that is still made is made by the same operation of the same elements.

mod cut;
mod rules;
pub(super) mod steps;
#[cfg(test)]
mod tests;
