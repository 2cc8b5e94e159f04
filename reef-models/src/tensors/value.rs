//! Values of a network while it is built.

use crate::memory::budget::Charge;
use reef_op::tensor::{Array, Element, Spec};
use std::rc::Rc;

/// Something with a type and a shape: values that are known, or a storage that will hold them.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) spec: Spec,
    pub(crate) data: ValueData,
    /// Set if it holds places of texts.
    pub(crate) texts: Option<TextOrigin>,
}

/// Origin of the texts that a tensor holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextOrigin {
    /// The file, which has all of them.
    File,
    /// Requests: the file may not have them.
    Request,
}

/// A size that data decide: that of an axis, whose own is an upper bound.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub(crate) axis: usize,
    /// One int64.
    pub(crate) size: Value,
}

#[derive(Debug, Clone)]
pub(crate) enum ValueData {
    Known(Rc<KnownValues>),
    /// Number of the storage.
    Storage(usize),
}

/// Values with the memory that they were charged.
#[derive(Debug)]
pub(crate) struct KnownValues {
    pub(crate) array: Array,
    pub(crate) charge: Charge,
}

impl Value {
    pub(crate) fn dims(&self) -> &[usize] {
        &self.spec.dims
    }

    pub(crate) fn rank(&self) -> usize {
        self.spec.dims.len()
    }

    pub(crate) fn element(&self) -> Element {
        self.spec.element
    }

    pub(crate) fn known_values(&self) -> Option<&Rc<KnownValues>> {
        match &self.data {
            ValueData::Known(known) => Some(known),
            ValueData::Storage(_) => None,
        }
    }
}

/// Type of results that go into further computation: halves would lose too much.
pub(crate) fn wide(element: Element) -> Element {
    match element {
        Element::F16 | Element::BF16 => Element::F32,
        other => other,
    }
}
