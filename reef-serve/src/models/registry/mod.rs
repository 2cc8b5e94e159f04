//! The models that are loaded, and how they come and go while the daemon runs.
//!
//! - **In**: names, versions and parameters, from whoever asks for a change.
//! - **Out**: for each request a replica of a loaded version.
//! - **Invariant**: one change at a time; requests go to the old versions until all of the new ones
//!   are there.

pub(in crate::models) mod changes;
mod figures;
pub(crate) mod lookups;
pub(crate) mod state;
