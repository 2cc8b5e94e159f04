//! The driver's functions, as the shim and the programs of its tests call them.

mod checkpoint;
mod context;
mod current;
mod device;
mod event;
mod export;
mod graph;
mod green;
mod launch;
mod lookup;
mod memory;
mod stream;
mod streams;

mod stubs {
    #![allow(missing_docs, non_snake_case)]
    include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
}
