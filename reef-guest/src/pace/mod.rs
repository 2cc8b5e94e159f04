//! How densely gates stand in a stream, and how far a thread may run ahead of the device.
//!
//! *In*: launches, and the marks that the device writes when it has come past them. *Out*: whether
//! a gate or a mark is due, and whether the launching thread has to wait. *Invariant*: with the
//! gate open, at most [`MAX_APART`] launches or about [`APART`] of the device's time stand between
//! two gates; with it closed there is one in front of every launch; and no more than [`MAX_AHEAD`]
//! launches and one mark's distance are in flight, so that no thread blocks inside the driver,
//! whose own queue is longer.

mod spacing;
mod stream;

pub use spacing::{APART, MAX_APART, Spacing};
pub use stream::{MARK_EVERY, MAX_AHEAD, MAX_AHEAD_HELD, Stream, in_graph};
