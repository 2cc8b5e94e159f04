//! The daemon's side: a thread for each client, which is its instance.
//!
//! - **In**: connections to `local.sock`, and what their clients write into the memory that they
//!   were given.
//! - **Out**: a greeting with that memory, or why not; answers in the order of the requests.
//! - **Invariant**: a client has its place, claim, memory and instances from its greeting on, and
//!   all of them go with its thread.

mod admission;
mod instance;
pub(crate) mod listen;
mod predict;
mod serve;

#[cfg(test)]
pub(crate) use instance::PINNED_AFTER;
