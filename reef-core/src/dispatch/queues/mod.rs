//! Work that the dispatcher moves: real-time tasks on their hardware queue, best-effort queues,
//! blocks from these to that one.
//!
//! *In*: requests that a pass takes from the inbox, and the tasks that start. *Out*: commands on
//! the real-time queue, padded where blocks fit; tickets that complete; charges to accounts.
//! *Invariant*: a request that came in is waiting, being fed or launched until its ticket
//! completes. Nothing here decides anything, and all of it runs inside of a pass.

pub(crate) mod account;
pub(crate) mod be_queue;
pub(crate) mod padding;
pub(crate) mod rt_feed;
pub(crate) mod rt_queue;
pub(crate) mod task;
