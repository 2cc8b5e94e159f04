//! Formulas of elements as images have them: a factor and a summand for each channel, or one of
//! the functions.

use crate::memory::budget::Exhausted;
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use crate::tensors::expressions::Writer;
use reef_op::Function;
use reef_op::tensor::{Binary, Formula, Scalar, Term};

/// Largest difference of a constant of a function: files have it rounded to 32 bits.
const ROUNDED: f64 = 1e-6;

/// One number for all channels, or one for each.
#[derive(Debug)]
pub(super) enum Numbers {
    All(f64),
    Each(List<f64>),
}

impl Numbers {
    fn at(&self, channel: usize) -> f64 {
        match self {
            Self::All(number) => *number,
            Self::Each(numbers) => numbers[channel],
        }
    }

    fn len(&self) -> Option<usize> {
        match self {
            Self::All(_) => None,
            Self::Each(numbers) => Some(numbers.len()),
        }
    }

    /// A function of both, channel by channel.
    fn with(
        &self,
        other: &Self,
        function: impl Fn(f64, f64) -> f64,
        ledger: &Ledger,
    ) -> Result<Self, Exhausted> {
        let Some(len) = self.len().or(other.len()) else {
            return Ok(Self::All(function(self.at(0), other.at(0))));
        };
        let each = (0..len).map(|channel| function(self.at(channel), other.at(channel)));
        Ok(Self::Each(List::of(len, each, ledger)?))
    }

    /// One for each channel.
    pub(super) fn spread(self, channels: usize, ledger: &Ledger) -> Result<List<f64>, Exhausted> {
        match self {
            Self::All(number) => List::filled(number, channels, ledger),
            Self::Each(numbers) => Ok(numbers),
        }
    }
}

/// A term of a formula of one input and constants.
enum Operand {
    Numbers(Numbers),
    /// The input, times the first, plus the second.
    Linear(Numbers, Numbers),
}

/// A factor and a summand for each channel, if that is what a formula makes of its input number
/// `input`; others are `constants`, each asked for once.
pub(super) fn linear(
    formula: &Formula,
    input: usize,
    mut constant: impl FnMut(usize) -> Result<Numbers, String>,
    ledger: &Ledger,
) -> Result<Option<[Numbers; 2]>, String> {
    let mut terms: Vec<Operand> = Vec::with_capacity(formula.0.len());
    for term in &formula.0 {
        let known = match *term {
            Term::Input(k) if k == input => Operand::Linear(Numbers::All(1.0), Numbers::All(0.0)),
            Term::Input(k) => Operand::Numbers(constant(k)?),
            Term::Scalar(scalar) => Operand::Numbers(Numbers::All(real(scalar))),
            Term::Binary(function, a, b) => match binary(function, &terms[a], &terms[b], ledger)? {
                Some(known) => known,
                None => return Ok(None),
            },
            Term::Unary(..) | Term::Select(..) => return Ok(None),
        };
        terms.push(known);
    }
    Ok(match terms.pop() {
        Some(Operand::Linear(scale, shift)) => Some([scale, shift]),
        _ => None,
    })
}

fn real(scalar: Scalar) -> f64 {
    match scalar {
        Scalar::Real(number) => number,
        Scalar::Whole(number) => number as f64,
    }
}

