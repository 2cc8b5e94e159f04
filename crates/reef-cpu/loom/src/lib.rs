//! The protocols of reef-cpu, compiled against loom. Their models are in the same files as the
//! code.
//!
//! `cargo test -p reef-cpu-loom --release`

#![allow(dead_code, unused_imports)] // the models use a part of each file

#[path = "../../src/sync/mod.rs"]
mod sync;
