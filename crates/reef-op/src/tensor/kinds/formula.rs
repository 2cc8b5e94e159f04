//! Formulas of elements: terms, each of which may use those before it.

use crate::tensor::number::Number;

/// A function of one number. Those of ONNX, by its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Unary {
    Abs,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Ceil,
    Cos,
    Cosh,
    Erf,
    Exp,
    Floor,
    /// 1 if it is infinite.
    IsInf,
    IsNan,
    Log,
    Neg,
    /// 1 for 0, and 0 for everything else.
    Not,
    /// Each bit.
    Complement,
    /// To the nearest, ties to even.
    Round,
    Sign,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
    /// Without its fraction.
    Trunc,
    /// As a single holds it.
    Single,
}

/// A function of two numbers. Comparisons give 1 or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// Integers divided by 0 are 0.
    Div,
    /// Remainder of a division, with the sign of the divisor.
    Mod,
    /// Remainder of a division, with the sign of the dividend.
    Rem,
    Pow,
    /// Keeps NaN, as [`Max`](Self::Max) does.
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
}

/// A number of a formula, as a float and as an integer.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Scalar {
    /// In operations on integers its fraction is dropped.
    Real(f64),
    /// In operations on floats the nearest one.
    Whole(i64),
}

impl Scalar {
    pub(crate) fn number<T: Number>(self) -> T {
        match self {
            Self::Real(number) => T::of_f64(number),
            Self::Whole(number) => T::of_i64(number),
        }
    }
}

/// A step of a formula. Operands are numbers of earlier terms.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Term {
    /// An element of the input of this number.
    Input(usize),
    Scalar(Scalar),
    Unary(Unary, usize),
    Binary(Binary, usize, usize),
    /// The second if the first isn't 0, and else the third.
    Select(usize, usize, usize),
}

impl Term {
    /// Returns the term with its operands renumbered: `at` gives the new number of each.
    #[must_use]
    pub fn renumbered(self, at: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::Input(_) | Self::Scalar(_) => self,
            Self::Unary(function, a) => Self::Unary(function, at(a)),
            Self::Binary(function, a, b) => Self::Binary(function, at(a), at(b)),
            Self::Select(which, a, b) => Self::Select(at(which), at(a), at(b)),
        }
    }
}

/// Terms; the last one is the result.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Formula(pub Vec<Term>);

impl Formula {
    /// Returns whether each term uses only terms before it, and inputs below `inputs`.
    pub(crate) fn is_sound(&self, inputs: usize) -> bool {
        let sound = |(k, term): (usize, &Term)| match *term {
            Term::Input(input) => input < inputs,
            Term::Scalar(_) => true,
            Term::Unary(_, a) => a < k,
            Term::Binary(_, a, b) => a.max(b) < k,
            Term::Select(a, b, c) => a.max(b).max(c) < k,
        };
        !self.0.is_empty() && self.0.iter().enumerate().all(sound)
    }

    /// Appends a term and returns its number.
    pub fn push(&mut self, term: Term) -> usize {
        self.0.push(term);
        self.0.len() - 1
    }
}

impl Unary {
    /// Replaces each of `numbers`.
    pub(crate) fn apply<T: Number>(self, numbers: &mut [T]) {
        let truth = |is: bool| T::of_i64(is.into());
        match self {
            Self::Abs => each(numbers, |x| {
                if x < T::default() { T::default().sub(x) } else { x.add(T::default()) }
            }),
            Self::Neg => each(numbers, |x| x.mul(T::of_i64(-1))),
            Self::Not => each(numbers, |x| truth(x == T::default())),
            Self::Complement => each(numbers, |x| T::of_bits(!x.bits())),
            Self::IsNan => each(numbers, |x| truth(x.is_nan())),
            Self::IsInf => each(numbers, |x| truth(x.to_f64().is_infinite())),
            Self::Sign => each(numbers, |x| sign(x)),
            Self::Sqrt => each(numbers, |x| T::of_f64(x.to_f64().sqrt())),
            _ => each(numbers, |x| T::of_f64(self.of(x.to_f64()))),
        }
    }

