//! Parts of networks of attention, for texts and images.
//!
//! In: rows of numbers, one for each token of each text or image. Out: rows again.
//!
//! Invariant: a layer takes its tensors by the names that it is given, and in the order in which it
//! computes.

pub(super) mod attention;
pub(super) mod layers;
