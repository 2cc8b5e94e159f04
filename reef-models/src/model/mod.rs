//! A network: what each step of its schedule computes, and from which tensors.
//!
//! In: layers, one after the other ([`builder`]), or a graph of operations from a file. Out: a
//! checked [`ImageModel`](image_model::ImageModel), and its weights as operations take them
//! ([`Folded`](fold::Folded)).
//!
//! Invariant: a model has one layer for each step of its graph, and shapes, storages and windows
//! agree ([`check`]).

pub(crate) mod builder;
pub(crate) mod check;
pub(crate) mod fold;
pub(crate) mod image_model;
pub(crate) mod params;
pub(crate) mod ports;
pub(crate) mod rounded_weights;
pub(crate) mod seeded;
pub(crate) mod tensor;
pub(crate) mod tensors;
pub(crate) mod texts;

pub use ports::{Extent, Port, Ports};
pub use seeded::Seeded;
pub use texts::Texts;
