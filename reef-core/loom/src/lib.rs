//! The protocols of reef-core, compiled against loom. Their models stand beside the code.
//!
//! `cargo test -p reef-loom --release`

#![allow(dead_code, unused_imports)] // the models use a part of each file

#[path = "../../src/sync/mod.rs"]
mod sync;
