//! Constants of a network of tensors.

use crate::model::seeded::Seeded;
use crate::model::tensor::TensorSpec;
use reef_op::tensor::{Array, Element};
use std::borrow::Cow;

/// A constant of a network.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Constant {
    /// Values that it holds.
    Values(Array),
    /// Singles that are made up whenever they are asked for, so that the weights of a large network
    /// are never all in the host's memory.
    MadeUp(Seeded, TensorSpec),
}

impl Constant {
    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Values(array) => array.len(),
            Self::MadeUp(_, tensor) => tensor.elements,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let element = match self {
            Self::Values(array) => array.element(),
            Self::MadeUp(..) => Element::F32,
        };
        self.len() * element.bytes()
    }

    /// The values.
    pub(crate) fn array(&self) -> Cow<'_, Array> {
        match self {
            Self::Values(array) => Cow::Borrowed(array),
            Self::MadeUp(seed, tensor) => Cow::Owned(Array::F32(seed.make_tensor(tensor))),
        }
    }

    /// A constant of the same type without values that are held.
    pub(crate) fn without_values(&self) -> Self {
        match self {
            Self::Values(array) => Self::Values(Array::with_capacity(array.element(), 0)),
            made_up @ Self::MadeUp(..) => made_up.clone(),
        }
    }
}
