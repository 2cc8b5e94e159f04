//! Memory that leaves the device and returns, for programs with `REEF_SWAPPABLE=1`.
//!
//! The driver's own way (`cuCheckpointProcess*`) copies at about 2 GB/s. Here each large allocation
//! is made of physical memory that is mapped at an address of its own. To leave, it is copied to
//! the host by all processors, through pinned buffers, and the physical memory is released; the
//! address stays reserved. To return, other physical memory is mapped there and filled.
//!
//! *In*: allocations of `cuMemAlloc`, and requests at a socket ([`reef_guest::swap`]). *Out*: the
//! same addresses with the same bytes. *Invariant*: while memory is off the device the program's
//! calls wait ([`pause`](crate::driver::pause)), its work has ended, and no capture is open. A
//! refused departure changes nothing; a refused return leaves all memory on the host, and can be
//! asked for again.

pub(crate) mod agent;
pub(crate) mod allocations;
mod calls;
mod copies;
mod host;
mod moves;
