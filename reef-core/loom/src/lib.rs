//! The protocols of reef-core, compiled against loom. Their models stand beside the code.
//!
//! `cargo test -p reef-loom --release`

#![allow(dead_code, unused_imports)] // the models use a part of each file

#[path = "../../src/ring.rs"]
mod ring;
#[path = "../../src/sync.rs"]
mod sync;
#[path = "../../src/turnstile.rs"]
mod turnstile;
#[path = "../../src/wake.rs"]
mod wake;
