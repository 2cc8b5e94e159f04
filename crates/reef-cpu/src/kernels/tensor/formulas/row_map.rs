//! Formulas of singles and of what their row becomes, by vectors: softmax, normalisations.
//!
//! A row at a time, one term after the other; what is the same for the whole row is computed once.
//! As with formulas, a block is short enough to write its outputs as it makes them, and looks at
//! the stop word before.

use super::access_pattern::{AccessPattern, Operand};
use super::chain::find::Chain;
use super::chain::steps::{ChainStep, Leaf};
use super::folds::fold;
use super::formula::{BLOCK, FEW, TERMS};
use super::standard::{RowStep, steps};
use super::terms::{cost, evaluate};
#[cfg(target_arch = "x86_64")]
use super::vectors;
use crate::kernels::values::simd::widest;
use reef_op::tensor::{Element, FoldKind, Kind, RowTerm, TensorOp, Term};

/// Largest cost of a row: a block has one at least.
const ROW: usize = 4 * BLOCK;
/// Cost of a fold of a row for one element.
const FOLD: usize = 2;

/// A formula of rows that has vectors for all of its terms.
#[derive(Debug)]
pub(in crate::kernels::tensor) struct RowVectors {
    width: usize,
    steps: Vec<RowStep>,
    /// The input whose rows are standardised and by which number, and what is done with them, if
    /// that is all.
    standard: Option<(usize, f32, Chain)>,
    /// Access pattern of each input.
    seen: Vec<AccessPattern>,
    /// Outputs of a block: whole rows.
    pub(in crate::kernels::tensor) outputs: usize,
}

impl RowVectors {
    /// `None` if `op`, which was checked, is nothing of the kind, or a row costs too much.
    pub(in crate::kernels::tensor) fn of(op: &TensorOp) -> Option<Self> {
        let Kind::RowMap(rows) = &op.kind else { return None };
        let seen: Vec<AccessPattern> = op
            .inputs
            .iter()
            .map(|input| AccessPattern::of(input, &op.output))
            .collect::<Option<_>>()?;
        let cost = |term: &RowTerm| match term {
            RowTerm::Element(term) => cost(term),
            RowTerm::Fold(..) => Some(FOLD),
        };
        let costs = rows.terms.iter().map(cost).sum::<Option<usize>>()?;
        let row = costs.max(1).saturating_mul(rows.width);
        let (width, steps) = (rows.width, steps(&rows.terms, rows.width));
        let outputs = width * (BLOCK / row.max(1)).max(1);
        let fits = row <= ROW && steps.len() <= TERMS && op.output.element == Element::F32;
        let standard = standard(&steps, &seen);
        fits.then_some(Self { width, steps, standard, seen, outputs })
    }

    /// Floats of scratch memory that a block takes.
    pub(in crate::kernels::tensor) fn scratch(&self) -> usize {
        self.steps.len() * self.width
    }

    /// The outputs from `first` on, which begins a row.
    pub(in crate::kernels::tensor) fn compute(
        &self,
        inputs: &[&[f32]],
        first: usize,
        scratch: &mut [f32],
        to: &mut [f32],
    ) {
        for (k, to) in to.chunks_mut(self.width).enumerate() {
            let first = first + k * self.width;
            if let Some((input, epsilon, chain)) = &self.standard {
                standardise(&inputs[*input][first..][..self.width], *epsilon, to);
                chain.apply(to, first, &self.seen, |input| inputs[input], scratch);
                continue;
            }
            match self.steps.len() {
                ..=FEW => self.row::<FEW>(inputs, first, scratch, to),
                _ => self.row::<TERMS>(inputs, first, scratch, to),
            }
        }
    }

    /// A row, of at most `N` terms.
    fn row<const N: usize>(
        &self,
        inputs: &[&[f32]],
        first: usize,
        scratch: &mut [f32],
        outputs: &mut [f32],
    ) {
        let width = self.width;
        let mut known = [None::<Operand<'_>>; N];
        for (k, step) in self.steps.iter().enumerate() {
            let (before, after) = scratch.split_at_mut(k * width);
            let to = if k + 1 == self.steps.len() { &mut *outputs } else { &mut after[..width] };
            let of = |k: usize| known[k].unwrap_or(Operand::Each(&before[k * width..][..width]));
            known[k] = match *step {
                RowStep::Unused => None,
                RowStep::Standard(x, epsilon) => match of(x) {
                    Operand::Each(row) => {
                        standardise(row, epsilon, to);
                        None
                    }
                    // Nothing is apart from its mean.
                    Operand::All(value) => Some(Operand::All(value * 0.0 / epsilon.sqrt())),
                },
                RowStep::Row(RowTerm::Element(Term::Input(input))) => {
                    self.seen[input].load(inputs[input], first, to)
                }
                RowStep::Row(RowTerm::Element(term)) => evaluate(term, of, to).map(Operand::All),
                RowStep::Row(RowTerm::Fold(kind, a)) => {
                    let folded = match of(a) {
                        Operand::Each(row) => fold(kind, row),
                        Operand::All(value) => {
                            to.fill(value);
                            fold(kind, to)
                        }
                    };
                    Some(Operand::All(folded))
                }
            };
        }
        match known[self.steps.len() - 1] {
            Some(Operand::Each(input)) => outputs.copy_from_slice(input),
            Some(Operand::All(value)) => outputs.fill(value),
            None => {}
        }
    }
}

/// Finds an input of which each row is standardised, and a chain behind it.
fn standard(steps: &[RowStep], seen: &[AccessPattern]) -> Option<(usize, f32, Chain)> {
    let part = |step: &RowStep| match *step {
        RowStep::Unused => ChainStep::Unused,
        RowStep::Standard(..) => ChainStep::Start,
        RowStep::Row(RowTerm::Element(Term::Input(input))) => ChainStep::Leaf(Leaf::Input(input)),
        RowStep::Row(RowTerm::Element(Term::Scalar(scalar))) => ChainStep::Leaf(Leaf::of(scalar)),
        RowStep::Row(RowTerm::Element(Term::Unary(function, a))) => ChainStep::Unary(function, a),
        RowStep::Row(RowTerm::Element(Term::Binary(function, a, b))) => {
            ChainStep::Binary(function, a, b)
        }
        RowStep::Row(_) => ChainStep::Other,
    };
    let chain = Chain::of(&steps.iter().map(part).collect::<Vec<_>>())?;
    steps
        .iter()
        .find_map(|step| match *step {
            RowStep::Standard(x, epsilon) => match steps[x] {
                RowStep::Row(RowTerm::Element(Term::Input(input)))
                    if matches!(seen[input], AccessPattern::Whole) =>
                {
                    Some((input, epsilon))
                }
                _ => None,
            },
            _ => None,
        })
        .map(|(input, epsilon)| (input, epsilon, chain))
}

/// `row` less its mean, by the root of its variance and `epsilon`.
fn standardise(row: &[f32], epsilon: f32, to: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the machine has AVX-512.
        return unsafe { vectors::standardise(row, epsilon, to) };
    }
    let count = row.len() as f32;
    let mean = fold(FoldKind::Sum, row) / count;
    widest(
        #[inline(always)]
        || {
            for (to, x) in to.iter_mut().zip(row) {
                *to = x - mean;
            }
        },
    );
    let inverse = 1.0 / (fold(FoldKind::SumSquares, to) / count + epsilon).sqrt();
    widest(
        #[inline(always)]
        || {
            for to in to {
                *to *= inverse;
            }
        },
    );
}
