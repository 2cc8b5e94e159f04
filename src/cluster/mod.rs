//! Several devices of one process: a dispatcher for each, and clients that are placed on them.
//!
//! *In*: open devices of one backend, and clients with their demands ([`Demand`]) and functions
//! that make what they run. *Out*: each client on one device, with a replica of its own there
//! ([`Placed`]). *Invariant*: what runs on one device takes no lock of another; placing takes one
//! for a moment. No device is promised more memory than it has. A device that is lost takes no
//! client any more, and each client that was on it goes to another one or gets an error.
//!
//! From top to bottom: `start` (the cluster's interface), `placed` (a client, and its moves),
//! `replicas` (what clients on one device share), `nodes` (the search for a device),
//! `assignment` (a client on a device), `node` (a device with its dispatcher), `health` (checks of
//! a device), `ledger` and `demand` (promises of each device, in numbers), `failure`.

mod assignment;
mod demand;
mod failure;
mod health;
mod ledger;
mod node;
mod nodes;
mod placed;
mod replicas;
mod start;

pub use assignment::PlacedClient;
pub use demand::Demand;
pub use failure::Failure;
pub use health::{Prober, SILENCE_TIMEOUT};
pub use node::Node;
pub use placed::{BePlaced, Placed, RtPlaced};
pub use replicas::{Replica, Replicas};
pub use start::Cluster;
