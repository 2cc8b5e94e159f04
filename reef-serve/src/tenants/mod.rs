//! Who uses the daemon: what each principal was granted, and what it has had.
//!
//! - **In**: principals, as connections and requests name them; the rights of the configuration.
//! - **Out**: a [`Tenant`](tenant::Tenant) for each, which requests carry along.
//! - **Invariant**: one tenant for a principal at a time, so that what two connections take adds
//!   up; what budgets and claims together are of the device is never more than the reserve leaves.

pub(crate) mod claims;
pub(crate) mod grant;
pub(crate) mod registry;
pub(crate) mod tenant;
