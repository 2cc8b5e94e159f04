//! Registry of loaded models, and its changes while the daemon runs.
//!
//! - **In**: names, versions and parameters of a change.
//! - **Out**: for each request a replica of a loaded version.
//! - **Invariant**: one change of a model at a time; requests go to the old versions until all of
//!   the new ones are ready.

pub(crate) mod change_locks;
pub(in crate::models) mod changes;
mod figures;
pub(crate) mod lookups;
pub(crate) mod state;
