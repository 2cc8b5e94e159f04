//! GELU among the terms of a formula, however it is written: as a polynomial of `x` and of one
//! function of `x`.

use super::params::Code;
use reef_op::tensor::{Binary, Scalar, Term, Unary};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// Coefficients of powers of `x` up to the third.
type Powers = [f64; 4];

/// `Σ plain[i] xⁱ + f Σ with[i] xⁱ`, where `f` is a function of a polynomial of `x`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Polynomial {
    plain: Powers,
    with: Powers,
}

/// The function in a polynomial, and what it is of.
type Inner = Option<(Unary, Powers)>;

/// The first term behind `x` that is a GELU of it, and which one.
pub(super) fn gelu_from(terms: &[Term], x: usize) -> Option<(usize, Code)> {
    let mut made: Vec<Option<Polynomial>> = vec![None; terms.len()];
    let mut inner = None;
    for (k, term) in terms.iter().enumerate() {
        made[k] = match *term {
            _ if k == x => {
                Some(Polynomial { plain: [0.0, 1.0, 0.0, 0.0], ..Polynomial::default() })
            }
            other => polynomial(other, &made, &mut inner),
        };
        if let Some(code) = made[k].filter(|_| k > x).and_then(|made| code(&made, inner)) {
            return Some((k, code));
        }
    }
    None
}

/// `x / 2 + f x / 2`, with the error function of `x / √2`, or with tanh of
/// `√(2/π) (x + 0.044715 x³)`.
fn code(made: &Polynomial, inner: Inner) -> Option<Code> {
    let half = [0.0, 0.5, 0.0, 0.0];
    let (function, of) = inner?;
    let root = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    let (code, want) = match function {
        Unary::Erf => (Code::Gelu, [0.0, FRAC_1_SQRT_2, 0.0, 0.0]),
        _ => (Code::GeluByTanh, [0.0, root, 0.0, 0.044_715 * root]),
    };
    (is_near(&made.plain, &half) && is_near(&made.with, &half) && is_near(&of, &want))
        .then_some(code)
}

fn is_near(have: &Powers, want: &Powers) -> bool {
    have.iter().zip(want).all(|(have, want)| (have - want).abs() <= 1e-6 * want.abs())
}

/// The number that a term is.
pub(super) fn number(term: Term) -> Option<f64> {
    match term {
        Term::Scalar(Scalar::Real(number)) => Some(number),
        Term::Scalar(Scalar::Whole(number)) => Some(number as f64),
        _ => None,
    }
}

fn polynomial(term: Term, made: &[Option<Polynomial>], inner: &mut Inner) -> Option<Polynomial> {
    let constant = |number: f64| {
        let plain = [number, 0.0, 0.0, 0.0];
        Polynomial { plain, with: Powers::default() }
    };
    match term {
        Term::Scalar(_) => number(term).map(constant),
        Term::Binary(function, a, b) => binary(function, made[a]?, made[b]?),
        Term::Unary(function @ (Unary::Erf | Unary::Tanh), a) => {
            let of = made[a].filter(|of| of.with == Powers::default())?.plain;
            if inner.is_some_and(|known| known != (function, of)) {
                return None;
            }
            *inner = Some((function, of));
            let with = [1.0, 0.0, 0.0, 0.0];
            Some(Polynomial { plain: Powers::default(), with })
        }
        _ => None,
    }
}

fn binary(function: Binary, a: Polynomial, b: Polynomial) -> Option<Polynomial> {
    match function {
        Binary::Add => Some(sum(a, b, 1.0)),
        Binary::Sub => Some(sum(a, b, -1.0)),
        Binary::Mul => product(a, b),
        Binary::Div => Some(scaled(a, 1.0 / constant(&b)?)),
        Binary::Pow => match constant(&b)? {
            2.0 => product(a, a),
            3.0 => product(a, product(a, a)?),
            _ => None,
        },
        _ => None,
    }
}

/// The number that a polynomial is.
fn constant(of: &Polynomial) -> Option<f64> {
    let number = of.plain[0];
    (of.with == Powers::default() && of.plain == [number, 0.0, 0.0, 0.0]).then_some(number)
}

fn sum(a: Polynomial, b: Polynomial, sign: f64) -> Polynomial {
    let added = |a: Powers, b: Powers| std::array::from_fn(|k| a[k] + sign * b[k]);
    Polynomial { plain: added(a.plain, b.plain), with: added(a.with, b.with) }
}

fn scaled(a: Polynomial, by: f64) -> Polynomial {
    Polynomial { plain: a.plain.map(|x| x * by), with: a.with.map(|x| x * by) }
}

/// `None` if a power above the third, or a square of the function, comes of it.
fn product(a: Polynomial, b: Polynomial) -> Option<Polynomial> {
    let none = Powers::default();
    if a.with != none && b.with != none {
        return None;
    }
    let (one, other) = (times(a.plain, b.with)?, times(a.with, b.plain)?);
    let with = std::array::from_fn(|k| one[k] + other[k]);
    Some(Polynomial { plain: times(a.plain, b.plain)?, with })
}

fn times(a: Powers, b: Powers) -> Option<Powers> {
    let mut made = Powers::default();
    for (i, x) in a.iter().enumerate().filter(|(_, x)| **x != 0.0) {
        for (j, y) in b.iter().enumerate().filter(|(_, y)| **y != 0.0) {
            *made.get_mut(i + j)? += x * y;
        }
    }
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real(number: f64) -> Term {
        Term::Scalar(Scalar::Real(number))
    }

    #[test]
    fn gelu_is_found_as_torch_exports_it() {
        let terms = |root: f64| {
            [
                Term::Input(0),
                real(root),
                Term::Binary(Binary::Div, 0, 1),
                Term::Unary(Unary::Erf, 2),
                real(1.0),
                Term::Binary(Binary::Add, 3, 4),
                Term::Binary(Binary::Mul, 0, 5),
                real(0.5),
                Term::Binary(Binary::Mul, 6, 7),
            ]
        };
        assert_eq!(gelu_from(&terms(1.414_213_538_169_861), 0), Some((8, Code::Gelu)));
        assert_eq!(gelu_from(&terms(1.4), 0), None);
    }

    #[test]
    fn gelu_by_tanh_is_found_as_transformers_export_it() {
        let terms = |cubic: f64| {
            [
                Term::Input(0),
                real(3.0),
                Term::Binary(Binary::Pow, 0, 1),
                real(cubic),
                Term::Binary(Binary::Mul, 2, 3),
                Term::Binary(Binary::Add, 0, 4),
                real(0.797_884_583_473_205_6),
                Term::Binary(Binary::Mul, 5, 6),
                Term::Unary(Unary::Tanh, 7),
                real(1.0),
                Term::Binary(Binary::Add, 8, 9),
                real(0.5),
                Term::Binary(Binary::Mul, 0, 11),
                Term::Binary(Binary::Mul, 12, 10),
            ]
        };
        assert_eq!(gelu_from(&terms(0.044_715), 0), Some((13, Code::GeluByTanh)));
        assert_eq!(gelu_from(&terms(0.05), 0), None);
    }
}
