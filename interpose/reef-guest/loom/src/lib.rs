//! Words that guests share, compiled against loom. Their models are in the same files.
//!
//! `cargo test -p reef-guest-loom --release`

#![allow(dead_code, unused_imports, unreachable_pub)] // the models use a part of each file

#[path = "../../src/hold/mod.rs"]
mod hold;

mod limit;
mod page;
mod registry;
