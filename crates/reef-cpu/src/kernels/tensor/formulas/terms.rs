//! Terms of formulas of singles, by vectors.

use super::access_pattern::Operand;
#[cfg(target_arch = "x86_64")]
use super::vectors;
use crate::kernels::values::functions::{erf, exp, tanh};
use crate::kernels::values::simd::widest;
use reef_op::tensor::{Binary, Scalar, Term, Unary};

/// Cost of a term for one output, in single instructions; `None` if it has no vectors.
pub(super) fn cost(term: &Term) -> Option<usize> {
    use Binary::{Add, Div, Equal, Less, LessOrEqual, Max, Min, Mul, Sub};
    match term {
        Term::Input(_) => Some(2),
        Term::Scalar(_) => Some(0),
        Term::Unary(Unary::Abs | Unary::Neg | Unary::Not, _) | Term::Select(..) => Some(1),
        Term::Unary(Unary::Sqrt, _) | Term::Binary(Div, ..) => Some(4),
        Term::Unary(Unary::Exp, _) => Some(10),
        Term::Unary(Unary::Tanh | Unary::Erf, _) => Some(20),
        Term::Binary(Add | Sub | Mul | Min | Max | Less | LessOrEqual | Equal, ..) => Some(1),
        _ => None,
    }
}

/// Computes `term`, which is not an input, of operands that are as long as `to`. Returns the value
/// that all outputs have, if they have one; else they are in `to`.
pub(super) fn evaluate<'a>(
    term: Term,
    of: impl Fn(usize) -> Operand<'a>,
    to: &mut [f32],
) -> Option<f32> {
    match term {
        Term::Scalar(scalar) => Some(single(scalar)),
        Term::Unary(function, a) => unary(function, of(a), to),
        Term::Binary(function, a, b) => binary(function, [of(a), of(b)], to),
        Term::Select(which, a, b) => select(of(which), [of(a), of(b)], to),
        Term::Input(_) => unreachable!("inputs are loaded"),
    }
}

/// `x / 2 * (1 + erf(x / √2))`, as [`evaluate`].
pub(super) fn gelu(x: Operand<'_>, to: &mut [f32]) -> Option<f32> {
    #[cfg(target_arch = "x86_64")]
    if let Operand::Each(x) = x
        && is_x86_feature_detected!("avx512f")
    {
        // SAFETY: the machine has AVX-512.
        unsafe { vectors::gelu(x, to) };
        return None;
    }
    each(x, to, |x| 0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2)))
}

fn single(scalar: Scalar) -> f32 {
    match scalar {
        Scalar::Real(number) => number as f32,
        Scalar::Whole(number) => number as f32,
    }
}

fn unary(function: Unary, x: Operand<'_>, to: &mut [f32]) -> Option<f32> {
    #[cfg(target_arch = "x86_64")]
    if let Operand::Each(x) = x
        && is_x86_feature_detected!("avx512f")
        // SAFETY: the machine has AVX-512.
        && unsafe { vectors::unary(function, x, to) }
    {
        return None;
    }
    match function {
        Unary::Abs => each(x, to, f32::abs),
        Unary::Neg => each(x, to, |x| -x),
        Unary::Not => each(x, to, |x| truth(x == 0.0)),
        Unary::Sqrt => each(x, to, f32::sqrt),
        Unary::Exp => each(x, to, exp),
        Unary::Tanh => each(x, to, tanh),
        Unary::Erf => each(x, to, erf),
        other => unreachable!("{other:?} has no vectors"),
    }
}

fn binary(function: Binary, of: [Operand<'_>; 2], to: &mut [f32]) -> Option<f32> {
    #[cfg(target_arch = "x86_64")]
    if !matches!(of, [Operand::All(_), Operand::All(_)])
        && is_x86_feature_detected!("avx512f")
        // SAFETY: the machine has AVX-512.
        && unsafe { vectors::binary(function, of, to) }
    {
        return None;
    }
    match function {
        Binary::Add => each_pair(of, to, |x, y| x + y),
        Binary::Sub => each_pair(of, to, |x, y| x - y),
        Binary::Mul => each_pair(of, to, |x, y| x * y),
        Binary::Div => each_pair(of, to, |x, y| x / y),
        Binary::Min => each_pair(of, to, |x, y| if y < x || y.is_nan() { y } else { x }),
        Binary::Max => each_pair(of, to, |x, y| if y > x || y.is_nan() { y } else { x }),
        Binary::Less => each_pair(of, to, |x, y| truth(x < y)),
        Binary::LessOrEqual => each_pair(of, to, |x, y| truth(x <= y)),
        Binary::Equal => each_pair(of, to, |x, y| truth(x == y)),
        other => unreachable!("{other:?} has no vectors"),
    }
}

#[inline(always)]
fn truth(is: bool) -> f32 {
    if is { 1.0 } else { 0.0 }
}

fn each(x: Operand<'_>, to: &mut [f32], function: impl Fn(f32) -> f32) -> Option<f32> {
    let x = match x {
        Operand::All(x) => return Some(function(x)),
        Operand::Each(x) => x,
    };
    widest(
        #[inline(always)]
        || {
            for (to, &x) in to.iter_mut().zip(x) {
                *to = function(x);
            }
        },
    );
    None
}

fn each_pair(
    of: [Operand<'_>; 2],
    to: &mut [f32],
    function: impl Fn(f32, f32) -> f32,
) -> Option<f32> {
    use Operand::{All, Each};
    if let [All(x), All(y)] = of {
        return Some(function(x, y));
    }
    widest(
        #[inline(always)]
        || match of {
            [Each(x), Each(y)] => {
                for ((to, &x), &y) in to.iter_mut().zip(x).zip(y) {
                    *to = function(x, y);
                }
            }
            [Each(x), All(y)] => {
                for (to, &x) in to.iter_mut().zip(x) {
                    *to = function(x, y);
                }
            }
            [All(x), Each(y)] => {
                for (to, &y) in to.iter_mut().zip(y) {
                    *to = function(x, y);
                }
            }
            [All(_), All(_)] => {}
        },
    );
    None
}

fn select(which: Operand<'_>, [a, b]: [Operand<'_>; 2], to: &mut [f32]) -> Option<f32> {
    let which = match which {
        Operand::Each(which) => which,
        Operand::All(which) => {
            let chosen = if which != 0.0 { a } else { b };
            return each(chosen, to, |x| x);
        }
    };
    match b {
        Operand::Each(b) => to.copy_from_slice(b),
        Operand::All(b) => to.fill(b),
    }
    widest(
        #[inline(always)]
        || match a {
            Operand::Each(a) => {
                for ((to, &which), &a) in to.iter_mut().zip(which).zip(a) {
                    *to = if which != 0.0 { a } else { *to };
                }
            }
            Operand::All(a) => {
                for (to, &which) in to.iter_mut().zip(which) {
                    *to = if which != 0.0 { a } else { *to };
                }
            }
        },
    );
    None
}
