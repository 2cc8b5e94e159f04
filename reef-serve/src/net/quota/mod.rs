//! How much of everything there is, and how much of it one principal may have.
//!
//! - **In**: connections, requests and their bytes, each with its principal.
//! - **Out**: a permit, place, share or charge for each, which gives back what it stands for when
//!   it is dropped; or `Exhausted`.
//! - **Invariant**: what is given out is never more than there is, and one principal's part leaves
//!   room for others.

pub(crate) mod admission;
pub(crate) mod charge;
pub(crate) mod clients;
pub(crate) mod connection_pool;
pub(crate) mod descriptors;
pub(super) mod rate_limit;
pub(crate) mod shares;
