//! Each function of formulas, in each domain, of many numbers.

use super::bench::{Case, agrees};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reef::op::Operators;
use reef::tensor::{Array, Binary, Element, Formula, Kind, Map, Spec, TensorOp, Term, Unary};
use std::sync::Arc;

const UNARY: [Unary; 28] = {
    use Unary::*;
    [
        Abs, Acos, Acosh, Asin, Asinh, Atan, Atanh, Ceil, Cos, Cosh, Erf, Exp, Floor, IsInf, IsNan,
        Log, Neg, Not, Complement, Round, Sign, Sin, Sinh, Sqrt, Tan, Tanh, Trunc, Single,
    ]
};
const BINARY: [Binary; 17] = {
    use Binary::*;
    [
        Add,
        Sub,
        Mul,
        Div,
        Mod,
        Rem,
        Pow,
        Min,
        Max,
        Less,
        LessOrEqual,
        Equal,
        BitAnd,
        BitOr,
        BitXor,
        ShiftLeft,
        ShiftRight,
    ]
};
/// Functions that GPUs compute for floats alone.
const OF_FLOATS: [Unary; 15] = {
    use Unary::*;
    [Acos, Acosh, Asin, Asinh, Atan, Atanh, Cos, Cosh, Erf, Exp, Log, Sin, Sinh, Tan, Tanh]
};
const NUMBERS: usize = 600;

/// A map of `arity` inputs.
fn case(element: Element, terms: Vec<Term>, inputs: Vec<Array>, tolerance: f64) -> Case {
    let spec = Spec { element, dims: vec![NUMBERS] };
    let kind = Kind::Map(Map { formula: Formula(terms), domain: element.domain() });
    let op = TensorOp { kind, inputs: vec![spec.clone(); inputs.len()], output: spec };
    Case { op: Arc::new(op), inputs, tolerance }
}

/// Numbers of all magnitudes, and those where functions are something else.
fn numbers(element: Element, rng: &mut ChaCha8Rng) -> Array {
    let special =
        [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.0, -3.0, 64.0, 1e-310, 1e300, 1e-20, 7.5, -0.25];
    let none = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let number = |_| match rng.random_range(0..8) {
        0 => special[rng.random_range(0..special.len())],
        1 if element.is_float() => none[rng.random_range(0..3)],
        2 | 3 => rng.random_range(-1.0..1.0),
        4 => rng.random_range(-1000..1000).into(),
        _ => f64::exp(rng.random_range(-9.0..6.0)) * f64::from(rng.random_range(0..2) * 2 - 1),
    };
    let numbers: Vec<f64> = (0..NUMBERS).map(number).collect();
    if element.is_float() {
        return Array::from_f64(element, numbers);
    }
    Array::from_i64(element, numbers.into_iter().map(|x| (x * 3.0) as i64))
}

/// Returns the numbers within `limit`: of larger ones, sines are of some angle.
fn within(limit: f64, numbers: &Array) -> Array {
    let near = |x: f64| if x.abs() > limit && x.is_finite() { limit } else { x };
    Array::from_f64(numbers.element(), numbers.values().to_f64().into_iter().map(near))
}

/// Doubles may be off by some units of their last place, and singles by `singles`.
fn tolerance(element: Element, function: impl PartialEq<Binary>, singles: f64) -> f64 {
    match element {
        Element::F64 if function == Binary::Pow => 5e-13,
        Element::F64 => 2e-15,
        _ => singles,
    }
}

struct NoPower;

impl PartialEq<Binary> for NoPower {
    fn eq(&self, _: &Binary) -> bool {
        false
    }
}

pub(crate) fn functions_agree<D: Operators>(device: &D, singles: f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for element in [Element::F32, Element::F64, Element::I64, Element::U64] {
        for function in UNARY {
            if !element.is_float() && OF_FLOATS.contains(&function) {
                continue;
            }
            let terms = vec![Term::Input(0), Term::Unary(function, 0)];
            let turns = matches!(function, Unary::Sin | Unary::Cos | Unary::Tan);
            let any = numbers(element, &mut rng);
            let inputs = vec![if turns { within(1e15, &any) } else { any }];
            agrees(
                device,
                &case(element, terms, inputs, tolerance(element, NoPower, singles)),
                None,
            );
        }
        for function in BINARY {
            let terms = vec![Term::Input(0), Term::Input(1), Term::Binary(function, 0, 1)];
            let inputs = vec![numbers(element, &mut rng), numbers(element, &mut rng)];
            agrees(
                device,
                &case(element, terms, inputs, tolerance(element, function, singles)),
                None,
            );
        }
    }
}
