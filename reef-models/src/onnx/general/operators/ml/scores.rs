//! Scores of classes: what is made of them at last, and the label of the best.

use super::forest::{lookup, numbers_of};
use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::tensors::builder::Builder;
use crate::tensors::expressions::Writer;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Domain, Element, FoldKind, Unary};

/// Last step of scores (`post_transform`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transform {
    None,
    Softmax,
    /// A score of 0 stays 0.
    SoftmaxZero,
    Logistic,
    Probit,
}

impl Transform {
    pub(super) fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "NONE" => Self::None,
            "SOFTMAX" => Self::Softmax,
            "SOFTMAX_ZERO" => Self::SoftmaxZero,
            "LOGISTIC" => Self::Logistic,
            "PROBIT" => Self::Probit,
            other => return Err(format!("attribute post_transform = {other:?}")),
        })
    }

    pub(super) fn of(call: &Call<'_>) -> Result<Self> {
        Self::named(call.text("post_transform", "NONE")?)
    }

    /// Of scores `[rows, targets]`. Of a single target nothing but `Probit` is made, as in ONNX
    /// Runtime.
    pub(super) fn applied(self, b: &mut Builder<'_>, scores: &Value) -> Result<Value> {
        match self {
            Self::Probit => b.each(scores, probit),
            _ if scores.dims()[1] == 1 => Ok(scores.clone()),
            Self::None => Ok(scores.clone()),
            Self::Logistic => b.each(scores, Writer::sigmoid),
            Self::Softmax => b.softmax(scores, &[1], false),
            Self::SoftmaxZero => softmax_zero(b, scores),
        }
    }
}

/// Magnitude below which a score counts as 0.
const ZERO: f64 = 1e-7;

fn softmax_zero(b: &mut Builder<'_>, scores: &Value) -> Result<Value> {
    let largest = b.fold_axes(scores, &[1], FoldKind::Max)?;
    let powers = b.map(scores.element(), &[scores, &largest], |w| {
        let (x, largest, bound, zero) = (w.input(0), w.input(1), w.real(ZERO), w.real(0.0));
        let magnitude = w.un(Unary::Abs, x);
        let counts = w.bin(Binary::Less, bound, magnitude);
        let shifted = w.sub(x, largest);
        let power = w.un(Unary::Exp, shifted);
        w.select(counts, power, zero)
    })?;
    let sum = b.fold_axes(&powers, &[1], FoldKind::Sum)?;
    b.map(scores.element(), &[&powers, &sum], |w| {
        let (power, sum, one) = (w.input(0), w.input(1), w.real(1.0));
        let divisor = w.select(sum, sum, one);
        w.div(power, divisor)
    })
}

/// Winitzki's constant of the inverse error function, as ONNX Runtime has it.
const WINITZKI: f64 = 0.147;

/// `√2 · erf⁻¹(2x - 1)`, approximately.
fn probit(w: &mut Writer, x: usize) -> usize {
    let (one, two, half) = (w.real(1.0), w.real(2.0), w.real(0.5));
    let doubled = w.mul(two, x);
    let x = w.sub(doubled, one);
    let (more, less) = (w.add(one, x), w.sub(one, x));
    let product = w.mul(less, more);
    let logarithm = w.un(Unary::Log, product);
    let first = w.real(2.0 / (std::f64::consts::PI * WINITZKI));
    let second = w.mul(half, logarithm);
    let sum = w.add(first, second);
    let inverse = w.real(1.0 / WINITZKI);
    let third = w.mul(inverse, logarithm);
    let square = w.mul(sum, sum);
    let inner = w.sub(square, third);
    let root = w.un(Unary::Sqrt, inner);
    let rest = w.sub(root, sum);
    let (magnitude, sign) = (w.un(Unary::Sqrt, rest), w.un(Unary::Sign, x));
    let signed = w.mul(sign, magnitude);
    let factor = w.real(std::f64::consts::SQRT_2);
    w.mul(factor, signed)
}

/// Labels of classes: numbers, or places of texts.
pub(super) struct Labels {
    numbers: Vec<i64>,
    pub(super) count: usize,
}

impl Labels {
    pub(super) fn of(call: &Call<'_>, ints: &'static str) -> Result<Self> {
        let texts = call.places("classlabels_strings")?.unwrap_or_default();
        let numbers = call.ints(ints)?.unwrap_or_default().to_vec();
        call.makes_texts.set(numbers.is_empty() && !texts.is_empty());
        let numbers = if numbers.is_empty() { texts } else { numbers };
        Ok(Self { count: numbers.len(), numbers })
    }

    /// The label of each number of a class.
    pub(super) fn at(&self, b: &mut Builder<'_>, number: &Value) -> Result<Value> {
        let table = b.whole(vec![self.count], self.numbers.clone())?;
        lookup(b, &table, number, 1)
    }

    /// The label of the largest score of each row, the first of equals.
    pub(super) fn best(&self, b: &mut Builder<'_>, scores: &Value) -> Result<Value> {
        let number = b.fold_axes(scores, &[1], FoldKind::ArgMax { last: false })?;
        let number = b.reshape(&number, vec![scores.dims()[0]])?;
        self.at(b, &number)
    }

    /// The second label where a score `[rows, 1]` is above `bound`, and else the first.
    pub(super) fn above(&self, b: &mut Builder<'_>, score: &Value, bound: f64) -> Result<Value> {
        let number = b.map_in(Domain::F64, Element::I64, &[score], |w| {
            let (x, bound) = (w.input(0), w.real(bound));
            w.bin(Binary::Less, bound, x)
        })?;
        let number = b.reshape(&number, vec![score.dims()[0]])?;
        self.at(b, &number)
    }
}

/// Scores of two classes of that of the second, `[rows, 1]`: the first one's is the complement to
/// 1, or the negative.
pub(super) fn pair(
    b: &mut Builder<'_>,
    score: &Value,
    transform: Transform,
    is_complement: bool,
) -> Result<Value> {
    let other = b.each(score, |w, x| {
        let from =
            w.real(if is_complement && transform != Transform::Logistic { 1.0 } else { 0.0 });
        w.sub(from, x)
    })?;
    let both = b.concat(&[&other, score], 1)?;
    match transform {
        Transform::Logistic => b.each(&both, Writer::sigmoid),
        Transform::Probit => b.each(&both, probit),
        _ => Ok(both),
    }
}

/// `scores` with numbers of `list` for each target added, if there are as many.
pub(super) fn based(b: &mut Builder<'_>, scores: &Value, list: &[f64]) -> Result<Value> {
    match list.len() {
        0 => Ok(scores.clone()),
        len if len == scores.dims()[1] => {
            let base = numbers_of(b, vec![len], list.to_vec(), scores.element())?;
            b.binary(Binary::Add, scores, &base)
        }
        len => Err(format!("{len} base values for {} targets", scores.dims()[1])),
    }
}
