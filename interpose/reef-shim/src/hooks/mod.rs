//! Hooks: driver functions that are inspected. Each passes its call to a function in `actions`.
//!
//! A line `    cuName / cuName_ptsz(` declares both exports; `build.rs` reads these lines to know
//! which names aren't plain jumps.

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
