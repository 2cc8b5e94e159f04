//! Memory of the device.
//!
//! In: sizes, and memory of others. Out: a [`Buffer`](buffer::Buffer), whose bounds are checked.
//! What stays true: whoever loads or stores plainly has [borrowed](borrow) what it touches.

pub(crate) mod borrow;
pub(crate) mod buffer;
mod pages;
