//! The driver's functions that are looked at: each gives its call to a sink in `actions`.
//!
//! A line `    cuName / cuName_ptsz(arguments) => sink;` declares both exports; `build.rs` reads
//! these lines to know which names aren't plain jumps.

mod contexts;
mod copies;
mod declare;
mod fills;
mod graph;
mod launches;
mod list;
mod lookups;
mod memory;
mod memory_objects;
mod streams;
