//! Folds of singles that lie side by side, by vectors.

use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::values::scalar::{larger, smaller};
use crate::kernels::values::simd::widest;
use reef_op::tensor::{Domain, Element, FoldKind, Kind, TensorOp, View};

/// Partial sums that are made side by side.
pub(in crate::kernels::tensor) const LANES: usize = 64;
/// Fewer of them, for rows of [`SHORT`] elements and less.
const FEW: usize = 16;
const SHORT: usize = 256;
/// Elements that a block reads at most, unless a row is longer; and between two polls of the stop
/// word.
const READ: usize = 16 * 1024;

/// A fold whose elements lie in one piece for each output.
#[derive(Debug)]
pub(in crate::kernels::tensor) struct Rows {
    kind: FoldKind,
    kept: View,
    len: usize,
    /// Outputs of a block.
    pub(in crate::kernels::tensor) outputs: usize,
}

impl Rows {
    /// `None` if `op`, which was checked, is nothing of the kind, or too small for it to pay.
    pub(in crate::kernels::tensor) fn of(op: &TensorOp) -> Option<Self> {
        let Kind::Fold(fold) = &op.kind else { return None };
        let singles = op.inputs.iter().chain([&op.output]).all(|spec| spec.element == Element::F32);
        let known = matches!(fold.kind, FoldKind::Sum | FoldKind::SumSquares | FoldKind::Max);
        let (kept, folded) = (fold.kept.merged(), fold.folded.merged());
        let in_one = folded.strides == [1];
        if !singles || !known || !in_one || fold.domain != Domain::F32 {
            return None;
        }
        let len = folded.len();
        Some(Self { kind: fold.kind, kept, len, outputs: (READ / len).max(1) })
    }

    /// The outputs from `first` on; false if the block was stopped.
    pub(in crate::kernels::tensor) fn compute(
        &self,
        input: &[f32],
        first: usize,
        to: &mut [f32],
        stop: StopToken<'_>,
    ) -> bool {
        let places = self.kept.runs(first, to.len());
        let step = self.kept.step();
        let mut to = to.iter_mut();
        for (start, run) in places {
            for (i, to) in to.by_ref().take(run).enumerate() {
                match self.row(&input[start + i * step..][..self.len], stop) {
                    Some(made) => *to = made,
                    None => return false,
                }
            }
        }
        !stop.is_set()
    }

    fn row(&self, row: &[f32], stop: StopToken<'_>) -> Option<f32> {
        let mut lanes = match self.kind {
            FoldKind::Max => [f32::NEG_INFINITY; LANES],
            _ => [0.0; LANES],
        };
        for part in row.chunks(READ) {
            if stop.is_set() {
                return None;
            }
            match self.kind {
                FoldKind::Max => gather(&mut lanes, part, larger),
                FoldKind::SumSquares => gather(&mut lanes, part, |sum, x| sum + x * x),
                _ => gather(&mut lanes, part, |sum, x| sum + x),
            }
        }
        Some(match self.kind {
            FoldKind::Max => combine_lanes(lanes, larger),
            _ => combine_lanes(lanes, |sum, x| sum + x),
        })
    }
}

/// Folds a row to its `Max`, `Min`, `SumAbs` or `SumSquares`, and else to its sum.
pub(super) fn fold(kind: FoldKind, row: &[f32]) -> f32 {
    let add = |sum, x| sum + x;
    match kind {
        FoldKind::Max => folded(f32::NEG_INFINITY, row, larger, larger),
        FoldKind::Min => folded(f32::INFINITY, row, smaller, smaller),
        FoldKind::SumAbs => folded(0.0, row, |sum, x: f32| sum + x.abs(), add),
        FoldKind::SumSquares => folded(0.0, row, |sum, x| sum + x * x, add),
        _ => folded(0.0, row, add, add),
    }
}

/// Takes a row into lanes, few of them if it is short, and these together.
fn folded(
    start: f32,
    row: &[f32],
    take: impl Fn(f32, f32) -> f32,
    join: impl Fn(f32, f32) -> f32,
) -> f32 {
    if row.len() <= SHORT {
        let mut lanes = [start; FEW];
        gather(&mut lanes, row, take);
        return combine_lanes(lanes, join);
    }
    let mut lanes = [start; LANES];
    gather(&mut lanes, row, take);
    combine_lanes(lanes, join)
}

/// Takes each element into the lane of its place.
pub(in crate::kernels::tensor) fn gather<const N: usize>(
    lanes: &mut [f32; N],
    row: &[f32],
    add: impl Fn(f32, f32) -> f32,
) {
    widest(
        #[inline(always)]
        || {
            let (whole, rest) = row.as_chunks::<N>();
            for chunk in whole {
                for (lane, &x) in lanes.iter_mut().zip(chunk) {
                    *lane = add(*lane, x);
                }
            }
            for (lane, &x) in lanes.iter_mut().zip(rest) {
                *lane = add(*lane, x);
            }
        },
    );
}

/// Combines all lanes: adds one half onto the other until one value is left.
pub(in crate::kernels::tensor) fn combine_lanes<const N: usize>(
    mut lanes: [f32; N],
    add: impl Fn(f32, f32) -> f32,
) -> f32 {
    let mut len = N;
    while len > 1 {
        len /= 2;
        let (low, high) = lanes.split_at_mut(len);
        for (low, &mut high) in low.iter_mut().zip(high) {
            *low = add(*low, high);
        }
    }
    lanes[0]
}
