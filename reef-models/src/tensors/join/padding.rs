//! Zeros around images.

use reef_op::tensor::{Kind, Move, NOWHERE, Scalar, TensorOp};

/// Rows and columns of zeros that a move has before and after those of images, if that is all that
/// it does.
pub(super) fn zeros_around(op: &TensorOp) -> Option<[[usize; 2]; 2]> {
    let (Kind::Move(op), [input]) = (&op.kind, &op.inputs[..]) else { return None };
    let &[n, c, height, width] = &input.dims[..] else { return None };
    let Move { tables, fill: Scalar::Whole(0) | Scalar::Real(0.0) } = op else { return None };
    let [images, channels, rows, columns] = &tables[..] else { return None };
    if input.elements() == 0 {
        return None; // from here on products of sizes are small
    }
    let still =
        [count_edges(images, n, c * height * width)?, count_edges(channels, c, height * width)?];
    let edges = [count_edges(rows, height, width)?, count_edges(columns, width, 1)?];
    (still == [[0; 2]; 2]).then_some(edges)
}

/// Numbers of places before and after those of all elements of an axis, among others that are
/// nowhere.
fn count_edges(table: &[usize], size: usize, stride: usize) -> Option<[usize; 2]> {
    let before = table.iter().take_while(|&&at| at == NOWHERE).count();
    let (own, after) = table[before..].split_at_checked(size)?;
    let all = own.iter().enumerate().all(|(k, &at)| at == k * stride);
    (all && after.iter().all(|&at| at == NOWHERE)).then_some([before, after.len()])
}
