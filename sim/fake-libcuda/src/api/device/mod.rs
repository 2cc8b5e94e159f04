//! The device's memory by other ways than `cuMemAlloc`.

mod addresses;
mod arrays;
mod image;
mod ipc;
mod jit;
mod libraries;
mod limits;
mod modules;
mod pieces;
mod pools;
