//! Many elements as one.

use super::bound::{BoundTensors, THREADS, suffix};
use super::plan::Plan;
use super::scalar::bits;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use reef_core::{Launch, Result};
use reef_op::tensor::{Domain, Fold, FoldKind, Scalar};

/// Threads that a fold has if it is large enough: fewer leave a device idle.
const AT_ONCE: usize = 1 << 16;

pub(super) fn build<V: Vendor>(bound: &BoundTensors<'_, V>, fold: &Fold) -> Result<Launch<Gpu<V>>> {
    let len = bound.len(&fold.folded)?;
    let lanes = lanes(bound.count(), len as usize);
    let mut plan = Plan::default();
    bound.inputs(&mut plan);
    let (kind, last) = code(fold.kind);
    plan.words(&[0, 0, len, kind, last.into(), lanes as u32]);
    plan.words(&start(fold.kind, fold.domain));
    for (at, view) in [(4, &fold.kept), (5, &fold.folded)] {
        let view = plan.view(view);
        plan.set(at, view);
    }
    let blocks = bound.count().div_ceil(THREADS / lanes);
    bound.launch(&format!("fold_{}", suffix(fold.domain)), blocks, 0, &plan)
}

/// Threads of an output: a power of two.
fn lanes(outputs: usize, len: usize) -> usize {
    let wanted = (AT_ONCE / outputs).min(len.div_ceil(4)).clamp(1, THREADS);
    1 << wanted.ilog2()
}

/// `FoldKind` in kernels/fold.h, and whether the last of equals counts.
pub(super) fn code(kind: FoldKind) -> (u32, bool) {
    match kind {
        FoldKind::Sum => (0, false),
        FoldKind::SumAbs => (1, false),
        FoldKind::SumSquares => (2, false),
        FoldKind::Product => (3, false),
        FoldKind::Max => (4, false),
        FoldKind::Min => (5, false),
        FoldKind::ArgMax { last } => (6, last),
        FoldKind::ArgMin { last } => (7, last),
    }
}

/// Result of a fold of no elements.
fn start(kind: FoldKind, domain: Domain) -> [u32; 2] {
    let ends = match domain {
        Domain::F32 | Domain::F64 => [f64::NEG_INFINITY, f64::INFINITY].map(Scalar::Real),
        Domain::I64 => [i64::MIN, i64::MAX].map(Scalar::Whole),
        Domain::U64 => [0, -1].map(Scalar::Whole),
    };
    let start = match kind {
        FoldKind::Product => Scalar::Whole(1),
        FoldKind::Max => ends[0],
        FoldKind::Min => ends[1],
        _ => Scalar::Whole(0),
    };
    bits(start, domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_outputs_of_many_elements_have_many_threads() {
        assert_eq!(
            [(1, 1 << 20), (1 << 20, 9), (128, 768)].map(|(n, len)| lanes(n, len)),
            [256, 1, 128]
        );
        assert_eq!([(1, 0), (1, 1), (1, 9)].map(|(n, len)| lanes(n, len)), [1, 1, 2]);
    }
}
