//! Formulas of single numbers that are known: those become terms, and small powers products.

use super::value::Value;
use reef_op::tensor::{Array, Binary, Formula, Kind, Map, Scalar, Term};

/// Makes known single numbers part of the formula, and returns the inputs that are left. All stay
/// if all are known: then the result is.
pub(super) fn with_scalars<'a>(kind: Kind, inputs: &[&'a Value]) -> (Kind, Vec<&'a Value>) {
    let Kind::Map(map) = kind else { return (kind, inputs.to_vec()) };
    let known = inputs.iter().filter(|value| value.known_values().is_some()).count();
    if known == inputs.len() || known == 0 && is_written(&map.formula, inputs.len()) {
        return (Kind::Map(map), inputs.to_vec());
    }
    let mut written = Written { formula: Formula::default(), left: Vec::new() };
    let mut at: Vec<usize> = Vec::with_capacity(map.formula.0.len());
    for term in &map.formula.0 {
        let number = match *term {
            Term::Input(input) => written.input(inputs[input]),
            other => written.term(other.renumbered(|k| at[k])),
        };
        at.push(number);
    }
    (Kind::Map(Map { formula: written.formula, domain: map.domain }), written.left)
}

/// Returns whether a formula of this many unknown inputs is what [`Written`] makes of it.
fn is_written(formula: &Formula, inputs: usize) -> bool {
    let input = |term: &Term| if let Term::Input(input) = term { Some(*input) } else { None };
    let is_power = |term: &Term| matches!(term, Term::Binary(Binary::Pow, ..));
    formula.0.iter().filter_map(input).eq(0..inputs) && !formula.0.iter().any(is_power)
}

struct Written<'a> {
    formula: Formula,
    /// Inputs that are none of the terms.
    left: Vec<&'a Value>,
}

impl<'a> Written<'a> {
    fn input(&mut self, value: &'a Value) -> usize {
        let single = value.known_values().and_then(|known| scalar(&known.array));
        self.formula.push(match single {
            Some(scalar) => Term::Scalar(scalar),
            None => {
                self.left.push(value);
                Term::Input(self.left.len() - 1)
            }
        })
    }

    fn term(&mut self, term: Term) -> usize {
        let Term::Binary(Binary::Pow, x, power) = term else { return self.formula.push(term) };
        let power = match self.formula.0[power] {
            Term::Scalar(Scalar::Real(2.0) | Scalar::Whole(2)) => 2,
            Term::Scalar(Scalar::Real(3.0) | Scalar::Whole(3)) => 3,
            _ => return self.formula.push(term),
        };
        let square = self.formula.push(Term::Binary(Binary::Mul, x, x));
        match power {
            2 => square,
            _ => self.formula.push(Term::Binary(Binary::Mul, square, x)),
        }
    }
}

/// The only number of an array, if no formula rounds it.
fn scalar(array: &Array) -> Option<Scalar> {
    if array.len() != 1 {
        return None;
    }
    Some(match array {
        Array::F32(x) => Scalar::Real(x[0].into()),
        Array::F64(x) => Scalar::Real(x[0]),
        Array::I64(x) => Scalar::Whole(x[0]),
        Array::I32(x) => Scalar::Whole(x[0].into()),
        _ => return None,
    })
}
