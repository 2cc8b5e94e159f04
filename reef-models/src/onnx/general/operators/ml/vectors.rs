//! Support vector machines, as ONNX Runtime computes them.

use super::ensemble::rows;
use super::forest::numbers_of;
use super::pairs::probabilities;
use super::scores::{Labels, Transform, pair};
use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::tensors::axes::{elements, size};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Element, FoldKind, Unary};

/// Similarity of rows and vectors.
#[derive(Debug, Clone, Copy)]
enum Kernel {
    Linear,
    Polynomial { gamma: f64, shift: f64, degree: f64 },
    Radial { gamma: f64 },
    Sigmoid { gamma: f64, shift: f64 },
}

impl Kernel {
    fn of(call: &Call<'_>) -> Result<Self> {
        let numbers = call.floats("kernel_params")?.unwrap_or_default();
        let [gamma, shift, degree] = match numbers {
            [] => [0.0; 3],
            &[gamma, shift, degree] => [gamma, shift, degree].map(f64::from),
            other => return Err(format!("attribute kernel_params = {other:?}")),
        };
        Ok(match call.text("kernel_type", "LINEAR")? {
            "LINEAR" => Self::Linear,
            "POLY" => Self::Polynomial { gamma, shift, degree },
            "RBF" => Self::Radial { gamma },
            "SIGMOID" => Self::Sigmoid { gamma, shift },
            other => return Err(format!("attribute kernel_type = {other:?}")),
        })
    }

    /// Of each row of `x` and each of `vectors`.
    fn apply(self, b: &mut Builder<'_>, x: &Value, vectors: &Value) -> Result<Value> {
        if let Self::Radial { gamma } = self {
            return radial(b, x, vectors, gamma);
        }
        let products = b.gemm(x, vectors, [false, true])?;
        let (gamma, shift) = match self {
            Self::Polynomial { gamma, shift, .. } | Self::Sigmoid { gamma, shift } => {
                (gamma, shift)
            }
            _ => return Ok(products),
        };
        b.each(&products, |w, x| {
            let (gamma, shift) = (w.real(gamma), w.real(shift));
            let scaled = w.mul(x, gamma);
            let moved = w.add(scaled, shift);
            match self {
                Self::Polynomial { degree, .. } => {
                    let degree = w.real(degree);
                    w.bin(Binary::Pow, moved, degree)
                }
                _ => w.un(Unary::Tanh, moved),
            }
        })
    }
}

/// `exp(-gamma · |x - v|²)`.
fn radial(b: &mut Builder<'_>, x: &Value, vectors: &Value, gamma: f64) -> Result<Value> {
    let (rows, columns, count) = (x.dims()[0], x.dims()[1], vectors.dims()[0]);
    let x = b.reshape(x, vec![rows, 1, columns])?;
    let apart = b.binary(Binary::Sub, &x, vectors)?;
    let squares = b.fold_axes(&apart, &[2], FoldKind::SumSquares)?;
    let squares = b.reshape(&squares, vec![rows, count])?;
    b.each(&squares, |w, square| {
        let gamma = w.real(-gamma);
        let scaled = w.mul(gamma, square);
        w.un(Unary::Exp, scaled)
    })
}

/// Attributes that both kinds of machines have.
struct Machine {
    kernel: Kernel,
    /// `[vectors, columns]`; without them the coefficients are those of columns.
    vectors: Option<Value>,
    coefficients: Vec<f64>,
    shifts: Vec<f64>,
}

fn list(call: &Call<'_>, name: &'static str) -> Result<Vec<f64>> {
    Ok(call.floats(name)?.unwrap_or_default().iter().map(|&x| x.into()).collect())
}

impl Machine {
    fn of(b: &Builder<'_>, call: &Call<'_>, count: usize, columns: usize) -> Result<Self> {
        let (kernel, numbers) = (Kernel::of(call)?, list(call, "support_vectors")?);
        let vectors = if count == 0 {
            None
        } else if elements(&[count, columns])? == numbers.len() && columns > 0 {
            Some(numbers_of(b, vec![count, columns], numbers, Element::F32)?)
        } else {
            let len = numbers.len();
            return Err(format!("{len} numbers for {count} support vectors of {columns} columns"));
        };
        let (coefficients, shifts) = (list(call, "coefficients")?, list(call, "rho")?);
        Ok(Self { kernel, vectors, coefficients, shifts })
    }

