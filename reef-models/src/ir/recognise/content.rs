//! Content of storages while steps are read.

use crate::ir::value::Id;
use reef_op::Window;

/// Content of a storage, as far as images have it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    Nothing,
    Value(Id),
    /// An image with rows and columns of one number around it.
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
    /// An image with a lower bound, to which the next step puts an upper one.
    Bounded {
        x: Id,
        low: f64,
    },
}

/// A number around an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    Zero,
    Least,
    /// There is none of it.
    None,
}