    /// Returns the function of `x`, computed in doubles, whatever the domain.
    fn of(self, x: f64) -> f64 {
        match self {
            Self::Acos => x.acos(),
            Self::Acosh => x.acosh(),
            Self::Asin => x.asin(),
            Self::Asinh => x.asinh(),
            Self::Atan => x.atan(),
            Self::Atanh => x.atanh(),
            Self::Ceil => x.ceil(),
            Self::Cos => x.cos(),
            Self::Cosh => x.cosh(),
            Self::Erf => libm::erf(x),
            Self::Exp => x.exp(),
            Self::Floor => x.floor(),
            Self::Log => x.ln(),
            Self::Round => x.round_ties_even(),
            Self::Sin => x.sin(),
            Self::Sinh => x.sinh(),
            Self::Tan => x.tan(),
            Self::Tanh => x.tanh(),
            Self::Trunc => x.trunc(),
            Self::Single => f64::from(x as f32),
            _ => x,
        }
    }
}

fn each<T: Number>(numbers: &mut [T], function: impl Fn(T) -> T) {
    numbers.iter_mut().for_each(|number| *number = function(*number));
}

fn sign<T: Number>(x: T) -> T {
    let zero = T::default();
    match x {
        _ if x > zero => T::of_i64(1),
        _ if x < zero => T::of_i64(-1),
        _ => x,
    }
}

impl Binary {
    /// Replaces each of `a` by the function of it and of `b`.
    pub(crate) fn apply<T: Number>(self, a: &mut [T], b: &[T]) {
        let truth = |is: bool| T::of_i64(is.into());
        let bits = |function: fn(u64, u64) -> u64| {
            move |x: T, y: T| T::of_bits(function(x.bits(), y.bits()))
        };
        match self {
            Self::Add => combine(a, b, T::add),
            Self::Sub => combine(a, b, T::sub),
            Self::Mul => combine(a, b, T::mul),
            Self::Div => combine(a, b, T::div),
            Self::Rem => combine(a, b, T::rem),
            Self::Mod => combine(a, b, modulo),
            Self::Pow => combine(a, b, T::pow),
            Self::Min => combine(a, b, smaller),
            Self::Max => combine(a, b, larger),
            Self::Less => combine(a, b, |x, y| truth(x < y)),
            Self::LessOrEqual => combine(a, b, |x, y| truth(x <= y)),
            Self::Equal => combine(a, b, |x, y| truth(x == y)),
            Self::BitAnd => combine(a, b, bits(|x, y| x & y)),
            Self::BitOr => combine(a, b, bits(|x, y| x | y)),
            Self::BitXor => combine(a, b, bits(|x, y| x ^ y)),
            Self::ShiftLeft => combine(a, b, bits(|x, y| x.checked_shl(y as u32).unwrap_or(0))),
            Self::ShiftRight => combine(a, b, bits(|x, y| x.checked_shr(y as u32).unwrap_or(0))),
        }
    }
}

fn combine<T: Number>(a: &mut [T], b: &[T], function: impl Fn(T, T) -> T) {
    a.iter_mut().zip(b).for_each(|(a, &b)| *a = function(*a, b));
}

/// Remainder of a division, with the sign of the divisor.
fn modulo<T: Number>(x: T, y: T) -> T {
    let (left, zero) = (x.rem(y), T::default());
    let other_sign = left != zero && (left < zero) != (y < zero);
    if other_sign { left.add(y) } else { left }
}

pub(crate) fn smaller<T: Number>(x: T, y: T) -> T {
    if y < x || y.is_nan() { y } else { x }
}

pub(crate) fn larger<T: Number>(x: T, y: T) -> T {
    if y > x || y.is_nan() { y } else { x }
}
