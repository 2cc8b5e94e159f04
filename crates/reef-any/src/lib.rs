//! Devices, networks and clients as one type for all backends, for bindings to other languages.
//!
//! ```text
//! Device ──► Network ──► Client::submit ──► Request
//!    └─────► Dispatcher ─┘
//! ```
//!
//! *In*: calls of any thread. *Out*: what `reef` answers, as a [`Fault`] where it refuses.
//! *Invariant*: a network's memory belongs to one [`Turn`] or request at a time, and what belongs
//! to one device never gets to another. Addresses of other libraries come in by `unsafe` functions
//! alone.
//!
//! Each type is around a trait that a generic type of each device implements. Rust programs use the
//! crate `reef` and not this one.

mod best_effort;
mod client;
mod cluster;
mod device;
mod device_id;
mod dispatcher;
mod fault;
mod memory;
mod network;
mod owner;
mod real_time;
mod request;
mod shares;
mod trace;
mod transfers;
mod turn;

pub use client::{Client, Usage};
pub use cluster::{Cluster, ClusterNetwork, NodeInfo, PlacedClient};
pub use device::Device;
pub use dispatcher::Dispatcher;
pub use fault::{Fault, Reason, Result};
pub use memory::{End, Memory, MemoryLocation, Side};
pub use network::Network;
pub use request::{AnyRequest, Request, Times};
pub use turn::Turn;
