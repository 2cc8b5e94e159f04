//! One device: events, one after the other, and rates between them.
//!
//! *In*: the clients that were placed on it, a scheduler, random numbers of its own, an end. *Out*:
//! what it adds to [`Totals`](crate::Totals). *Invariant*: between two events all rates are
//! constant; the event loop allocates nothing once its queues have grown.

pub(crate) mod events;
pub(crate) mod gates;
mod group;
pub(crate) mod inference;
pub(crate) mod queues;
pub(crate) mod tasks;