    /// `shift` of a linear machine, the first of the list.
    fn shift(&self) -> Result<f64> {
        self.shifts.first().copied().ok_or_else(|| "attribute rho is missing".into())
    }

    /// `x · coefficientsᵀ + shift`, of `targets` rows.
    fn linear(&self, b: &mut Builder<'_>, x: &Value, targets: usize) -> Result<Value> {
        let columns = x.dims()[1];
        if self.coefficients.len() != targets.saturating_mul(columns) {
            let len = self.coefficients.len();
            return Err(format!("{len} coefficients for {targets} targets of {columns} columns"));
        }
        let factors = self.coefficients.clone();
        let factors = numbers_of(b, vec![targets, columns], factors, Element::F32)?;
        let made = b.gemm(x, &factors, [false, true])?;
        b.with_number(Binary::Add, &made, self.shift()?)
    }
}

/// Rows of the operand as singles.
fn singles(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = rows(b, call)?;
    b.cast(&x, Element::F32)
}

pub(super) fn regressor(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = singles(b, call)?;
    let count = size(call.int("n_supports", 0)?)?;
    let machine = Machine::of(b, call, count, x.dims()[1])?;
    call.text("post_transform", "NONE")?; // ONNX Runtime makes nothing of it
    let made = match &machine.vectors {
        None => machine.linear(b, &x, 1)?,
        Some(vectors) => {
            let like = machine.kernel.apply(b, &x, vectors)?;
            if machine.coefficients.len() != count {
                return Err(format!("{} coefficients for {count}", machine.coefficients.len()));
            }
            let factors = machine.coefficients.clone();
            let factors = numbers_of(b, vec![count, 1], factors, Element::F32)?;
            let made = b.gemm(&like, &factors, [false, false])?;
            b.with_number(Binary::Add, &made, machine.shift()?)?
        }
    };
    if !call.flag("one_class", false)? {
        return Ok(made);
    }
    b.each(&made, |w, x| {
        let (zero, one, minus) = (w.real(0.0), w.real(1.0), w.real(-1.0));
        let is_positive = w.bin(Binary::Less, zero, x);
        w.select(is_positive, one, minus)
    })
}

/// Label and scores of each row.
pub(super) fn classifier(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    let x = singles(b, call)?;
    let each = call.ints("vectors_per_class")?.unwrap_or_default();
    let each = each.iter().map(|&count| size(count)).collect::<Result<Vec<_>>>()?;
    let count = each.iter().fold(0usize, |sum, &count| sum.saturating_add(count));
    let machine = Machine::of(b, call, count, x.dims()[1])?;
    let (transform, labels) = (Transform::of(call)?, Labels::of(call, "classlabels_ints")?);
    let probability = [list(call, "prob_a")?, list(call, "prob_b")?];
    let all_positive = machine.coefficients.iter().all(|&factor| factor >= 0.0);
    let Some(vectors) = &machine.vectors else {
        let scores = machine.linear(b, &x, labels.count)?;
        let has_probability = !probability[0].is_empty();
        let label = linear_label(b, &scores, &labels, all_positive, has_probability)?;
        return Ok(vec![label, transform.applied(b, &scores)?]);
    };
    let classes = labels.count;
    let count_of_pairs = classes.saturating_mul(classes.saturating_sub(1)) / 2;
    let wanted = classes.saturating_sub(1).saturating_mul(count);
    let given = [machine.shifts.len(), probability[0].len(), probability[1].len()];
    let fits = |len: usize| len == 0 || len == count_of_pairs;
    if count_of_pairs == 0
        || each.len() != classes
        || machine.coefficients.len() != wanted
        || given[0] != count_of_pairs
        || given[1] != given[2]
        || !fits(given[1])
    {
        return Err(format!("{given:?} numbers and {wanted} coefficients for {classes} classes"));
    }
    let pairs: Vec<[usize; 2]> =
        (0..classes).flat_map(|i| (i + 1..classes).map(move |j| [i, j])).collect();
    let like = machine.kernel.apply(b, &x, vectors)?;
    let scores = of_pairs(b, &like, &machine, &each, &pairs)?;
    let votes = votes(b, &scores, &pairs, classes)?;
    let label = labels.best(b, &votes)?;
    let scores = if given[1] > 0 {
        let made = probabilities(b, &scores, &probability, &pairs, classes)?;
        transform.applied(b, &made)?
    } else if pairs.len() == 1 {
        pair(b, &scores, transform, transform != Transform::None)?
    } else {
        transform.applied(b, &scores)?
    };
    Ok(vec![label, scores])
}

