//! AMD's own runtime does on a software gfx906 what a [`Context`] asks of it. One device, so tests
//! take turns.

mod bench;
mod clock;
mod graphs;
mod memory;
mod modules;
mod streams;
