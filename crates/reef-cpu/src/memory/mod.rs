//! Memory of the device.
//!
//! In: sizes, and memory of others. Out: a [`Buffer`](buffer::Buffer), whose bounds are checked.
//! Invariant: plain loads and stores are made under a [borrow](borrow).

pub(crate) mod borrow;
pub(crate) mod buffer;
mod pages;
