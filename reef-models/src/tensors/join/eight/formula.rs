//! Formulas between values and numbers of 8 bits.

use crate::tensors::fuse::formulas::TERMS;
use reef_op::tensor::{Binary, Element, Formula, Scalar, Term, Unary};

/// The lowest and the largest number of a type of 8 bits.
pub(super) fn bounds(element: Element) -> Option<[i16; 2]> {
    match element {
        Element::I8 => Some([-128, 127]),
        Element::U8 => Some([0, 255]),
        _ => None,
    }
}

/// Meaning of numbers of 8 bits.
pub(super) struct Numbers {
    pub(super) scale: f32,
    pub(super) zero: i16,
}

/// The numbers of which a formula makes values: `(x - zero) * scale`.
pub(super) fn numbers(formula: &Formula) -> Option<Numbers> {
    let (moved, scale) = with_number(formula, formula.0.len().checked_sub(1)?, Binary::Mul)?;
    let (x, zero) = with_number(formula, moved, Binary::Sub).unwrap_or((moved, 0.0));
    let is_input = formula.0[x] == Term::Input(0);
    Some(Numbers { scale: scale as f32, zero: small(zero)? }).filter(|_| is_input)
}

/// The zero point that a formula takes off numbers: `x - zero`, or `x` alone.
pub(super) fn moved(formula: &Formula) -> Option<i16> {
    let last = formula.0.len().checked_sub(1)?;
    let (x, zero) = with_number(formula, last, Binary::Sub).unwrap_or((last, 0.0));
    small(zero).filter(|_| formula.0[x] == Term::Input(0))
}

/// Returns whether a formula is the sum of its two inputs.
pub(super) fn is_sum(formula: &Formula) -> bool {
    matches!(
        formula.0[..],
        [
            Term::Input(0),
            Term::Input(1),
            Term::Binary(Binary::Add, 0, 1) | Term::Binary(Binary::Add, 1, 0)
        ]
    )
}

/// Numbers that a formula writes.
pub(super) struct Written {
    /// The input that is rounded.
    pub(super) value: usize,
    /// The input that is added to it before.
    pub(super) added: Option<usize>,
    pub(super) relu: bool,
    pub(super) scale: f32,
    pub(super) zero: i16,
}

/// The numbers within `bounds` that a formula makes of sums of values: those of `sum / scale`.
pub(super) fn written(formula: &Formula, bounds: [i16; 2]) -> Option<Written> {
    let (steps, zero) = rounded(formula, bounds)?;
    let (sum, scale) = with_number(formula, steps, Binary::Div)?;
    let (sum, relu) = match with_number(formula, sum, Binary::Max) {
        Some((sum, 0.0)) => (sum, true),
        Some(_) => return None,
        None => (sum, false),
    };
    let (value, added) = match formula.0[sum] {
        Term::Binary(Binary::Add, a, b) => (input(formula, a)?, Some(input(formula, b)?)),
        _ => (input(formula, sum)?, None),
    };
    let written = Written { value, added, relu, scale: scale as f32, zero };
    Some(written).filter(|_| added != Some(value))
}

/// Numbers that a formula writes of sums of integers.
pub(super) struct Requantized {
    /// The input that has the sums.
    pub(super) sum: usize,
    /// The input that has a factor for each output.
    pub(super) factors: Option<usize>,
    /// Value of the integer 1, but for its factor, and of one step of the numbers.
    pub(super) scales: [f32; 2],
    pub(super) zero: i16,
}

/// The numbers within `bounds` that a formula makes of sums of integers: those of
/// `sum * (x * w / y)`, where `x` and `y` are numbers, and `w` is one or an input.
pub(super) fn requantized(formula: &Formula, bounds: [i16; 2]) -> Option<Requantized> {
    let (steps, zero) = rounded(formula, bounds)?;
    let Term::Binary(Binary::Mul, sum, scale) = formula.0[steps] else { return None };
    let (product, y) = with_number(formula, scale, Binary::Div)?;
    let (w, x) = with_number(formula, product, Binary::Mul)?;
    let (factors, x) = match number(formula, w) {
        Some(w) => (None, w as f32 * x as f32),
        None => (Some(input(formula, w)?), x as f32),
    };
    let (sum, scales) = (input(formula, sum)?, [x, y as f32]);
    Some(Requantized { sum, factors, scales, zero }).filter(|_| factors != Some(sum))
}

/// The term that a formula makes numbers of, and their zero point:
/// `min(moved, bounds[1])`. There `moved` is `round(term) + zero`, or `bounds[0]` if it is not
/// above that.
fn rounded(formula: &Formula, bounds: [i16; 2]) -> Option<(usize, i16)> {
    let last = formula.0.len().checked_sub(1)?;
    let (above, high) = with_number(formula, last, Binary::Min)?;
    let Term::Select(is_above, moved, low) = formula.0[above] else { return None };
    if formula.0[is_above] != Term::Binary(Binary::Less, low, moved) {
        return None;
    }
    let low = number(formula, low)?;
    let (rounded, zero) = with_number(formula, moved, Binary::Add)?;
    let Term::Unary(Unary::Round, steps) = formula.0[rounded] else { return None };
    let is_all = [low, high] == bounds.map(f64::from);
    small(zero).filter(|_| is_all).map(|zero| (steps, zero))
}

fn input(formula: &Formula, at: usize) -> Option<usize> {
    match formula.0[at] {
        Term::Input(input) => Some(input),
        _ => None,
    }
}

fn number(formula: &Formula, at: usize) -> Option<f64> {
    match formula.0[at] {
        Term::Scalar(Scalar::Real(number)) => Some(number),
        Term::Scalar(Scalar::Whole(number)) => Some(number as f64),
        _ => None,
    }
}

/// Operands of a term that is this function of another term and a number, which stands second
/// where that makes a difference.
fn with_number(formula: &Formula, at: usize, function: Binary) -> Option<(usize, f64)> {
    let Term::Binary(own, a, b) = formula.0[at] else { return None };
    let is_ordered = matches!(function, Binary::Sub | Binary::Div);
    let first = || number(formula, a).filter(|_| !is_ordered).map(|number| (b, number));
    let pair = number(formula, b).map(|number| (a, number)).or_else(first)?;
    (own == function).then_some(pair)
}

fn small(number: f64) -> Option<i16> {
    let small = number as i16;
    (f64::from(small) == number).then_some(small)
}

/// Returns whether a formula stays one that devices hold if a number is taken off its inputs.
pub(super) fn takes_off(formula: &Formula) -> bool {
    let inputs = formula.0.iter().filter(|term| matches!(term, Term::Input(_))).count();
    formula.0.len() + 2 * inputs <= TERMS
}

/// A formula with a number taken off those of its inputs for which `more` has one.
pub(super) fn with_less(formula: &Formula, more: &dyn Fn(usize) -> Option<i16>) -> Formula {
    let mut made = Formula::default();
    let mut at: Vec<usize> = Vec::with_capacity(formula.0.len());
    for term in &formula.0 {
        let number = made.push(term.renumbered(|k| at[k]));
        let more = if let Term::Input(input) = *term { more(input) } else { None };
        at.push(match more {
            Some(more) => {
                let more = made.push(Term::Scalar(Scalar::Whole(more.into())));
                made.push(Term::Binary(Binary::Sub, number, more))
            }
            None => number,
        });
    }
    made
}
