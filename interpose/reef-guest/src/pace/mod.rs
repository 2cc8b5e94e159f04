//! Pacing: density of gates in a stream, and run-ahead of a thread over the device.
//!
//! *In*: launches, and the marks that the device writes when it has passed them. *Out*: whether a
//! gate or a mark is due, and whether the launching thread has to wait. *Invariant*: with the gate
//! open, at most [`MAX_APART`] launches or about [`APART`] of the device's time are between two
//! gates; with the gate closed, there is one before every launch; at most [`MAX_AHEAD`] launches
//! and one mark's distance are in flight. So no thread blocks inside the driver, whose own queue is
//! longer.

mod spacing;
mod stream;

pub use spacing::{APART, MAX_APART, Spacing};
pub use stream::{MARK_EVERY, MAX_AHEAD, MAX_AHEAD_HELD, Stream, in_graph};
