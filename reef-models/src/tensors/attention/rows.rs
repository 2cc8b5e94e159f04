//! Sizes of rows with which all that rows read are views.

use super::places::{Uneven, split, view_of};
use reef_op::tensor::{Placed, View};

/// Maximum number of splits of an axis.
const SPLITS: usize = 4;
/// Most rows: each is looked at.
const ROWS: usize = 1 << 22;

/// Rows that are read: `order` has the number of a row for each of the result's, and each of `read`
/// has the begin of that row. All have the same sizes, of which `order`'s are tried first.
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
        let begin = |read: &Placed| view_of(&rows.dims, |row| read.at(order.at(row)));
        match read.clone().map(begin).collect::<Result<Vec<_>, Uneven>>() {
            Ok(views) => return Some(views),
            Err(uneven) => split(&mut rows, uneven)?,
        }
    }
    None
}
