//! Description of a tensor.

use super::element::Element;
use super::view::product;
use std::fmt;

/// Element type and sizes of a dense, row-major tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Spec {
    /// Element type.
    pub element: Element,
    /// Sizes, outermost first.
    pub dims: Vec<usize>,
}

impl Spec {
    /// Returns the number of elements; the largest number if there are more.
    pub fn elements(&self) -> usize {
        product(&self.dims)
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.elements().saturating_mul(self.element.bytes())
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.element, self.dims)
    }
}
