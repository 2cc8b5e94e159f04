//! Sizes of rows with which all that rows read are views.

use super::places::{Uneven, seen, split};
use reef_core::tensor::{Placed, View};

/// How often an axis is split.
const SPLITS: usize = 4;
/// Most rows: each is looked at.
const ROWS: usize = 1 << 22;

/// What rows read: `order` says for each which of some others it is, of which each of `read` says
/// where it begins. All in the same sizes, of which `order`'s are tried first.
pub(super) fn common<'a>(
    order: &Placed,
    read: impl Iterator<Item = &'a Placed> + Clone,
) -> Option<Vec<Placed>> {
    let sizes = order.view.dims.iter().copied().filter(|&size| size != 1);
    let mut rows = View::dense(&sizes.collect::<Vec<_>>());
    if rows.len() > ROWS {
        return None;
    }
    for _ in 0..=SPLITS {
        let begin = |read: &Placed| seen(&rows.dims, |row| read.at(order.at(row)));
        match read.clone().map(begin).collect::<Result<Vec<_>, Uneven>>() {
            Ok(views) => return Some(views),
            Err(uneven) => split(&mut rows, uneven)?,
        }
    }
    None
}
