//! Tensors in JSON, with words for numbers that JSON has not.
//!
//! Input: JSON of a client, and bytes of the wire. Output: the other. Every number of a float type,
//! NaN and infinities too, survives the way out and back in.

mod list;
mod non_finite;

pub(super) use list::{NumberList, flat};
pub(super) use non_finite::{quote, to_json};
