//! A network: what each step of its schedule computes, and from which tensors.
//!
//! In: layers, one after the other ([`builder`]), or a graph of operations from a file. Out: a
//! checked [`PictureModel`], and its weights as operations take them ([`Folded`]).
//!
//! Invariant: a model has one layer for each step of its graph, and shapes, storages and windows
//! agree ([`check`]).

pub(crate) mod builder;
pub(crate) mod check;
pub(crate) mod fold;
pub(crate) mod params;
pub(crate) mod picture_model;
pub(crate) mod ports;
pub(crate) mod seeded;
pub(crate) mod tensor;
pub(crate) mod tensors;

pub use fold::Folded;
pub use picture_model::{Layer, PictureModel};
pub use ports::{Port, Ports};
pub use seeded::Seeded;
pub use tensor::{Constants, Kind, Norm, Source, TensorSpec};
pub use tensors::Tensors;
