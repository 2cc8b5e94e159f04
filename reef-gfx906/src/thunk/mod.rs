//! The functions that AMD's runtime calls: `hsaKmt…` of `libhsakmt.so.1`, as ROCr 5.2 and 6.1 import them.
//!
//! Their symbols have no version: where a reference asks for one, the loader takes those too.
#![allow(non_snake_case, reason = "AMD's names")]

mod clocks;
mod events;
mod memory;
mod open;
mod queues;
mod topology;
mod unsupported;
