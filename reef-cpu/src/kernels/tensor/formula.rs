//! Formulas of singles, by vectors: a tile of outputs at a time, one term after the other.
//!
//! A block is short enough (some ten microseconds) to write its outputs as it makes them, and looks at the stop word
//! before.

use crate::kernels::functions::{erf, exp, tanh};
use crate::kernels::simd::widest;
use reef_core::tensor::{Binary, Domain, Element, Kind, Scalar, TensorOp, Term, Unary, View};

/// Outputs that are made at a time: all terms of them stay in the second cache.
const TILE: usize = 512;
/// Most terms.
const TERMS: usize = 64;
/// What a block may cost, in terms of one output that are a single instruction.
const BLOCK: usize = 96 * 1024;
/// Outputs of a block at most.
const OUTPUTS: usize = 16 * 1024;

/// A formula that has vectors for all of its terms.
#[derive(Debug)]
pub(super) struct Vectors {
    terms: Vec<Term>,
    /// How each input is read.
    views: Vec<View>,
    /// Outputs of a block.
    pub(super) outputs: usize,
}

impl Vectors {
    /// `None` if `op`, which was checked, is no formula of singles, or has a term without vectors.
    pub(super) fn of(op: &TensorOp) -> Option<Self> {
        let Kind::Map(map) = &op.kind else { return None };
        let singles = op.inputs.iter().chain([&op.output]).all(|spec| spec.element == Element::F32);
        if !singles || map.domain != Domain::F32 || map.formula.0.len() > TERMS {
            return None;
        }
        let view =
            |dims: &[usize]| View::broadcast(dims, &op.output.dims).map(|view| view.merged());
        let views = op.inputs.iter().map(|input| view(&input.dims)).collect::<Option<_>>()?;
        let terms = map.formula.0.clone();
        let costs = terms.iter().map(cost).collect::<Option<Vec<_>>>()?;
        let outputs = (BLOCK / costs.iter().sum::<usize>().max(1)).clamp(TILE, OUTPUTS);
        Some(Self { terms, views, outputs: outputs / TILE * TILE })
    }

    /// Floats of scratch memory that a block takes.
    pub(super) fn scratch(&self) -> usize {
        self.terms.len() * TILE
    }

    /// The outputs from `first` on.
    pub(super) fn compute(
        &self,
        inputs: &[&[f32]],
        first: usize,
        scratch: &mut [f32],
        to: &mut [f32],
    ) {
        for (term, tile) in self.terms.iter().zip(scratch.chunks_mut(TILE)) {
            if let Term::Scalar(scalar) = term {
                tile.fill(single(*scalar));
            }
        }
        for (k, to) in to.chunks_mut(TILE).enumerate() {
            self.tile(inputs, first + k * TILE, scratch, to);
        }
    }

    fn tile(&self, inputs: &[&[f32]], first: usize, scratch: &mut [f32], outputs: &mut [f32]) {
        let (len, mut direct) = (outputs.len(), [None::<&[f32]>; TERMS]);
        for (k, term) in self.terms.iter().enumerate() {
            let (before, after) = scratch.split_at_mut(k * TILE);
            let to = if k + 1 == self.terms.len() { &mut *outputs } else { &mut after[..len] };
            let of = |k: usize| direct[k].unwrap_or(&before[k * TILE..][..len]);
            match *term {
                Term::Input(input) => {
                    direct[k] = load(inputs[input], &self.views[input], first, to);
                }
                Term::Scalar(scalar) if k + 1 == self.terms.len() => to.fill(single(scalar)),
                Term::Scalar(_) => {}
                Term::Unary(function, a) => unary(function, of(a), to),
                Term::Binary(function, a, b) => binary(function, [of(a), of(b)], to),
                Term::Select(which, a, b) => select([of(which), of(a), of(b)], to),
            }
        }
        if let Some(input) = direct[self.terms.len() - 1] {
            outputs.copy_from_slice(input);
        }
    }
}

