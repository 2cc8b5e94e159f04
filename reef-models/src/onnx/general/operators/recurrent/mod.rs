//! `RNN`, `GRU` and `LSTM`: a state goes through a sequence, one step after the other.
//!
//! In: a node with its operands. Out: one product of all of a sequence with the weights of its
//! input, and for each step a product of the state with the recurrent weights, moves of its gates
//! and formulas. Sequences are unrolled, so their length is that of the network.
//!
//! Invariant: a batch whose sequence is shorter keeps its state in steps that it doesn't have.

mod cell;
mod function;
mod inputs;
mod kind;
pub(super) mod node;
mod sequence;
#[cfg(test)]
mod tests;
