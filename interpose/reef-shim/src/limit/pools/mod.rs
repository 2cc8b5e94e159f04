//! Memory that the driver allocates and frees by itself: pools, and the memory of graphs.
//!
//! *In*: allocations from pools and their ends; the number of bytes that the driver has reserved.
//! *Out*: whether an allocation fits what a pool has. *Invariant*: what the driver has reserved is
//! charged; an allocation that may not fit is charged before it is made.

pub(crate) mod graphs;
pub(crate) mod holes;
pub(crate) mod stores;
