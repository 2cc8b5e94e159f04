//! A formula of elements and of folds of their whole row: normalisations, softmax.

use super::fold::FoldKind;
use super::formula::{Binary, Formula, Scalar, Term, Unary, larger, smaller};
use super::job::{Job, Outputs};
use super::map::{Map, term_of};
use crate::tensor::element::{Domain, Element};
use crate::tensor::spec::Spec;
use reef_core::{Error, Result};

/// A step of a formula of rows. Operands are numbers of earlier ones.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum RowTerm {
    /// Of each element by itself.
    Element(Term),
    /// Fold of all elements of the row, equal for each of them: `Sum`, `SumAbs`, `SumSquares`,
    /// `Max` or `Min`. Sums are made in 64 bits.
    Fold(FoldKind, usize),
}

impl RowTerm {
    /// Its operands, if it is this function of two.
    pub fn binary(&self, kind: Binary) -> Option<[usize; 2]> {
        match *self {
            Self::Element(Term::Binary(of, a, b)) if of == kind => Some([a, b]),
            _ => None,
        }
    }

    /// The number that it is.
    pub fn number(&self) -> Option<f64> {
        match *self {
            Self::Element(Term::Scalar(Scalar::Real(number))) => Some(number),
            Self::Element(Term::Scalar(Scalar::Whole(number))) => Some(number as f64),
            _ => None,
        }
    }
}

/// `output[row, i] = terms(inputs[row, ..])[i]`: the last term is the result. Inputs are broadcast
/// to the output, whose last axis is the row. Terms are floats of 32 bits.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RowMap {
    /// Elements of a row.
    pub width: usize,
    /// Formula of the elements.
    pub terms: Vec<RowTerm>,
}

impl RowMap {
    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        let known = |term: &RowTerm| match term {
            RowTerm::Element(_) => true,
            RowTerm::Fold(kind, _) => is_known(*kind),
        };
        let rows = self.width > 0 && output.dims.last() == Some(&self.width);
        let stored = matches!(output.element, Element::F32 | Element::F16);
        let fits = rows && stored && self.terms.iter().all(known);
        if !fits || self.terms.is_empty() {
            return Err(Error::invalid("row formula", format!("{self:?} cannot make {output}")));
        }
        self.map().check(inputs, output)
    }

    /// Returns the terms as a map, each fold as some function of its operand.
    fn map(&self) -> Map {
        let terms = self.terms.iter().map(|term| match *term {
            RowTerm::Element(term) => term,
            RowTerm::Fold(_, a) => Term::Unary(Unary::Abs, a),
        });
        Map { formula: Formula(terms.collect()), domain: Domain::F32 }
    }

    pub(crate) fn compute(&self, inputs: &[Spec], output: &Spec, mut job: Job<'_>) -> Outputs {
        let views = self.map().views(inputs, output).ok()?;
        let mut tiles = vec![vec![0f32; self.width]; self.terms.len()];
        for first in job.range.clone().step_by(self.width) {
            if job.stopped() {
                return None;
            }
            for (k, term) in self.terms.iter().enumerate() {
                let (before, tile) = tiles.split_at_mut(k);
                let tile = &mut tile[0][..];
                match *term {
                    RowTerm::Element(Term::Input(input)) => {
                        job.load(input, &views[input], first, tile);
                    }
                    RowTerm::Element(other) => term_of(other, before, tile),
                    RowTerm::Fold(kind, a) => tile.fill(folded(kind, &before[a])),
                }
            }
            job.push(&tiles[tiles.len() - 1]);
        }
        Some(job.output)
    }
}

fn is_known(kind: FoldKind) -> bool {
    use FoldKind::{Max, Min, Sum, SumAbs, SumSquares};
    matches!(kind, Sum | SumAbs | SumSquares | Max | Min)
}

fn folded(kind: FoldKind, row: &[f32]) -> f32 {
    let sum = |of: fn(f64) -> f64| row.iter().map(|&x| of(f64::from(x))).sum::<f64>() as f32;
    match kind {
        FoldKind::Max => row.iter().copied().fold(f32::NEG_INFINITY, larger),
        FoldKind::Min => row.iter().copied().fold(f32::INFINITY, smaller),
        FoldKind::SumAbs => sum(f64::abs),
        FoldKind::SumSquares => sum(|x| x * x),
        _ => sum(|x| x),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::array::Array;
    use crate::tensor::kinds::formula::Binary;
    use crate::tensor::op::{Kind, TensorOp};

    /// `x - max(x)` along rows of three, from terms.
    fn op(terms: Vec<RowTerm>) -> TensorOp {
        let spec = Spec { element: Element::F32, dims: vec![2, 3] };
        let kind = Kind::RowMap(RowMap { width: 3, terms });
        TensorOp { kind, inputs: vec![spec.clone()], output: spec }
    }

    fn shifted(kind: FoldKind) -> TensorOp {
        let difference = RowTerm::Element(Term::Binary(Binary::Sub, 0, 1));
        op(vec![RowTerm::Element(Term::Input(0)), RowTerm::Fold(kind, 0), difference])
    }

    #[test]
    fn each_row_has_folds_of_its_own() {
        let x = Array::F32(vec![1.0, 5.0, 3.0, -1.0, -4.0, -2.0]);
        let made =
            |kind, range| shifted(kind).compute(&[x.values()], range, &|| false).unwrap().unwrap();
        assert_eq!(made(FoldKind::Max, 0..6), Array::F32(vec![-4.0, 0.0, -2.0, 0.0, -3.0, -1.0]));
        assert_eq!(made(FoldKind::Sum, 3..6), Array::F32(vec![6.0, 3.0, 5.0]));
        assert_eq!(made(FoldKind::SumSquares, 0..3), Array::F32(vec![-34.0, -30.0, -32.0]));
        assert!(shifted(FoldKind::Max).compute(&[x.values()], 0..2, &|| false).is_err(), "no row");
    }

    #[test]
    fn invalid_row_formula_is_refused() {
        let wide = TensorOp {
            kind: Kind::RowMap(RowMap { width: 2, terms: vec![RowTerm::Element(Term::Input(0))] }),
            ..shifted(FoldKind::Sum)
        };
        for op in [
            op(Vec::new()),
            op(vec![RowTerm::Fold(FoldKind::Sum, 0)]),
            shifted(FoldKind::Product),
            wide,
        ] {
            assert!(matches!(op.check(), Err(Error::Invalid(_))), "{op:?}");
        }
    }
}
