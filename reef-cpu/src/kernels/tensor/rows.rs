//! Folds of singles that lie side by side, by vectors.

use crate::kernels::scalar::larger;
use crate::kernels::simd::widest;
use crate::kernels::stop_token::StopToken;
use reef_core::tensor::{Domain, Element, FoldKind, Kind, TensorOp, View};

/// Partial sums that are made side by side.
pub(super) const LANES: usize = 64;
/// Elements that a block reads at most, unless a row is longer; and between two looks at the stop word.
const READ: usize = 16 * 1024;

/// A fold whose elements lie in one piece for each output.
#[derive(Debug)]
pub(super) struct Rows {
    kind: FoldKind,
    kept: View,
    len: usize,
    /// Outputs of a block.
    pub(super) outputs: usize,
}

impl Rows {
    /// `None` if `op`, which was checked, is nothing of the kind, or too small for it to pay.
    pub(super) fn of(op: &TensorOp) -> Option<Self> {
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
    pub(super) fn compute(
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
        !stop.seen()
    }

    fn row(&self, row: &[f32], stop: StopToken<'_>) -> Option<f32> {
        let mut lanes = match self.kind {
            FoldKind::Max => [f32::NEG_INFINITY; LANES],
            _ => [0.0; LANES],
        };
        for part in row.chunks(READ) {
            if stop.seen() {
                return None;
            }
            match self.kind {
                FoldKind::Max => gather(&mut lanes, part, larger),
                FoldKind::SumSquares => gather(&mut lanes, part, |sum, x| sum + x * x),
                _ => gather(&mut lanes, part, |sum, x| sum + x),
            }
        }
        Some(match self.kind {
            FoldKind::Max => together(lanes, larger),
            _ => together(lanes, |sum, x| sum + x),
        })
    }
}

/// Takes each element into the lane of its place.
pub(super) fn gather(lanes: &mut [f32; LANES], row: &[f32], add: impl Fn(f32, f32) -> f32) {
    widest(
        #[inline(always)]
        || {
            let (whole, rest) = row.as_chunks::<LANES>();
            for chunk in whole {
                for (lane, &x) in lanes.iter_mut().zip(chunk) {
                    *lane = add(*lane, x);
                }
            }
            lanes.iter_mut().zip(rest).for_each(|(lane, &x)| *lane = add(*lane, x));
        },
    );
}

/// What all lanes come to: halves of them, one onto the other.
pub(super) fn together(mut lanes: [f32; LANES], add: impl Fn(f32, f32) -> f32) -> f32 {
    let mut len = LANES;
    while len > 1 {
        len /= 2;
        let (low, high) = lanes.split_at_mut(len);
        low.iter_mut().zip(high).for_each(|(low, &mut high)| *low = add(*low, high));
    }
    lanes[0]
}
