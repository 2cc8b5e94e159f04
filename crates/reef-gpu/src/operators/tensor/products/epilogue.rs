//! Epilogue of a sum, as steps of its kernel: each takes the value that the one before made, and an
//! operand or a number.

use super::gelu::{gelu_from, number};
use super::params::{AFTERS, AfterParams, Code};
use super::tiled::Product;
use reef_op::tensor::{Binary, Element, Formula, TensorOp, Term, View};

/// One step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EpilogueStep {
    pub(super) code: Code,
    /// The operation's input with the operand, and how far it is from row to row and from column to
    /// column.
    pub(super) operand: Option<(usize, [u32; 2])>,
    pub(super) number: f32,
}

impl EpilogueStep {
    /// `address` says where an input begins.
    pub(super) fn params(&self, address: impl FnOnce(usize) -> u64) -> AfterParams {
        let (operand, [row_step, column_step]) =
            self.operand.map_or((0, [0; 2]), |(input, steps)| (address(input), steps));
        AfterParams { operand, code: self.code as u32, row_step, column_step, number: self.number }
    }

    fn by_number(code: Code, number: f64) -> Self {
        Self { code, operand: None, number: number as f32 }
    }
}

/// The formula of `op` behind the sums of `product` as steps; `None` if it isn't a chain of what
/// there are steps for.
pub(super) fn steps(
    product: &Product,
    op: &TensorOp,
    formula: &Formula,
) -> Option<Vec<EpilogueStep>> {
    let steps_of = |input: usize| {
        let spec = op.inputs.get(input).filter(|spec| spec.element == Element::F32)?;
        product.steps(&View::broadcast(&spec.dims, &op.output.dims)?)
    };
    chain(&formula.0, &steps_of)
}

/// The steps of a chain of terms from the sum to the last.
fn chain(
    terms: &[Term],
    steps_of: &dyn Fn(usize) -> Option<[u32; 2]>,
) -> Option<Vec<EpilogueStep>> {
    let mut at = terms.iter().position(|term| *term == Term::Input(0))?;
    let again = |term: &Term| *term == Term::Input(0);
    let mut steps = Vec::new();
    if terms.iter().filter(|term| again(term)).count() > 1 {
        return None;
    }
    while at + 1 < terms.len() {
        let (step, to) = step(terms, at, steps_of).or_else(|| {
            let (to, code) = gelu_from(terms, at)?;
            Some((EpilogueStep::by_number(code, 0.0), to))
        })?;
        steps.push(step);
        at = to;
    }
    (steps.len() <= AFTERS).then_some(steps)
}

/// The step of the only term that reads term `at`, and the index of that term.
fn step(
    terms: &[Term],
    at: usize,
    steps_of: &dyn Fn(usize) -> Option<[u32; 2]>,
) -> Option<(EpilogueStep, usize)> {
    let mut readers = terms.iter().enumerate().filter(|(_, term)| reads(term, at));
    let ((to, term), None) = (readers.next()?, readers.next()) else { return None };
    let Term::Binary(function, a, b) = *term else { return None };
    let other = if a == at { b } else { a };
    let (first, number) = (a == at, number(terms[other]));
    let by_number = |code, number| Some((EpilogueStep::by_number(code, number), to));
    let by_operand = |code| match terms[other] {
        // Input 0 is the sum itself, which took the place of two inputs.
        Term::Input(input) if input > 0 && other != at => {
            let operand = Some((input + 1, steps_of(input + 1)?));
            Some((EpilogueStep { code, operand, number: 0.0 }, to))
        }
        _ => None,
    };
    match (function, number) {
        (Binary::Add, Some(number)) => by_number(Code::AddNumber, number),
        (Binary::Sub, Some(number)) if first => by_number(Code::AddNumber, -number),
        (Binary::Mul, Some(number)) => by_number(Code::MulNumber, number),
        (Binary::Div, Some(number)) if first => by_number(Code::MulNumber, 1.0 / number),
        (Binary::Max, Some(number)) => by_number(Code::AtLeast, number),
        (Binary::Min, Some(number)) => by_number(Code::AtMost, number),
        (Binary::Add, None) => by_operand(Code::AddOperand),
        (Binary::Mul, None) => by_operand(Code::MulOperand),
        _ => None,
    }
}

