//! The device's memory by other ways than `cuMemAlloc`.

mod arrays;
mod limits;
mod modules;
mod pieces;
mod pools;