/// Scores of pairs of classes: of the vectors of either, by their coefficients for the other.
fn of_pairs(
    b: &mut Builder<'_>,
    like: &Value,
    machine: &Machine,
    each: &[usize],
    pairs: &[[usize; 2]],
) -> Result<Value> {
    let count = like.dims()[1];
    let _making = b.ledger.charge(8 * elements(&[count, pairs.len()])? as u64)?;
    let mut factors = vec![0.0; count * pairs.len()];
    let begin = |class: usize| each[..class].iter().sum::<usize>();
    for (number, &[i, j]) in pairs.iter().enumerate() {
        for (own, row) in [(i, j - 1), (j, i)] {
            for vector in begin(own)..begin(own + 1) {
                factors[vector * pairs.len() + number] = machine.coefficients[row * count + vector];
            }
        }
    }
    let factors = numbers_of(b, vec![count, pairs.len()], factors, Element::F32)?;
    let shifts = numbers_of(b, vec![pairs.len()], machine.shifts.clone(), Element::F32)?;
    let made = b.gemm(like, &factors, [false, false])?;
    b.binary(Binary::Add, &made, &shifts)
}

/// Number of pairs that each class wins.
fn votes(
    b: &mut Builder<'_>,
    scores: &Value,
    pairs: &[[usize; 2]],
    classes: usize,
) -> Result<Value> {
    let _making = b.ledger.charge(12 * elements(&[pairs.len(), classes])? as u64)?;
    let table = |side: usize| {
        let is = |k: usize| f64::from(u8::from(pairs[k / classes][side] == k % classes));
        (0..pairs.len() * classes).map(is).collect()
    };
    let mut sum: Option<Value> = None;
    for side in 0..2 {
        let won = b.each(scores, |w, score| {
            let (zero, one) = (w.real(0.0), w.real(1.0));
            let is_first = w.bin(Binary::Less, zero, score);
            if side == 0 { is_first } else { w.sub(one, is_first) }
        })?;
        let of_class = numbers_of(b, vec![pairs.len(), classes], table(side), Element::F32)?;
        let made = b.gemm(&won, &of_class, [false, false])?;
        sum = Some(match sum {
            None => made,
            Some(other) => b.binary(Binary::Add, &other, &made)?,
        });
    }
    sum.ok_or_else(|| "no classes".into())
}

/// The label of the best score; of two classes the second wins above a bound of its own.
fn linear_label(
    b: &mut Builder<'_>,
    scores: &Value,
    labels: &Labels,
    all_positive: bool,
    has_probability: bool,
) -> Result<Value> {
    let best = b.fold_axes(scores, &[1], FoldKind::ArgMax { last: false })?;
    if labels.count != 2 || has_probability {
        let best = b.reshape(&best, vec![scores.dims()[0]])?;
        return labels.at(b, &best);
    }
    let largest = b.fold_axes(scores, &[1], FoldKind::Max)?;
    let number = b.map_in(Element::F32.domain(), Element::I64, &[&largest, &best], |w| {
        let (largest, best, one) = (w.input(0), w.input(1), w.real(1.0));
        let bound = w.real(if all_positive { 0.5 } else { 0.0 });
        let is_second = if all_positive {
            w.bin(Binary::LessOrEqual, bound, largest)
        } else {
            w.bin(Binary::Less, bound, largest)
        };
        w.select(is_second, one, best)
    })?;
    let number = b.reshape(&number, vec![scores.dims()[0]])?;
    labels.at(b, &number)
}
