//! The protocols of reef-wire's threads, compiled against loom.
//!
//! `cargo test -p reef-wire-loom --release`

#![allow(dead_code)] // the models use a part of each file

#[path = "../../src/transport/shared/cursor.rs"]
mod cursor;
#[path = "../../src/exchange/reader.rs"]
mod reader;
#[path = "../../src/exchange/sync.rs"]
mod sync;
#[path = "../../src/exchange/writer.rs"]
mod writer;

#[cfg(test)]
mod models;
