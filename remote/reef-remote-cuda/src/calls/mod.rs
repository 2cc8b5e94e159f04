//! The driver's functions.
//!
//! *In*: arguments as cuda.h has them. *Out*: codes as cuda.h has them. *Invariant*: each function
//! is exported under the driver's name, and one that isn't here is refused by name.

mod code;
mod contexts;
mod devices;
mod export;
mod graph_copies;
mod graphs;
mod lookup;
mod memory;
mod streams;
mod table;
