//! Daemon side of the local path: a thread for each client, which runs its instance.
//!
//! - **In**: connections to `local.sock`, and their clients' writes into shared memory.
//! - **Out**: a greeting with that memory, or a refusal; answers in the order of the requests.
//! - **Invariant**: a client has its slot, claim, memory and instances from its greeting on, and
//!   all of them end with its thread.

mod admission;
mod instance;
pub(crate) mod listen;
mod predict;
mod serve;

#[cfg(test)]
pub(crate) use instance::PINNED_AFTER;
