//! Channels as the last axis of images, where a network would turn them there and back.
//!
//! In: steps in launch order. Out: fewer of them, which give the same but for the order in which
//! images lie between them. A storage of rank four lies channels last ([`order`]) if whatever
//! fills and reads it can have it so, and some step turns it to or from there ([`classes`]); that
//! step goes, and its neighbours are written anew ([`turn`]). Inputs, outputs and constants of the
//! network stay as they are.

mod classes;
mod order;
mod steps;
#[cfg(test)]
mod tests;
pub(super) mod turn;
