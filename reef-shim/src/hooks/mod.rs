//! The driver's functions that are looked at: each gives its call to a sink in `direct`.
//!
//! A line `    cuName / cuName_ptsz(arguments) => sink;` declares both exports; `build.rs` reads
//! these lines to know which names aren't plain jumps.

mod contexts;
mod copies;
mod declare;
mod fills;
mod graphs;
mod held;
mod launches;
mod list;
mod lookups;
mod memory;
mod profiler;
mod streams;
