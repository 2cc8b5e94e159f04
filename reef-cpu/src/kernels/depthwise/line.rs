//! Windows of one row of outputs, in groups that see the same columns of their filters.

use reef_core::op::{Conv2d, Window};
use std::ops::Range;

/// Windows side by side, and the columns of the filter that lie inside of the picture for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// The first of them.
    pub first: usize,
    /// 1, 2 or 4.
    pub count: usize,
    /// Columns of the filter.
    pub columns: Range<usize>,
}

/// A row or a column of windows over so many rows or columns of a picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    pub size: usize,
    pub stride: usize,
    pub padding: usize,
    pub picture: usize,
}

/// Rows and columns of a convolution.
pub(super) fn axes(op: &Conv2d) -> [Axis; 2] {
    let Window { size, stride, padding } = op.window;
    let picture = [op.input.height, op.input.width];
    [0, 1].map(|i| Axis {
        size: size[i],
        stride: stride[i],
        padding: padding[i],
        picture: picture[i],
    })
}

impl Axis {
    /// What of the window number `at` lies inside of the picture; nothing may.
    pub(super) fn inside(&self, at: usize) -> Range<usize> {
        let start = at * self.stride;
        let first = self.padding.saturating_sub(start).min(self.size);
        let end = (self.picture + self.padding).saturating_sub(start).min(self.size);
        first..end.max(first)
    }

    /// `windows` in groups: at the edges one by one, elsewhere as many together as there are.
    pub(super) fn groups(self, windows: Range<usize>) -> impl Iterator<Item = Group> {
        let mut at = windows.start;
        std::iter::from_fn(move || {
            let left = windows.end.checked_sub(at).filter(|&left| left > 0)?;
            let whole = |count: usize| {
                count <= left
                    && [at, at + count - 1].iter().all(|&at| self.inside(at) == (0..self.size))
            };
            let count = [4, 2].into_iter().find(|&count| whole(count)).unwrap_or(1);
            let group = Group { first: at, count, columns: self.inside(at) };
            at += count;
            Some(group)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_each_window_once_and_see_what_each_of_theirs_sees() {
        for (size, stride, padding, picture) in
            [(3, 1, 1, 9), (5, 2, 2, 14), (7, 1, 3, 4), (3, 2, 0, 8), (2, 3, 5, 6)]
        {
            let axis = Axis { size, stride, padding, picture };
            let windows = (picture + 2 * padding - size) / stride + 1;
            let mut next = 1;
            for Group { first, count, columns } in axis.groups(1..windows) {
                assert_eq!(first, next);
                for at in first..first + count {
                    let sees =
                        |tap: &usize| (padding..padding + picture).contains(&(at * stride + tap));
                    let seen: Vec<_> = (0..size).filter(sees).collect();
                    assert_eq!(columns.clone().collect::<Vec<_>>(), seen, "{axis:?} at {at}");
                }
                next += count;
            }
            assert_eq!(next, windows);
        }
    }
}
