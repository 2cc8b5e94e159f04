//! Formulas of singles, by vectors: a tile of outputs at a time, one term after the other.
//!
//! A block is short enough (some ten microseconds) to write its outputs as it makes them, and looks at the stop word
//! before.

use super::gelu::{Step, steps};
use super::operand::Operand;
use super::seen::Seen;
use super::terms::{cost, evaluate, gelu};
use reef_core::tensor::{Domain, Element, Formula, Kind, Spec, TensorOp, Term};

/// Outputs that are made at a time: all terms of them stay in the second cache.
pub(super) const TILE: usize = 512;
/// Most terms.
pub(super) const TERMS: usize = 64;
/// Terms for which the memory of what is known of them is small.
pub(super) const FEW: usize = 16;
/// What a block may cost, in terms of one output that are a single instruction.
pub(super) const BLOCK: usize = 96 * 1024;
/// Outputs of a block at most.
const OUTPUTS: usize = 16 * 1024;

/// A formula that has vectors for all of its terms.
#[derive(Debug)]
pub(in crate::kernels::tensor) struct Vectors {
    terms: Vec<Step>,
    /// How each input is read.
    seen: Vec<Seen>,
    /// Outputs of a block.
    pub(in crate::kernels::tensor) outputs: usize,
}

impl Vectors {
    /// `None` if `op`, which was checked, is no formula of singles, or has a term without vectors.
    pub(in crate::kernels::tensor) fn of(op: &TensorOp) -> Option<Self> {
        let Kind::Map(map) = &op.kind else { return None };
        (map.domain == Domain::F32).then(|| Self::new(&map.formula, &op.inputs, &op.output))?
    }

    /// A formula of what is broadcast to its output; `None` if these are no singles, or a term has no vectors.
    pub(in crate::kernels::tensor) fn new<'a>(
        formula: &Formula,
        inputs: impl IntoIterator<Item = &'a Spec>,
        output: &'a Spec,
    ) -> Option<Self> {
        let terms = steps(&formula.0);
        let seen =
            inputs.into_iter().map(|input| Seen::of(input, output)).collect::<Option<_>>()?;
        let costs = formula.0.iter().map(cost).collect::<Option<Vec<_>>>()?;
        let outputs = (BLOCK / costs.iter().sum::<usize>().max(1)).clamp(TILE, OUTPUTS);
        let fits = output.element == Element::F32 && terms.len() <= TERMS;
        fits.then_some(Self { terms, seen, outputs: outputs / TILE * TILE })
    }

    /// Floats of scratch memory that a block takes.
    pub(in crate::kernels::tensor) fn scratch(&self) -> usize {
        self.terms.len() * TILE
    }

    /// The outputs from `first` on.
    pub(in crate::kernels::tensor) fn compute(
        &self,
        inputs: &[&[f32]],
        first: usize,
        scratch: &mut [f32],
        to: &mut [f32],
    ) {
        for (k, to) in to.chunks_mut(TILE).enumerate() {
            self.tile(None, inputs, first + k * TILE, scratch, to);
        }
    }

    /// Replaces what `values` hold of the first input by the outputs from `first` on. `inputs` are all others.
    pub(in crate::kernels::tensor) fn replace(
        &self,
        values: &mut [f32],
        inputs: &[&[f32]],
        first: usize,
        scratch: &mut [f32],
    ) {
        let mut made = [0.0; TILE];
        for (k, values) in values.chunks_mut(TILE).enumerate() {
            let made = &mut made[..values.len()];
            self.tile(Some(values), inputs, first + k * TILE, scratch, made);
            values.copy_from_slice(made);
        }
    }

    fn tile(
        &self,
        given: Option<&[f32]>,
        inputs: &[&[f32]],
        first: usize,
        scratch: &mut [f32],
        outputs: &mut [f32],
    ) {
        match self.terms.len() {
            ..=FEW => self.few::<FEW>(given, inputs, first, scratch, outputs),
            _ => self.few::<TERMS>(given, inputs, first, scratch, outputs),
        }
    }

    /// At most [`TILE`] outputs, of at most `N` terms. The first input is `given` as far as it is needed, or one of `inputs`.
    fn few<const N: usize>(
        &self,
        given: Option<&[f32]>,
        inputs: &[&[f32]],
        first: usize,
        scratch: &mut [f32],
        outputs: &mut [f32],
    ) {
        let len = outputs.len();
        let mut known = [None::<Operand<'_>>; N];
        for (k, term) in self.terms.iter().enumerate() {
            let (before, after) = scratch.split_at_mut(k * TILE);
            let to = if k + 1 == self.terms.len() { &mut *outputs } else { &mut after[..len] };
            let of = |k: usize| known[k].unwrap_or(Operand::Each(&before[k * TILE..][..len]));
            known[k] = match (*term, given) {
                (Step::Unused, _) => None,
                (Step::Gelu(x), _) => gelu(of(x), to).map(Operand::All),
                (Step::Term(Term::Input(0)), Some(given)) => Some(Operand::Each(given)),
                (Step::Term(Term::Input(input)), _) => {
                    let from = inputs[input - usize::from(given.is_some())];
                    self.seen[input].load(from, first, to)
                }
                (Step::Term(term), _) => evaluate(term, of, to).map(Operand::All),
            };
        }
        match known[self.terms.len() - 1] {
            Some(Operand::Each(input)) => outputs.copy_from_slice(input),
            Some(Operand::All(value)) => outputs.fill(value),
            None => {}
        }
    }
}
