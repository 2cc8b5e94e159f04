//! Sockets that a server listens on.
//!
//! *In*: an address, and files that make it safe. *Out*: connections, each with a place as long as
//! its client is not authenticated. *Invariant*: unauthenticated peers have a bounded number of
//! places.

mod listener;
mod lobby;

pub use listener::{Listener, Security};
pub use lobby::LobbySlot;
