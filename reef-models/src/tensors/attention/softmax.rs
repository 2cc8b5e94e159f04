//! Softmax over rows, as separate operations: the largest, powers, their sum, shares of it.

use super::places::are_rows;
use super::steps::Steps;
use crate::tensors::step::TensorStep;
use reef_op::tensor::{Binary, FoldKind, Kind, Map, Scalar, Spec, Term, Unary, View};

/// Parts of a softmax.
pub(super) struct Softmax {
    /// The storage of what it is made of.
    pub(super) scores: usize,
    /// True if shares that are not a number become 0.
    pub(super) none_is_zero: bool,
}

/// The softmax that makes `storage`, over rows of `len` elements, if nothing else reads what is
/// between.
pub(super) fn softmax(steps: &Steps<'_>, storage: usize, len: usize) -> Option<Softmax> {
    let shares = steps.maker_for(storage, 1)?;
    let (quotient, none_is_zero) = quotient(map_of(shares)?)?;
    let [powers, sum] = quotient.map(|input| shares.reads[input]);
    is_of_row(shares, quotient, len).then_some(())?;
    is_fold(steps.maker_for(sum, 1)?, FoldKind::Sum, powers, len).then_some(())?;
    let exponential = steps.maker_for(powers, 2)?;
    let difference = difference(map_of(exponential)?)?;
    let [scores, largest] = difference.map(|input| exponential.reads[input]);
    is_of_row(exponential, difference, len).then_some(())?;
    is_fold(steps.maker_for(largest, 1)?, FoldKind::Max, scores, len).then_some(())?;
    (steps.readers(scores) == 2).then_some(Softmax { scores, none_is_zero })
}

fn map_of(step: &TensorStep) -> Option<&Map> {
    match &step.op.kind {
        Kind::Map(map) => Some(map),
        _ => None,
    }
}

/// The inputs of `a / b`, and whether a result that is not a number becomes 0.
fn quotient(map: &Map) -> Option<([usize; 2], bool)> {
    let terms = &map.formula.0;
    match *terms.last()? {
        Term::Binary(Binary::Div, a, b) => Some((inputs(terms, [a, b])?, false)),
        Term::Select(which, zero, quotient) => {
            let is_zero = matches!(terms[zero], Term::Scalar(Scalar::Real(0.0) | Scalar::Whole(0)));
            let is_none = matches!(terms[which], Term::Unary(Unary::IsNan, of) if of == quotient);
            match terms[quotient] {
                Term::Binary(Binary::Div, a, b) if is_zero && is_none => {
                    Some((inputs(terms, [a, b])?, true))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The inputs of `exp(a - b)`.
fn difference(map: &Map) -> Option<[usize; 2]> {
    let terms = &map.formula.0;
    let Term::Unary(Unary::Exp, of) = *terms.last()? else { return None };
    match terms[of] {
        Term::Binary(Binary::Sub, a, b) => inputs(terms, [a, b]),
        _ => None,
    }
}

fn inputs(terms: &[Term], of: [usize; 2]) -> Option<[usize; 2]> {
    match of.map(|k| terms[k]) {
        [Term::Input(a), Term::Input(b)] => Some([a, b]),
        _ => None,
    }
}

/// Returns whether a map reads elements, and one number for each row.
fn is_of_row(step: &TensorStep, [element, number]: [usize; 2], len: usize) -> bool {
    let (op, all) = (&step.op, step.op.output.elements());
    let sees = |spec: &Spec| View::broadcast(&spec.dims, &op.output.dims).map(|view| view.merged());
    let each = View { dims: vec![all / len, len], strides: vec![1, 0] };
    op.inputs[element].elements() == all && sees(&op.inputs[number]) == Some(each.merged())
}

/// Returns whether a step is this fold of rows of `len` elements.
fn is_fold(step: &TensorStep, kind: FoldKind, reads: usize, len: usize) -> bool {
    match &step.op.kind {
        Kind::Fold(fold) => {
            fold.kind == kind && step.reads == [reads] && are_rows(&fold.kept, &fold.folded, len)
        }
        _ => false,
    }
}
