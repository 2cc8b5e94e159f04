//! Networks on devices, and what their results are checked against.
//!
//! In: a network of one kind and its constants on a device. Out: launches ([`Network`]), their
//! times ([`measure()`]), or the plain loops' answer ([`reference`](mod@reference)).
//!
//! Invariant: a network launches each step behind those that it depends on, with memory that no
//! other step needs at that time.

pub(crate) mod constants;
#[cfg(feature = "images")]
pub mod image;
pub(crate) mod launch_name;
pub(crate) mod measure;
pub(crate) mod memory;
pub(crate) mod network;
#[cfg(feature = "images")]
mod pixels;
pub mod reference;
#[cfg(feature = "images")]
mod rgb_image;
pub(crate) mod rounded;
mod staging;

pub use launch_name::LaunchName;
pub use measure::{measure, measure_with, measured};
pub use memory::InstanceRegion;
pub use network::Network;