/// Returns whether a term reads term `at`.
fn reads(term: &Term, at: usize) -> bool {
    match *term {
        Term::Input(_) | Term::Scalar(_) => false,
        Term::Unary(_, a) => a == at,
        Term::Binary(_, a, b) => [a, b].contains(&at),
        Term::Select(a, b, c) => [a, b, c].contains(&at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::tensor::{Scalar, Unary};

    fn of(terms: &[Term]) -> Option<Vec<EpilogueStep>> {
        chain(terms, &|input| Some([input as u32, 1]))
    }

    fn real(number: f64) -> Term {
        Term::Scalar(Scalar::Real(number))
    }

    #[test]
    fn a_layer_is_a_chain() {
        let gelu = [
            Term::Input(0),
            Term::Input(1),
            Term::Binary(Binary::Add, 0, 1),
            real(std::f64::consts::FRAC_1_SQRT_2),
            Term::Binary(Binary::Mul, 2, 3),
            Term::Unary(Unary::Erf, 4),
            real(1.0),
            real(0.5),
            Term::Binary(Binary::Add, 6, 5),
            Term::Binary(Binary::Mul, 2, 8),
            Term::Binary(Binary::Mul, 7, 9),
        ];
        let bias = EpilogueStep { code: Code::AddOperand, operand: Some((2, [2, 1])), number: 0.0 };
        let made = of(&gelu).unwrap();
        assert_eq!(made, [bias, EpilogueStep::by_number(Code::Gelu, 0.0)]);
        let residual = [&gelu[..], &[Term::Input(2), Term::Binary(Binary::Add, 11, 10)]].concat();
        assert_eq!(of(&residual).unwrap().len(), 3);
    }

    #[test]
    fn formula_that_is_not_a_chain_has_no_steps() {
        let square = [Term::Input(0), Term::Binary(Binary::Mul, 0, 0)];
        let other = [Term::Input(0), Term::Input(1), Term::Binary(Binary::Sub, 1, 0)];
        let over = [Term::Input(0), real(2.0), Term::Binary(Binary::Div, 1, 0)];
        let unread = [Term::Input(0), Term::Input(1)];
        let twice = [Term::Input(0), Term::Input(0), Term::Binary(Binary::Add, 0, 1)];
        let long = (0..5).fold(vec![Term::Input(0)], |mut terms, _| {
            terms.push(real(2.0));
            let n = terms.len();
            let last = if n == 2 { 0 } else { n - 2 };
            terms.push(Term::Binary(Binary::Mul, last, n - 1));
            terms
        });
        for terms in [&square[..], &other, &over, &unread, &twice, &long] {
            assert_eq!(of(terms), None, "{terms:?}");
        }
    }

    /// A step after GELU may read an input, but not the sum that GELU was made of: there are two of
    /// it then.
    #[test]
    fn a_sum_that_is_read_again_is_no_operand() {
        let gelu = [
            Term::Input(0),
            real(std::f64::consts::FRAC_1_SQRT_2),
            Term::Binary(Binary::Mul, 0, 1),
            Term::Unary(Unary::Erf, 2),
            real(1.0),
            Term::Binary(Binary::Add, 3, 4),
            Term::Binary(Binary::Mul, 0, 5),
            real(0.5),
            Term::Binary(Binary::Mul, 6, 7),
        ];
        assert!(of(&gelu).is_some());
        for function in [Binary::Add, Binary::Mul] {
            assert_eq!(of(&[&gelu[..], &[Term::Binary(function, 8, 0)]].concat()), None);
        }
    }

    #[test]
    fn bounds_and_factors_are_steps() {
        let terms = [
            Term::Input(0),
            real(8.0),
            Term::Binary(Binary::Div, 0, 1),
            Term::Scalar(Scalar::Whole(0)),
            Term::Binary(Binary::Max, 3, 2),
        ];
        let want = [
            EpilogueStep::by_number(Code::MulNumber, 0.125),
            EpilogueStep::by_number(Code::AtLeast, 0.0),
        ];
        assert_eq!(of(&terms).unwrap(), want);
    }
}
