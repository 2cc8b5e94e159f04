//! Objects behind handles: one type for all backends, each around a trait that a generic type of
//! each device implements.
//!
//! *In*: calls of any thread. *Out*: what `reef` answers, as [`Fault`](crate::fault::Fault) where
//! it refuses. *Invariant*: a network's memory serves one request at a time, and what belongs to
//! one device never gets to another.

pub(crate) mod best_effort;
pub(crate) mod client;
pub(crate) mod device;
pub(crate) mod device_id;
pub(crate) mod dispatcher;
pub(crate) mod network;
pub(crate) mod real_time;
pub(crate) mod request;
