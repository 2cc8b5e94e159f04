//! Operators on each value by itself, and on pairs of values.

use super::operands::{Floats, Operands, elements};
use crate::onnx::constant::Constant;
use crate::onnx::fault::Result;

pub(super) fn each(of: &Operands<'_, '_>, function: impl Fn(f64) -> f64) -> Result<Constant> {
    let Floats { dims, values } = of.floats(0)?;
    of.make_floats(dims, values.len(), values.iter().map(|&x| function(x.into()) as f32))
}

pub(super) fn hard_sigmoid(of: &Operands<'_, '_>) -> Result<Constant> {
    let alpha = f64::from(of.node.float("alpha")?.unwrap_or(0.2));
    let beta = f64::from(of.node.float("beta")?.unwrap_or(0.5));
    each(of, |x| (alpha * x + beta).clamp(0.0, 1.0))
}

/// `min(high, max(low, x))`; bounds that are left out bound nothing.
pub(super) fn clip(of: &Operands<'_, '_>) -> Result<Constant> {
    let low = f64::from(of.number(1)?.unwrap_or(f32::NEG_INFINITY));
    let high = f64::from(of.number(2)?.unwrap_or(f32::INFINITY));
    each(of, |x| {
        let x = if x < low { low } else { x };
        if x > high { high } else { x }
    })
}

/// `(x - mean) / sqrt(variance + epsilon) * gain + bias`, by channel.
pub(super) fn batch_norm(of: &Operands<'_, '_>) -> Result<Constant> {
    let Floats { dims, values } = of.floats(0)?;
    let epsilon = f64::from(of.node.float("epsilon")?.unwrap_or(1e-5));
    let channels = *dims.get(1).ok_or("no channels")?;
    let mut tensors = Vec::new();
    for index in 1..5 {
        tensors.push(of.floats(index)?.values);
    }
    if tensors.iter().any(|tensor| tensor.len() != channels) {
        return Err(format!("other than one value for each of {channels} channels"));
    }
    let at = |tensor: usize, c: usize| f64::from(tensors[tensor][c]);
    let points = dims[2..].iter().product::<usize>();
    let value = |(i, &x): (usize, &f32)| {
        let c = i / points % channels;
        let unit = (f64::from(x) - at(2, c)) / (at(3, c) + epsilon).sqrt();
        (unit * at(0, c) + at(1, c)) as f32
    };
    of.make_floats(dims, values.len(), values.iter().enumerate().map(value))
}

/// Pairs of values; sizes of 1, and those that are left out in front, are repeated.
pub(super) fn of_two(
    of: &Operands<'_, '_>,
    function: impl Fn(f64, f64) -> f64,
) -> Result<Constant> {
    let (a, b) = (of.floats(0)?, of.floats(1)?);
    let dims = common(&a.dims, &b.dims)?;
    let (from_a, from_b) = (Repeated::new(&a.dims, &dims), Repeated::new(&b.dims, &dims));
    let pair = |i: usize| {
        let (a, b) = (a.values[from_a.place(i)], b.values[from_b.place(i)]);
        function(a.into(), b.into()) as f32
    };
    let len = elements(&dims)?;
    of.make_floats(dims, len, (0..len).map(pair))
}

/// Sizes of what two tensors make together.
fn common(a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    let rank = a.len().max(b.len());
    let size = |dims: &[usize], axis: usize| {
        (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis])
    };
    let fit = |axis| match (size(a, axis), size(b, axis)) {
        (a, b) if a == b || b == 1 => Ok(a),
        (1, b) => Ok(b),
        _ => Err(format!("tensors of {a:?} and {b:?}")),
    };
    (0..rank).map(fit).collect()
}

/// A tensor that is repeated to fill a larger one.
struct Repeated {
    /// For each axis from the last: the larger one's size, and the step in the smaller one.
    axes: Vec<(usize, usize)>,
}

impl Repeated {
    fn new(dims: &[usize], within: &[usize]) -> Self {
        let mut step = 1;
        let axis = |(i, &size): (usize, &usize)| {
            let own = dims.len().checked_sub(i + 1).map_or(1, |axis| dims[axis]);
            let axis = (size, if own == 1 { 0 } else { step });
            step *= own;
            axis
        };
        Self { axes: within.iter().rev().enumerate().map(axis).collect() }
    }

    /// Index of the value of the smaller one that belongs to value `i` of the larger one.
    fn place(&self, mut i: usize) -> usize {
        let mut place = 0;
        for &(size, step) in &self.axes {
            place += i % size * step;
            i /= size;
        }
        place
    }
}
