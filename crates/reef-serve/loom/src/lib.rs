//! The channel of reef-serve's local path, compiled against loom. Its models are in the channel's
//! file.
//!
//! `cargo test -p reef-serve-loom --release`

#![allow(dead_code)] // the models use a part of each file

#[path = "../../src/local/channel.rs"]
mod channel;
#[path = "../../src/local/sync.rs"]
mod sync;
