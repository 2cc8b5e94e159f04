//! Tenants of the daemon: rights and use of each principal.
//!
//! - **In**: principals of connections and requests; the rights of the configuration.
//! - **Out**: a [`Tenant`](tenant::Tenant) for each, which requests carry along.
//! - **Invariant**: a principal has one tenant at a time, so that the use of all its connections
//!   adds up; budgets and claims together never exceed the rest that the reserve leaves.

pub(crate) mod claims;
pub(crate) mod grant;
pub(crate) mod registry;
pub(crate) mod tenant;
pub(crate) mod user_slots;
