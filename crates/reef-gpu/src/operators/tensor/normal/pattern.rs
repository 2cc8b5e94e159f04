//! Finds a normalisation in a formula of rows, as networks spell it.

use reef_op::tensor::{Binary, FoldKind, RowMap, RowTerm, Term, Unary};

/// `(x - mean) / √(variance + ε) · gain + shift` of rows, or
/// `x / √(mean square + ε) · gain + shift`. Numbers are inputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Normal {
    /// One, or two that are added.
    pub(super) x: [Option<usize>; 2],
    pub(super) gain: Option<usize>,
    pub(super) shift: Option<usize>,
    pub(super) centred: bool,
    pub(super) epsilon: f32,
}

impl Normal {
    /// The last term as a normalisation; `None` if it isn't one.
    pub(super) fn of(op: &RowMap) -> Option<Self> {
        let terms = Terms { terms: &op.terms, width: op.width as f64 };
        let last = op.terms.len().checked_sub(1)?;
        terms.scaled(last).or_else(|| {
            let (of, shift) = terms.with_input(last, Binary::Add)?;
            Some(Self { shift: Some(shift), ..terms.scaled(of)? })
        })
    }
}

struct Terms<'a> {
    terms: &'a [RowTerm],
    width: f64,
}

impl Terms<'_> {
    /// Term `k` as a normalised row, times a gain or not.
    fn scaled(&self, k: usize) -> Option<Normal> {
        self.standard(k).or_else(|| {
            let (of, gain) = self.with_input(k, Binary::Mul)?;
            Some(Normal { gain: Some(gain), ..self.standard(of)? })
        })
    }

    /// Term `k` as a row by the root of its mean square or, less its mean, of its variance.
    fn standard(&self, k: usize) -> Option<Normal> {
        let inverse = |k| Some(self.binary(k, Binary::Div)?).filter(|[one, _]| self.is(*one, 1.0));
        let by_inverse = |[a, b]: [usize; 2]| match inverse(b) {
            Some([_, root]) => Some([a, root]),
            None => inverse(a).map(|[_, root]| [b, root]),
        };
        let [row, root] =
            self.binary(k, Binary::Div).or_else(|| by_inverse(self.binary(k, Binary::Mul)?))?;
        let RowTerm::Element(Term::Unary(Unary::Sqrt, sum)) = self.terms[root] else { return None };
        let [a, b] = self.binary(sum, Binary::Add)?;
        let (squares, epsilon) =
            self.number(b).map(|number| (a, number)).or_else(|| Some((b, self.number(a)?)))?;
        if self.mean_square(squares)? != row {
            return None;
        }
        let centre = self.binary(row, Binary::Sub).filter(|[x, mean]| self.mean(*mean) == Some(*x));
        let x = self.inputs(centre.map_or(row, |[x, _]| x))?;
        let (centred, epsilon) = (centre.is_some(), epsilon as f32);
        Some(Normal { x, gain: None, shift: None, centred, epsilon })
    }

    /// The term that term `k` is the mean of.
    fn mean(&self, k: usize) -> Option<usize> {
        let [sum, count] = self.binary(k, Binary::Div)?;
        match self.terms[sum] {
            RowTerm::Fold(FoldKind::Sum, x) if self.is(count, self.width) => Some(x),
            _ => None,
        }
    }

    /// The term whose squares term `k` is the mean of.
    fn mean_square(&self, k: usize) -> Option<usize> {
        let [sum, count] = self.binary(k, Binary::Div)?;
        match self.terms[sum] {
            _ if !self.is(count, self.width) => None,
            RowTerm::Fold(FoldKind::SumSquares, x) => Some(x),
            RowTerm::Fold(FoldKind::Sum, square) => {
                self.binary(square, Binary::Mul).filter(|[a, b]| a == b).map(|[x, _]| x)
            }
            RowTerm::Fold(..) | RowTerm::Element(_) => None,
        }
    }

    /// An input, or the sum of two.
    fn inputs(&self, k: usize) -> Option<[Option<usize>; 2]> {
        if let Some(input) = self.input(k) {
            return Some([Some(input), None]);
        }
        let [a, b] = self.binary(k, Binary::Add)?;
        Some([Some(self.input(a)?), Some(self.input(b)?)])
    }

    /// The term that term `k` combines with an input, and that input.
    fn with_input(&self, k: usize, kind: Binary) -> Option<(usize, usize)> {
        let [a, b] = self.binary(k, kind)?;
        self.input(b).map(|input| (a, input)).or_else(|| Some((b, self.input(a)?)))
    }

    fn input(&self, k: usize) -> Option<usize> {
        match self.terms[k] {
            RowTerm::Element(Term::Input(input)) => Some(input),
            _ => None,
        }
    }

    fn binary(&self, k: usize, kind: Binary) -> Option<[usize; 2]> {
        self.terms[k].binary(kind)
    }

    fn is(&self, k: usize, number: f64) -> bool {
        self.number(k) == Some(number)
    }

    fn number(&self, k: usize) -> Option<f64> {
        self.terms[k].number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RowTerm::{Element, Fold};
    use reef_op::tensor::Scalar;

    fn input(number: usize) -> RowTerm {
        Element(Term::Input(number))
    }

    fn real(number: f64) -> RowTerm {
        Element(Term::Scalar(Scalar::Real(number)))
    }

    fn of(kind: Binary, a: usize, b: usize) -> RowTerm {
        Element(Term::Binary(kind, a, b))
    }

    /// A row of eight, as ONNX's LayerNormalization has it: 4 centred, 9 its root, 13 scaled, 15
    /// shifted.
    fn layer() -> Vec<RowTerm> {
        vec![
            input(0),
            Fold(FoldKind::Sum, 0),
            real(8.0),
            of(Binary::Div, 1, 2),
            of(Binary::Sub, 0, 3),
            Fold(FoldKind::SumSquares, 4),
            of(Binary::Div, 5, 2),
            real(0.5),
            of(Binary::Add, 7, 6),
            Element(Term::Unary(Unary::Sqrt, 8)),
            input(1),
            of(Binary::Div, 4, 9),
            input(2),
            of(Binary::Mul, 10, 11),
            of(Binary::Add, 13, 12),
        ]
    }

    fn found(terms: &[RowTerm], width: usize) -> Option<Normal> {
        Normal::of(&RowMap { width, terms: terms.to_vec() })
    }

    fn want() -> Normal {
        let (gain, shift) = (Some(1), Some(2));
        Normal { x: [Some(0), None], gain, shift, centred: true, epsilon: 0.5 }
    }

    #[test]
    fn a_normalisation_is_found_with_or_without_gain_and_shift() {
        assert_eq!(found(&layer(), 8), Some(want()));
        assert_eq!(found(&layer()[..14], 8), Some(Normal { shift: None, ..want() }));
        assert_eq!(found(&layer()[..12], 8), Some(Normal { gain: None, shift: None, ..want() }));
        let mut by_inverse = layer();
        by_inverse[11] = real(1.0);
        by_inverse.truncate(12);
        by_inverse.extend([of(Binary::Div, 11, 9), of(Binary::Mul, 4, 12)]);
        let bare = Normal { gain: None, shift: None, ..want() };
        assert_eq!(found(&by_inverse, 8), Some(bare));
        by_inverse[13] = of(Binary::Mul, 12, 4);
        assert_eq!(found(&by_inverse, 8), Some(bare));
    }

    #[test]
    fn two_inputs_may_be_added_first_and_the_mean_may_stay() {
        let sum = vec![input(3), input(4), of(Binary::Add, 0, 1)];
        let by_mean_square = [
            Fold(FoldKind::SumSquares, 2),
            real(8.0),
            of(Binary::Div, 3, 4),
            real(0.5),
            of(Binary::Add, 5, 6),
            Element(Term::Unary(Unary::Sqrt, 7)),
            of(Binary::Div, 2, 8),
        ];
        let x = [Some(3), Some(4)];
        let want = Normal { x, gain: None, shift: None, centred: false, epsilon: 0.5 };
        assert_eq!(found(&[sum.clone(), by_mean_square.to_vec()].concat(), 8), Some(want));
        let mut squares = by_mean_square.to_vec();
        squares[0] = of(Binary::Mul, 2, 2);
        squares.insert(1, Fold(FoldKind::Sum, 3));
        squares.truncate(2);
        squares.extend([
            real(8.0),
            of(Binary::Div, 4, 5),
            real(0.5),
            of(Binary::Add, 6, 7),
            Element(Term::Unary(Unary::Sqrt, 8)),
            of(Binary::Div, 2, 9),
        ]);
        assert_eq!(found(&[sum, squares].concat(), 8), Some(want));
    }

    #[test]
    fn formula_that_differs_is_not_a_normalisation() {
        assert_eq!(found(&layer(), 9), None, "another mean");
        let changes = [
            (1, Fold(FoldKind::Max, 0)),
            (5, Fold(FoldKind::SumSquares, 0)),
            (5, Fold(FoldKind::SumAbs, 4)),
            (7, input(3)),
            (9, Element(Term::Unary(Unary::Exp, 8))),
            (11, of(Binary::Div, 9, 4)),
            (11, of(Binary::Mul, 4, 9)),
            (12, real(1.0)),
            (13, of(Binary::Sub, 11, 10)),
            (14, of(Binary::Max, 13, 12)),
        ];
        for (at, term) in changes {
            let mut terms = layer();
            terms[at] = term;
            assert_eq!(found(&terms, 8), None, "{at}: {term:?}");
        }
        // The mean of something else is not a centre, but might be a row: here it has two inputs
        // too many.
        let mut other = layer();
        other[1] = Fold(FoldKind::Sum, 2);
        assert_eq!(found(&other, 8), None);
        assert_eq!(found(&[], 8), None);
    }
}
