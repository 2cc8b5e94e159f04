//! Networks of ordinary tensors: any rank and element type, several inputs and outputs.
//!
//! In: operations on values, from a reader of files or a builder of networks
//! ([`Builder`](builder::Builder)). Out: a [`TensorModel`](model::TensorModel): storages, and steps
//! that fill them.
//!
//! Single numbers that are known are part of formulas ([`scalars`]), and formulas that follow each
//! other are one step ([`fuse`]). Elements that nothing reads are not made ([`trim`]). For a device
//! that has several of its operations as one, a network has them so ([`attention`], [`join`]), what
//! it rounds wherever it is read is stored so ([`narrow`]), and what it runs side by side are
//! [`groups`]. For one that convolves each channel by itself, images lie channels last where that
//! saves steps ([`layout`]).
//!
//! Invariants: each step writes one storage, which no other step writes, and reads only what
//! earlier ones wrote, what is given, and constants; its operation was checked. What depends on
//! constants alone is a constant.

pub(crate) mod attention;
pub(crate) mod axes;
pub(crate) mod builder;
pub(crate) mod constant;
pub(crate) mod expressions;
mod fuse;
pub(crate) mod groups;
mod join;
mod layout;
pub(crate) mod model;
pub(crate) mod movement;
mod narrow;
pub(crate) mod normal;
mod scalars;
pub(crate) mod step;
pub(crate) mod sums;
mod trim;
pub(crate) mod value;
pub(crate) mod windows;
