//! The protocols of reef-core, compiled against loom. The models of one file stand next to its
//! code; that of a preemption, which is a protocol of several, stands here.
//!
//! `cargo test -p reef-loom --release`

#![allow(dead_code, unused_imports, unreachable_pub)] // the models use a part of each file

#[cfg(all(test, loom))]
mod backend;
#[cfg(all(test, loom))]
mod preemption;
#[path = "../../src/sync/mod.rs"]
mod sync;
#[cfg(all(test, loom))]
mod vqueue;
