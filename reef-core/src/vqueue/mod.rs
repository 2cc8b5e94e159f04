//! One preemptible queue, and groups of them.
//!
//! *In*: commands of one client, at the [`Submitter`](submitter::Submitter). *Out*: launches on a
//! hardware queue, a few at a time, and completions in order. *Invariant*: only the worker
//! launches, and not while the queue is held; so once a held queue is quiesced nothing of it runs
//! until it is restored.

pub(crate) mod config;
pub(crate) mod drain_time;
pub(crate) mod group;
pub(crate) mod hold;
pub(crate) mod launcher;
pub(crate) mod parked;
pub(crate) mod shared;
pub(crate) mod submitter;
pub(crate) mod virtual_queue;
pub(crate) mod worker;

#[cfg(test)]
mod tests;
