//! Memory that processes of a job share, and turns of a device. The rest of this folder needs an
//! operating system.

#[path = "../../src/limit/atomic.rs"]
mod atomic;
#[path = "../../src/limit/reserve.rs"]
mod reserve;
mod usage;
