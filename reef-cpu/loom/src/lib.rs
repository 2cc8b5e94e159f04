//! The protocols of reef-cpu, compiled against loom. Their models stand beside the code.
//!
//! `cargo test -p reef-cpu-loom --release`

#![allow(dead_code, unused_imports)] // the models use a part of each file

#[path = "../../src/sync/mod.rs"]
mod sync;
