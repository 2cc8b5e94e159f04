//! Formulas of singles, by vectors: a tile of outputs at a time, one term after the other.
//!
//! A block is short enough (some ten microseconds) to write its outputs as it makes them, and looks
//! at the stop word before.

use super::access_pattern::{AccessPattern, Operand};
use super::chain::find::Chain;
use super::chain::steps::{ChainStep, Leaf};
use super::gelu::{Step, steps};
use super::terms::{cost, evaluate, gelu};
use reef_op::tensor::{Domain, Element, Formula, Kind, Spec, TensorOp, Term};

/// Outputs that are made at a time: all terms of them stay in the second cache.
pub(super) const TILE: usize = 512;
/// Most terms.
pub(super) const TERMS: usize = 64;
/// Terms for which the memory of what is known of them is small.
pub(super) const FEW: usize = 16;
/// Largest cost of a block, in terms of one output that are a single instruction.
pub(super) const BLOCK: usize = 96 * 1024;
/// Outputs of a block at most.
const OUTPUTS: usize = 16 * 1024;

/// A formula that has vectors for all of its terms.
#[derive(Debug)]
pub(in crate::kernels::tensor) struct Vectors {
    terms: Vec<Step>,
    /// The formula as a chain that begins with an input that has a value for each output, if it is
    /// one.
    chain: Option<(usize, Chain)>,
    /// Access pattern of each input.
    seen: Vec<AccessPattern>,
    /// Outputs of a block.
    pub(in crate::kernels::tensor) outputs: usize,
}

impl Vectors {
    /// `None` if `op`, which was checked, is not a formula of singles, or has a term without
    /// vectors.
    pub(in crate::kernels::tensor) fn of(op: &TensorOp) -> Option<Self> {
        let Kind::Map(map) = &op.kind else { return None };
        (map.domain == Domain::F32).then(|| Self::new(&map.formula, &op.inputs, &op.output))?
    }

