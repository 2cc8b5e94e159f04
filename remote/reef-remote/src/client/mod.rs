//! The client's end: the traits of a device, as messages.
//!
//! *In*: calls of `reef-core`. *Out*: frames. *Invariant*: a call that the device would not wait in
//! does not wait for the server. Ranges are checked here first, so such a call fails only where the
//! device itself would.

pub(crate) mod connection;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod graph;
pub(crate) mod lane;
pub(crate) mod mirror;
pub(crate) mod objects;
mod operators;
pub(crate) mod options;
pub(crate) mod preemptor;
pub(crate) mod queue;
pub(crate) mod remote;
mod transfers;
