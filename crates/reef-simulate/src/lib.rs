//! Simulates a fleet of accelerators: which placement and which scheduler gives which latencies.
//!
//! *In*: a [`Fleet`] (devices, clients with their arrivals, a measured [`Profile`] of the
//! networks), the name of a [scheduler](reef_core::scheduler) and a [`Placement`]. *Out*:
//! [`Totals`]. *Invariant*: the same fleet and seed give the same totals on any number of threads:
//! devices don't affect each other once clients are placed, and each draws from random numbers of
//! its own.
//!
//! Each device is a sequence of events on the [`Scheduler`](reef_core::scheduler::Scheduler) trait
//! that the dispatcher uses. What runs at once progresses at rates that follow from the profile;
//! `docs/simulate.md` has the model.

mod arrivals;
mod class;
mod device;
mod error;
mod fleet;
mod placement;
mod profile;
mod run;
mod totals;
mod trace;

pub use class::Class;
pub use error::Error;
pub use fleet::{Arrivals, Client, Fleet};
pub use placement::Placement;
pub use profile::{DeviceProfile, NetworkProfile, Peak, Profile, Service};
pub use run::{GUESTS, Options, simulate};
pub use totals::Totals;

#[cfg(test)]
mod tests;