fn binary(
    function: Binary,
    a: &Operand,
    b: &Operand,
    ledger: &Ledger,
) -> Result<Option<Operand>, Exhausted> {
    use Operand::{Linear, Numbers as Fixed};
    let sum = |a: f64, b: f64| a + b;
    let difference = |a: f64, b: f64| a - b;
    let product = |a: f64, b: f64| a * b;
    let quotient = |a: f64, b: f64| a / b;
    let copy = |numbers: &Numbers| numbers.with(&Numbers::All(0.0), |number, _| number, ledger);
    let negative = |numbers: &Numbers| Numbers::All(0.0).with(numbers, difference, ledger);
    Ok(Some(match (function, a, b) {
        (Binary::Add, Fixed(a), Fixed(b)) => Fixed(a.with(b, sum, ledger)?),
        (Binary::Sub, Fixed(a), Fixed(b)) => Fixed(a.with(b, difference, ledger)?),
        (Binary::Mul, Fixed(a), Fixed(b)) => Fixed(a.with(b, product, ledger)?),
        (Binary::Div, Fixed(a), Fixed(b)) => Fixed(a.with(b, quotient, ledger)?),
        (Binary::Add, Linear(scale, shift), Fixed(by)) => {
            Linear(copy(scale)?, shift.with(by, sum, ledger)?)
        }
        (Binary::Add, Fixed(by), Linear(scale, shift)) => {
            Linear(copy(scale)?, by.with(shift, sum, ledger)?)
        }
        (Binary::Sub, Linear(scale, shift), Fixed(by)) => {
            Linear(copy(scale)?, shift.with(by, difference, ledger)?)
        }
        (Binary::Sub, Fixed(by), Linear(scale, shift)) => {
            Linear(negative(scale)?, by.with(shift, difference, ledger)?)
        }
        (Binary::Mul, Linear(scale, shift), Fixed(by))
        | (Binary::Mul, Fixed(by), Linear(scale, shift)) => {
            Linear(scale.with(by, product, ledger)?, times(shift, by, product, ledger)?)
        }
        (Binary::Div, Linear(scale, shift), Fixed(by)) => {
            Linear(scale.with(by, quotient, ledger)?, times(shift, by, quotient, ledger)?)
        }
        _ => return Ok(None),
    }))
}

/// A summand times a factor, or divided by one. Without a summand there is none, whatever the
/// factor is.
fn times(
    shift: &Numbers,
    by: &Numbers,
    function: impl Fn(f64, f64) -> f64,
    ledger: &Ledger,
) -> Result<Numbers, Exhausted> {
    match shift {
        Numbers::All(0.0) => Ok(Numbers::All(0.0)),
        shift => shift.with(by, function, ledger),
    }
}

/// A bound on one side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    Low(f64),
    High(f64),
}

/// The bound that a formula of one input puts to it.
pub(super) fn bound(formula: &Formula) -> Option<Bound> {
    let [Term::Input(0), Term::Scalar(scalar), Term::Binary(function, 0, 1)] = formula.0[..] else {
        return None;
    };
    match function {
        Binary::Max => Some(Bound::Low(real(scalar))),
        Binary::Min => Some(Bound::High(real(scalar))),
        _ => None,
    }
}

/// The function of one input that a formula is.
pub(super) fn function(formula: &Formula) -> Option<Function> {
    let mut writer = Writer::default();
    let x = writer.input(0);
    let function = match formula.0.len() {
        6 => {
            writer.sigmoid(x);
            Function::Sigmoid
        }
        9 => {
            writer.hard_sigmoid(x, 1.0 / 6.0, 0.5);
            Function::HardSigmoid
        }
        10 => {
            writer.hard_swish(x);
            Function::HardSwish
        }
        _ => return None,
    };
    let wanted = writer.into_formula();
    let is_same = wanted.0.len() == formula.0.len();
    let mut pairs = wanted.0.iter().zip(&formula.0);
    (is_same && pairs.all(|(a, b)| is_close(a, b))).then_some(function)
}

/// Returns whether terms are the same, but for the rounding of a constant to 32 bits.
fn is_close(a: &Term, b: &Term) -> bool {
    match (a, b) {
        (Term::Scalar(Scalar::Real(a)), Term::Scalar(Scalar::Real(b))) => (a - b).abs() <= ROUNDED,
        (a, b) => a == b,
    }
}

/// Returns whether a formula is this function of its two inputs.
pub(super) fn is_of_two(formula: &Formula, function: Binary) -> bool {
    formula.0 == [Term::Input(0), Term::Input(1), Term::Binary(function, 0, 1)]
}

/// Divisor of a formula that divides its first input: a number, or `None` for the second input.
pub(super) fn divisor(formula: &Formula) -> Option<Option<f64>> {
    match formula.0[..] {
        [Term::Input(0), Term::Input(1), Term::Binary(Binary::Div, 0, 1)] => Some(None),
        [Term::Input(0), Term::Scalar(by), Term::Binary(Binary::Div, 0, 1)] => Some(Some(real(by))),
        _ => None,
    }
}
