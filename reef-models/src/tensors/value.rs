//! What a name of a network stands for while it is built.

use crate::memory::budget::Charge;
use reef_core::tensor::{Array, Element, Spec};
use std::rc::Rc;

/// Something with a type and a shape: values that are known, or a storage that will hold them.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) spec: Spec,
    pub(crate) what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Known(Rc<Known>),
    /// Number of the storage.
    Storage(usize),
}

/// Values with the memory that they were charged.
#[derive(Debug)]
pub(crate) struct Known {
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

    pub(crate) fn known(&self) -> Option<&Rc<Known>> {
        match &self.what {
            What::Known(known) => Some(known),
            What::Storage(_) => None,
        }
    }
}

/// What holds results that go into further computation: halves would lose too much.
pub(crate) fn wide(element: Element) -> Element {
    match element {
        Element::F16 | Element::BF16 => Element::F32,
        other => other,
    }
}
