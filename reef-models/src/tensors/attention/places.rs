//! Views of views: where elements come from that were moved.

use reef_op::tensor::{Move, NOWHERE, Placed, View};

/// Reason for which places are not a view: the size at which an axis would have to be split, if
/// that may help.
pub(super) type Uneven = Option<(usize, usize)>;

/// As `placed` sees what `op` makes, seen in what `op` reads, if that is a view.
pub(super) fn through(placed: &Placed, op: &Move) -> Result<Placed, Uneven> {
    let axes =
        op.tables.iter().map(|table| arithmetic(table)).collect::<Option<Vec<_>>>().ok_or(None)?;
    let sizes: Vec<usize> = op.tables.iter().map(Vec::len).collect();
    let digits = |index: usize| {
        let mut rest = index;
        let mut digits = vec![0; sizes.len()];
        for (digit, size) in digits.iter_mut().zip(&sizes).rev() {
            (*digit, rest) = (rest % size, rest / size);
        }
        digits
    };
    let place = |index: usize| -> usize {
        digits(index).iter().zip(&axes).map(|(digit, (_, stride))| digit * stride).sum()
    };
    // As long as places along each axis never carry over into the next one, they add up.
    let mut reach = digits(placed.first);
    let mut strides = Vec::with_capacity(placed.view.dims.len());
    for (axis, (&size, &stride)) in placed.view.dims.iter().zip(&placed.view.strides).enumerate() {
        let step = if size > 1 { place(stride) } else { 0 };
        let mut farthest = vec![0; sizes.len()];
        for i in (0..size).filter(|_| stride > 0) {
            farthest
                .iter_mut()
                .zip(digits(i * stride))
                .for_each(|(most, digit)| *most = digit.max(*most));
            if place(i * stride) != i * step {
                return Err(Some((axis, i)));
            }
        }
        reach.iter_mut().zip(farthest).for_each(|(reach, most)| *reach += most);
        strides.push(step);
    }
    let overflows = reach.iter().zip(&sizes).any(|(reach, size)| reach >= size);
    let first = axes.iter().map(|(start, _)| start).sum::<usize>() + place(placed.first);
    let view = View { dims: placed.view.dims.clone(), strides };
    if overflows { Err(None) } else { Ok(Placed { first, view }) }
}

/// First place of a table, and the distance of its places.
pub(super) fn arithmetic(table: &[usize]) -> Option<(usize, usize)> {
    let start = *table.first().filter(|&&start| start != NOWHERE)?;
    let stride = table.get(1).map_or(Some(0), |next| next.checked_sub(start))?;
    let even = table.iter().enumerate().all(|(i, &at)| at != NOWHERE && at == start + i * stride);
    even.then_some((start, stride))
}

/// The view of these sizes whose elements lie at `place` of their number.
pub(super) fn view_of(dims: &[usize], place: impl Fn(usize) -> usize) -> Result<Placed, Uneven> {
    let first = place(0);
    let mut strides = Vec::with_capacity(dims.len());
    for (axis, (&size, step)) in dims.iter().zip(View::dense(dims).strides).enumerate() {
        let stride = if size > 1 { place(step).checked_sub(first).ok_or(None)? } else { 0 };
        if let Some(i) = (1..size).find(|i| place(i * step) != first + i * stride) {
            return Err(Some((axis, i)));
        }
        strides.push(stride);
    }
    let placed = Placed { first, view: View { dims: dims.to_vec(), strides } };
    if (0..placed.view.len()).all(|i| place(i) == placed.at(i)) { Ok(placed) } else { Err(None) }
}

/// Splits an axis of a view, if `uneven` says where.
pub(super) fn split(view: &mut View, uneven: Uneven) -> Option<()> {
    let (axis, len) = uneven
        .filter(|&(axis, len)| view.dims.get(axis).is_some_and(|size| size.is_multiple_of(len)))?;
    let (size, stride) = (view.dims[axis], view.strides[axis]);
    view.dims.splice(axis..=axis, [size / len, len]);
    view.strides.splice(axis..=axis, [stride * len, stride]);
    Some(())
}

/// Number of elements of a view along its only axis, and their distance; `None` if it has several.
pub(super) fn line(view: &View) -> Option<(usize, usize)> {
    let merged = view.merged();
    match (merged.dims.as_slice(), merged.strides.as_slice()) {
        ([], _) => Some((1, 0)),
        ([len], [stride]) => Some((*len, *stride)),
        _ => None,
    }
}

/// A view's axes without the last one, and that one's stride.
pub(super) fn split_last(view: &View) -> Option<(View, usize)> {
    let last = view.dims.len().checked_sub(1)?;
    Some((view.axes(&(0..last).collect::<Vec<_>>()), view.strides[last]))
}

/// Returns whether `rows` see rows of `len` elements, which `row` sees, one after the other.
pub(super) fn are_rows(rows: &View, row: &View, len: usize) -> bool {
    let all = rows.then(row);
    row.len() == len && all.merged() == View::dense(&all.dims).merged()
}
