//! Content of storages while steps are read.

use crate::ir::value::Id;
use reef_core::op::Window;

/// Content of a storage, as far as pictures have it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    Nothing,
    Value(Id),
    /// A picture with rows and columns of one number around it.
    Padded {
        x: Id,
        before: [usize; 2],
        after: [usize; 2],
        fill: Fill,
    },
    /// Sums over windows, which the next step divides.
    Sums {
        x: Id,
        window: Window,
        is_global: bool,
    },
    /// A picture with a lower bound, to which the next step puts an upper one.
    Bounded {
        x: Id,
        low: f64,
    },
}

/// A number around a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    Zero,
    Least,
    /// There is none of it.
    None,
}