/// What a term costs for one output; `None` if it has no vectors.
fn cost(term: &Term) -> Option<usize> {
    use Binary::{Add, Div, Equal, Less, LessOrEqual, Max, Min, Mul, Sub};
    match term {
        Term::Input(_) => Some(2),
        Term::Scalar(_) => Some(0),
        Term::Unary(Unary::Abs | Unary::Neg | Unary::Not, _) | Term::Select(..) => Some(1),
        Term::Unary(Unary::Sqrt, _) | Term::Binary(Div, ..) => Some(4),
        Term::Unary(Unary::Exp, _) => Some(10),
        Term::Unary(Unary::Tanh | Unary::Erf, _) => Some(20),
        Term::Binary(Add | Sub | Mul | Min | Max | Less | LessOrEqual | Equal, ..) => Some(1),
        _ => None,
    }
}

fn single(scalar: Scalar) -> f32 {
    match scalar {
        Scalar::Real(number) => number as f32,
        Scalar::Whole(number) => number as f32,
    }
}

/// The elements themselves if they lie in one piece; and else copies of them in `to`.
fn load<'a>(from: &'a [f32], view: &View, first: usize, to: &mut [f32]) -> Option<&'a [f32]> {
    let (mut at, step) = (0, view.step());
    for (start, run) in view.runs(first, to.len()) {
        if run == to.len() && step == 1 {
            return Some(&from[start..start + run]);
        }
        let to = &mut to[at..at + run];
        match step {
            0 => to.fill(from[start]),
            1 => to.copy_from_slice(&from[start..start + run]),
            _ => to.iter_mut().enumerate().for_each(|(i, to)| *to = from[start + i * step]),
        }
        at += run;
    }
    None
}

fn unary(function: Unary, x: &[f32], to: &mut [f32]) {
    match function {
        Unary::Abs => each(x, to, f32::abs),
        Unary::Neg => each(x, to, |x| -x),
        Unary::Not => each(x, to, |x| truth(x == 0.0)),
        Unary::Sqrt => each(x, to, f32::sqrt),
        Unary::Exp => each(x, to, exp),
        Unary::Tanh => each(x, to, tanh),
        Unary::Erf => each(x, to, erf),
        other => unreachable!("{other:?} has no vectors"),
    }
}

fn binary(function: Binary, of: [&[f32]; 2], to: &mut [f32]) {
    match function {
        Binary::Add => both(of, to, |x, y| x + y),
        Binary::Sub => both(of, to, |x, y| x - y),
        Binary::Mul => both(of, to, |x, y| x * y),
        Binary::Div => both(of, to, |x, y| x / y),
        Binary::Min => both(of, to, |x, y| if y < x || y.is_nan() { y } else { x }),
        Binary::Max => both(of, to, |x, y| if y > x || y.is_nan() { y } else { x }),
        Binary::Less => both(of, to, |x, y| truth(x < y)),
        Binary::LessOrEqual => both(of, to, |x, y| truth(x <= y)),
        Binary::Equal => both(of, to, |x, y| truth(x == y)),
        other => unreachable!("{other:?} has no vectors"),
    }
}

#[inline(always)]
fn truth(is: bool) -> f32 {
    if is { 1.0 } else { 0.0 }
}

fn each(x: &[f32], to: &mut [f32], function: impl Fn(f32) -> f32) {
    widest(
        #[inline(always)]
        || to.iter_mut().zip(x).for_each(|(to, &x)| *to = function(x)),
    );
}

fn both([x, y]: [&[f32]; 2], to: &mut [f32], function: impl Fn(f32, f32) -> f32) {
    widest(
        #[inline(always)]
        || {
            for ((to, &x), &y) in to.iter_mut().zip(x).zip(y) {
                *to = function(x, y);
            }
        },
    );
}

fn select([which, a, b]: [&[f32]; 3], to: &mut [f32]) {
    widest(
        #[inline(always)]
        || {
            for (((to, &which), &a), &b) in to.iter_mut().zip(which).zip(a).zip(b) {
                *to = if which != 0.0 { a } else { b };
            }
        },
    );
}
