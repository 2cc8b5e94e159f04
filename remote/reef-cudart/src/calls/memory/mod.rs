//! Memory of the device and of the host, and copies.
//!
//! *In*: addresses of both. *Out*: the driver's allocations, copies and fills. *Invariant*: a copy
//! whose direction the program leaves open goes where the driver says that the addresses are.

mod allocations;
mod arrays;
pub(super) mod copies;
mod fills;
mod pointers;
mod pools;
pub(super) mod slices;
