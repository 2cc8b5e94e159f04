//! Quotas: bounds on connections, requests and bytes, in all and for one principal.
//!
//! - **In**: connections, requests and their bytes, each with its principal.
//! - **Out**: a permit, slot, share or charge for each, returned when it is dropped; or
//!   `Exhausted`.
//! - **Invariant**: the sum of all shares is never above the maximum, and one principal's quota
//!   leaves room for others.

pub(crate) mod admission;
pub(crate) mod charge;
pub(crate) mod clients;
pub(crate) mod connection_pool;
pub(crate) mod descriptors;
pub(super) mod rate_limit;
pub(crate) mod shares;
pub(crate) mod stream_buffer;
