//! Tensors in JSON, with words for numbers that JSON has not.
//!
//! Input: JSON of a client, and bytes of the wire. Output: the other. Every number of a float type,
//! NaN and infinities too, survives the way out and back in.

pub(super) mod list;
pub(super) mod non_finite;
pub(super) mod texts;
