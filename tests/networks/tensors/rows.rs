//! Random formulas of rows.

use super::bench::Case;
use super::kinds::{case, pick};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use reef::tensor::{
    Array, Binary, Element, FoldKind, Kind, RowMap, RowTerm, Scalar, Spec, Term, Unary,
};

/// Folds of rows, and functions of elements together with them.
pub(super) fn row_map(rng: &mut ChaCha8Rng) -> Case {
    use FoldKind::{Max, Min, Sum, SumAbs, SumSquares};
    let [n, rows, width] = [3, 9, 1500].map(|most| rng.random_range(1..=most));
    let single = |dims: Vec<usize>| Spec { element: Element::F32, dims };
    let output = single(vec![n, rows, width]);
    let inputs = vec![output.clone(), single(vec![width]), single(vec![rows, 1])];
    let mut terms: Vec<_> = (0..3).map(|k| RowTerm::Element(Term::Input(k))).collect();
    for _ in 0..rng.random_range(1..3) {
        let any = |rng: &mut ChaCha8Rng, terms: &[RowTerm]| rng.random_range(0..terms.len());
        let (a, b) = (any(rng, &terms), any(rng, &terms));
        terms.push(RowTerm::Fold(pick(rng, &[Max, Min, Sum, SumAbs, SumSquares]), a % 3));
        let fold = terms.len() - 1;
        terms.push(RowTerm::Element(Term::Select(b, fold, a)));
        let function = pick(rng, &[Binary::Add, Binary::Sub, Binary::Min, Binary::Max]);
        terms.push(RowTerm::Element(Term::Binary(function, a, terms.len() - 1)));
    }
    case(rng, Kind::RowMap(RowMap { width, terms }), inputs, output, 0.0)
}

/// Rows less their mean by their deviation, or by the root of their mean square, as networks have
/// them.
pub(super) fn normalisation(rng: &mut ChaCha8Rng) -> Case {
    let [n, rows, width] = [3, 9, 500].map(|most| rng.random_range(1..=most));
    let width = if rng.random_bool(0.7) { 4 * width } else { width };
    let single = |dims: Vec<usize>| Spec { element: Element::F32, dims };
    let output = single(vec![n, rows, width]);
    let inputs = vec![output.clone(), output.clone(), single(vec![width]), single(vec![1, width])];
    let mut terms: Vec<_> = (0..4).map(|k| RowTerm::Element(Term::Input(k))).collect();
    let mut push = |term| {
        terms.push(term);
        terms.len() - 1
    };
    let real = |number| RowTerm::Element(Term::Scalar(Scalar::Real(number)));
    let of = |kind, a, b| RowTerm::Element(Term::Binary(kind, a, b));
    let [count, epsilon] = [width as f64, 0.5].map(|number| push(real(number)));
    let mut row = if rng.random_bool(0.5) { push(of(Binary::Add, 0, 1)) } else { 0 };
    if rng.random_bool(0.7) {
        let sum = push(RowTerm::Fold(FoldKind::Sum, row));
        let mean = push(of(Binary::Div, sum, count));
        row = push(of(Binary::Sub, row, mean));
    }
    let squares = push(RowTerm::Fold(FoldKind::SumSquares, row));
    let variance = push(of(Binary::Div, squares, count));
    let more = push(of(Binary::Add, variance, epsilon));
    let root = push(RowTerm::Element(Term::Unary(Unary::Sqrt, more)));
    row = push(of(Binary::Div, row, root));
    if rng.random_bool(0.7) {
        row = push(of(Binary::Mul, row, 2));
    }
    push(of(Binary::Add, row, 3));
    let mut case = case(rng, Kind::RowMap(RowMap { width, terms }), inputs, output, 1e-6);
    // So far from 0 that what a mean is off by is little of the result.
    case.inputs[3] = Array::F32((0..width).map(|n| 64.0 + n as f32).collect());
    case
}
