//! Networks on devices, and what their results are checked against.
//!
//! In: a [`Model`](crate::Model) and a [`Source`](crate::Source) of its tensors. Out: launches
//! ([`Network`]), their times ([`measure()`]), or the plain loops' answer ([`reference`](mod@reference)).
//!
//! Invariant: a network launches its steps in the order of its schedule, each with memory that no other
//! step needs at that time.

pub(crate) mod measure;
pub(crate) mod network;
#[cfg(feature = "pictures")]
pub mod picture;
#[cfg(feature = "pictures")]
mod pixels;
pub mod reference;
pub(crate) mod seeded;

pub use measure::{measure, measure_with, measured};
pub use network::{LaunchName, Network, Weights};
pub use seeded::Seeded;
