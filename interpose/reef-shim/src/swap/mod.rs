//! Memory that leaves the device and returns, for programs with `REEF_SWAPPABLE=1`.
//!
//! The driver's own way (`cuCheckpointProcess*`) copies at about 2 GB/s. Here each large allocation
//! is made of pieces of physical memory, mapped one after the other at its address. To leave, they
//! are copied to the host by several threads, through pinned buffers, and each is released once it
//! has been copied; the address stays reserved. To return, other pieces are mapped there
//! and filled, and the host's pages of each are released. So one program can return while another
//! one leaves: each takes memory of the device or pages of the host as they become free.
//!
//! *In*: allocations of `cuMemAlloc`, and requests at a socket ([`reef_guest::swap`]). *Out*: the
//! same addresses with the same bytes. *Invariant*: while memory is off the device the program's
//! calls wait ([`pause`](crate::driver::pause)), its work has ended, and no capture is open. A
//! refused departure changes nothing: if another program has taken the room of what had left, it is
//! not refused, and the rest stays for the driver. A refused return leaves all memory off the
//! device, as before, and can be asked for again.

pub(crate) mod agent;
pub(crate) mod allocations;
mod calls;
mod copies;
mod host;
mod moves;
