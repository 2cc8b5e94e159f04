//! The functions that AMD's runtime calls: `hsaKmt…` of `libhsakmt.so.1`, as ROCr 5.2 and 6.1
//! import them.
//!
//! - **In**: calls of AMD's runtime, with its structures.
//! - **Out**: memory, events, queues and the description of one MI50.
//! - **Invariant**: nothing here keeps state; it leads to the [device](crate::device) or says that
//!   a call isn't supported.
//!
//! Their symbols have no version: where a reference asks for one, the loader takes those too.
#![allow(non_snake_case, reason = "AMD's names")]

mod events;
mod memory;
mod open;
mod queues;
mod topology;
mod unsupported;
