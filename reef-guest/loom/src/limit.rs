//! Memory that processes of a job share; the rest of its folder needs a system.

#[path = "../../src/limit/atomic.rs"]
mod atomic;
#[path = "../../src/limit/share.rs"]
mod share;
