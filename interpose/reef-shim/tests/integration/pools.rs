//! Free memory of pools, and memory of graphs. The library's own tests can't be built into it, as
//! it exports the driver's names.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(dead_code)] // the library uses more of them

#[path = "../../src/limit/pools/graphs.rs"]
mod graphs;
#[path = "../../src/limit/pools/holes.rs"]
mod holes;
