//! Many clients on one device: a scheduler's decisions, applied.
//!
//! *In*: real-time tasks and best-effort commands of any number of clients, and reports of the
//! device. *Out*: real-time work on its hardware queue at once, best-effort queues held or restored
//! around it. *Invariant*: one thread at a time makes a pass, work that comes meanwhile leads to
//! another, and every ticket completes.

pub(crate) mod be_client;
pub(crate) mod dispatcher;
pub(crate) mod loss;
pub(crate) mod neighbours;
pub mod padding_plan;
pub(crate) mod pass;
pub(crate) mod queues;
pub(crate) mod rt_client;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub(crate) mod ticket;
pub(crate) mod watch;