    /// A formula of inputs that are broadcast to its output; `None` if these are not singles, or a
    /// term has no vectors.
    pub(in crate::kernels::tensor) fn new<'a>(
        formula: &Formula,
        inputs: impl IntoIterator<Item = &'a Spec>,
        output: &'a Spec,
    ) -> Option<Self> {
        let terms = steps(&formula.0);
        let seen: Vec<AccessPattern> = inputs
            .into_iter()
            .map(|input| AccessPattern::of(input, output))
            .collect::<Option<_>>()?;
        let costs = formula.0.iter().map(cost).collect::<Option<Vec<_>>>()?;
        let outputs = (BLOCK / costs.iter().sum::<usize>().max(1)).clamp(TILE, OUTPUTS);
        let fits = output.element == Element::F32 && terms.len() <= TERMS;
        let chain = chain(&terms, &seen);
        fits.then_some(Self { terms, chain, seen, outputs: outputs / TILE * TILE })
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
            let first = first + k * TILE;
            match &self.chain {
                Some((start, chain)) => {
                    to.copy_from_slice(&inputs[*start][first..][..to.len()]);
                    chain.apply(to, first, &self.seen, |input| inputs[input], scratch);
                }
                None => self.tile(None, inputs, first, scratch, to),
            }
        }
    }

    /// Replaces what `values` hold of the first input by the outputs from `first` on. `inputs` are
    /// all others.
    pub(in crate::kernels::tensor) fn replace(
        &self,
        values: &mut [f32],
        inputs: &[&[f32]],
        first: usize,
        scratch: &mut [f32],
    ) {
        if let Some((0, chain)) = &self.chain {
            for (k, values) in values.chunks_mut(TILE).enumerate() {
                let first = first + k * TILE;
                chain.apply(values, first, &self.seen, |input| inputs[input - 1], scratch);
            }
            return;
        }
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

    /// At most [`TILE`] outputs, of at most `N` terms. The first input is `given` as far as it is
    /// needed, or one of `inputs`.
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

/// The chain that `terms` are, and the input with which it begins.
fn chain(terms: &[Step], seen: &[AccessPattern]) -> Option<(usize, Chain)> {
    let whole = seen.iter().enumerate().filter(|(_, seen)| matches!(seen, AccessPattern::Whole));
    whole.map(|(start, _)| start).find_map(|start| {
        let parts: Vec<ChainStep> = terms.iter().map(|term| part(term, start)).collect();
        Some((start, Chain::of(&parts)?))
    })
}

/// A step as chains see it that begin with input `start`.
fn part(step: &Step, start: usize) -> ChainStep {
    match *step {
        Step::Unused => ChainStep::Unused,
        Step::Gelu(x) => ChainStep::Gelu(x),
        Step::Term(Term::Input(input)) if input == start => ChainStep::Start,
        Step::Term(Term::Input(input)) => ChainStep::Leaf(Leaf::Input(input)),
        Step::Term(Term::Scalar(scalar)) => ChainStep::Leaf(Leaf::of(scalar)),
        Step::Term(Term::Unary(function, a)) => ChainStep::Unary(function, a),
        Step::Term(Term::Binary(function, a, b)) => ChainStep::Binary(function, a, b),
        Step::Term(Term::Select(..)) => ChainStep::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::tensor::{Binary, Scalar, Unary};
    use std::f64::consts::SQRT_2;

    /// Sums with a bias, GELU, a scale, a residual, bounds and a root.
    fn formula() -> Formula {
        use Binary::{Add, Div, Max, Min, Mul};
        let real = |number| Term::Scalar(Scalar::Real(number));
        let of = |function, a, b| Term::Binary(function, a, b);
        let gelu = [real(SQRT_2), of(Div, 2, 3), Term::Unary(Unary::Erf, 4), real(1.0)];
        let gelu = [&gelu[..], &[of(Add, 5, 6), of(Mul, 2, 7), real(0.5), of(Mul, 8, 9)]].concat();
        let sums = [Term::Input(0), Term::Input(1), of(Add, 0, 1)];
        let behind = [Term::Input(2), of(Mul, 11, 10), Term::Input(3), of(Add, 12, 13)];
        let bounds = [real(3.0), of(Min, 14, 15), real(-0.1), of(Max, 16, 17)];
        let last = [Term::Unary(Unary::Abs, 18), Term::Unary(Unary::Sqrt, 19)];
        Formula([&sums[..], &gelu, &behind, &bounds, &last].concat())
    }

    #[test]
    fn a_chain_begins_with_what_has_a_value_for_each_output() {
        let single = |dims: &[usize]| Spec { element: Element::F32, dims: dims.to_vec() };
        let specs = [single(&[1, 3]), single(&[2, 3])];
        let scaled = Term::Binary(Binary::Mul, 0, 1);
        let formula = Formula(vec![Term::Input(0), Term::Input(1), scaled]);
        let vectors = Vectors::new(&formula, &specs, &specs[1]).unwrap();
        assert!(vectors.chain.as_ref().is_none_or(|(start, _)| *start == 1), "{vectors:?}");
        let inputs: [&[f32]; 2] = [&[2.0, 3.0, 5.0], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]];
        let (mut scratch, mut made) = (vec![f32::NAN; vectors.scratch()], [0.0; 6]);
        vectors.compute(&inputs, 0, &mut scratch, &mut made);
        assert_eq!(made, [2.0, 6.0, 15.0, 8.0, 15.0, 30.0]);
    }

    #[test]
    fn chains_have_the_bits_of_their_steps() {
        let single = |dims: &[usize]| Spec { element: Element::F32, dims: dims.to_vec() };
        for width in [1, 7, 64, 100, 700] {
            let specs =
                [single(&[9, width]), single(&[width]), single(&[9, 1]), single(&[9, width])];
            let chained = Vectors::new(&formula(), &specs, &specs[0]).unwrap();
            if chained.chain.is_none() {
                return reef_conformance::skip("no AVX-512");
            }
            let stepped =
                Vectors { chain: None, ..Vectors::new(&formula(), &specs, &specs[0]).unwrap() };
            let value =
                |k: usize| if k % 97 == 13 { f32::NAN } else { (k as f32 * 0.37).sin() * 4.0 };
            let inputs: Vec<Vec<f32>> = specs
                .iter()
                .enumerate()
                .map(|(k, spec)| (0..spec.elements()).map(|i| value(i + 31 * k)).collect())
                .collect();
            let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
            let bits = |vectors: &Vectors, replaced: bool| -> Vec<u32> {
                let mut scratch = vec![f32::NAN; vectors.scratch()];
                let mut made = inputs[0][width / 2..].to_vec();
                if replaced {
                    vectors.replace(&mut made, &inputs[1..], width / 2, &mut scratch);
                } else {
                    vectors.compute(&inputs, width / 2, &mut scratch, &mut made);
                }
                made.into_iter().map(f32::to_bits).collect()
            };
            for replaced in [false, true] {
                assert_eq!(bits(&chained, replaced), bits(&stepped, replaced), "{width}");
            }
        }
    }
}
