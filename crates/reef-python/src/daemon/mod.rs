//! Requests to a daemon through shared memory.
//!
//! - **In**: bytes of the input of a model with one FP32 tensor each way, from any thread.
//! - **Out**: its output, by request, in any order.
//! - **Invariant**: one thread at a time waits for the daemon, and takes the answers of all; no
//!   thread holds the lock while it waits.

mod exchange;
pub(crate) mod session;
