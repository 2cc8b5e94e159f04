//! A best-effort program with long kernels whose blocks leave while it is held, in launches and in
//! graphs. One program for all: this process is the guest.

#![allow(clippy::disallowed_methods)] // of files that the tests have written
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../common/mod.rs"]
mod common;
mod graphs;
#[path = "../slices/nodes.rs"]
mod nodes;
#[allow(dead_code)] // the tests of slices need more of it
#[path = "../slices/program.rs"]
mod program;
mod stops;
#[path = "../slices/updates.rs"]
mod updates;

/// `REEF_SLICES` of the program: with stops, which graphs don't have.
const SLICES: &str = "1";
