//! Networks on devices, and what their results are checked against.
//!
//! In: a network of either kind ([`AnyModel`]), or a [`Model`](crate::Model) and a
//! [`Source`](crate::Source) of its tensors. Out: launches ([`Network`]), their times
//! ([`measure()`]), or the plain loops' answer ([`reference`](mod@reference)).
//!
//! Invariant: a network launches its steps in the order of its schedule, each with memory that no
//! other step needs at that time.

pub(crate) mod any_model;
mod constants;
pub(crate) mod launch_name;
pub(crate) mod measure;
pub(crate) mod memory;
pub(crate) mod network;
#[cfg(feature = "pictures")]
pub mod picture;
#[cfg(feature = "pictures")]
mod pixels;
pub mod reference;
#[cfg(feature = "pictures")]
mod rgb_picture;
mod rounded;
mod staging;

pub use any_model::{AnyModel, Loaded};
pub use constants::{TensorWeights, Weights};
pub use launch_name::LaunchName;
pub use measure::{measure, measure_with, measured};
pub use network::Network;
