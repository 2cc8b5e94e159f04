//! Requests: each message becomes calls of the driver.
//!
//! *In*: a message's body, whose numbers are checked here. *Out*: calls, and an answer.
//! *Invariant*: a body that cannot be ends the session, before any call of it is made.

pub(crate) mod addresses;
pub(crate) mod caller;
pub(crate) mod charges;
pub(crate) mod copies;
pub(crate) mod copy_nodes;
pub(crate) mod images;
pub(crate) mod jit_options;
pub(crate) mod launches;
pub(crate) mod leases;
pub(crate) mod links;
pub(crate) mod nodes;
pub(crate) mod notes;
pub(crate) mod params;
pub(crate) mod table;
