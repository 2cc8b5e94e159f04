//! Discrete Fourier transforms, as products with matrices of cosines and sines.

use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::tensors::axes::{axis, elements, size};
use crate::tensors::builder::Builder;
use crate::tensors::expressions::ensure_float;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Binary, Element, View};

/// One transform.
struct Plan {
    /// Elements that are transformed.
    len: usize,
    /// Elements of the result.
    to: usize,
    is_inverse: bool,
    /// Half of the frequencies are given; the other half mirrors them.
    from_half: bool,
}

impl Plan {
    /// Cosines and sines of each element and each frequency.
    fn tables(&self, b: &mut Builder<'_>, from: usize, element: Element) -> Result<[Value; 2]> {
        let count = elements(&[from, self.to])?;
        let _making = b.ledger.charge(24 * count as u64)?;
        let len = self.len as f64;
        let factor = |k: usize| {
            let is_alone = k == 0 || 2 * k == self.len;
            let both = if self.from_half && !is_alone { 2.0 } else { 1.0 };
            if self.is_inverse { both / len } else { 1.0 }
        };
        let mut table = |function: fn(f64) -> f64| {
            let number = |i: usize| {
                let (k, n) = (i / self.to, i % self.to);
                let turn = (k * n % self.len) as f64 / len;
                factor(k) * function(std::f64::consts::TAU * turn)
            };
            let made =
                b.constant(vec![from, self.to], Array::F64((0..count).map(number).collect()))?;
            b.cast(&made, element)
        };
        Ok([table(f64::cos)?, table(f64::sin)?])
    }

    /// Real and imaginary part of the transform along the last axis; the latter is left out if it
    /// is nothing.
    fn apply(
        &self,
        b: &mut Builder<'_>,
        real: &Value,
        imaginary: Option<&Value>,
    ) -> Result<[Option<Value>; 2]> {
        let from = real.dims().last().copied().unwrap_or_default();
        let [cosines, sines] = self.tables(b, from, real.element())?;
        let sines = if self.is_inverse { sines } else { b.with_number(Binary::Mul, &sines, -1.0)? };
        let mut first = b.matmul(real, &cosines)?;
        if let Some(imaginary) = imaginary {
            let product = b.matmul(imaginary, &sines)?;
            first = b.binary(Binary::Sub, &first, &product)?;
        }
        if self.from_half {
            return Ok([Some(first), None]);
        }
        let mut second = b.matmul(real, &sines)?;
        if let Some(imaginary) = imaginary {
            let product = b.matmul(imaginary, &cosines)?;
            second = b.binary(Binary::Add, &second, &product)?;
        }
        Ok([Some(first), Some(second)])
    }
}

/// Real and imaginary part of numbers, which the last axis of one or two has.
fn parts(b: &mut Builder<'_>, x: &Value) -> Result<(Value, Option<Value>)> {
    ensure_float(x)?;
    let (last, dims) = (x.rank() - 1, x.dims()[..x.rank() - 1].to_vec());
    let mut part = |k: usize| {
        let part = b.cut(x, last, k, k + 1)?;
        b.reshape(&part, dims.clone())
    };
    match x.dims()[last] {
        1 => Ok((part(0)?, None)),
        2 => Ok((part(0)?, Some(part(1)?))),
        _ => Err(format!("numbers have one or two parts along the last axis, {} there", x.spec)),
    }
}

/// Parts as the last axis again.
fn joined(b: &mut Builder<'_>, parts: &[Option<Value>; 2]) -> Result<Value> {
    let each = parts.iter().flatten().map(|part| b.reshape(part, [part.dims(), &[1]].concat()));
    let each = each.collect::<Result<Vec<_>>>()?;
    b.concat(&each.iter().collect::<Vec<_>>(), each[0].rank() - 1)
}

/// An axis with another number of elements: cut, or with zeros behind.
fn of_length(b: &mut Builder<'_>, x: &Value, at: usize, len: usize) -> Result<Value> {
    let (before, mut after) = (vec![0; x.rank()], vec![0; x.rank()]);
    after[at] = len as i64 - x.dims()[at] as i64;
    b.pad(x, &before, &after, reef_op::tensor::Scalar::Whole(0))
}

/// Operands: a tensor whose last axis has one or two parts, a length, and from operator set 20 on
/// an axis.
pub(super) fn transform(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let (is_inverse, is_half) = (call.flag("inverse", false)?, call.flag("onesided", false)?);
    let number = match call.opset {
        ..20 => call.int("axis", 1)?,
        _ => call.number(2)?.map_or(-2, |number| number as i64),
    };
    let at = axis(number, x.rank())?;
    if x.rank() < 2 || at + 1 == x.rank() {
        return Err(format!("axis {number} of {}, whose last axis has parts", x.spec));
    }
    let given = x.dims()[at];
    let from_half = is_inverse && is_half;
    let usual = if from_half { 2 * given.saturating_sub(1) } else { given };
    let len = call.number(1)?.map_or(Ok(usual), |number| size(number as i64))?;
    if len == 0 || given == 0 {
        return Err(format!("a transform of {len} of {given} elements"));
    }
    let from = if from_half { len / 2 + 1 } else { len };
    let to = if is_half && !is_inverse { len / 2 + 1 } else { len };
    let wide = b.widened(x)?;
    let wide = of_length(b, &wide, at, from)?;
    let (real, imaginary) = parts(b, &wide)?;
    let mut order: Vec<usize> = (0..real.rank()).collect();
    order.swap(at, real.rank() - 1);
    let real = b.transpose(&real, &order)?;
    let imaginary = imaginary.map(|part| b.transpose(&part, &order)).transpose()?;
    let plan = Plan { len, to, is_inverse, from_half };
    let made = plan.apply(b, &real, imaginary.as_ref())?;
    let mut back = |part: &Option<Value>| part.as_ref().map(|p| b.transpose(p, &order)).transpose();
    let made = [back(&made[0])?, back(&made[1])?];
    let made = joined(b, &made)?;
    b.cast(&made, x.element())
}

/// Operands: signals, elements from one frame to the next, a window, elements of a frame.
pub(super) fn of_frames(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let signal = match x.dims() {
        &[batches, len] => b.reshape(x, vec![batches, len, 1])?,
        [_, _, 1 | 2] => x.clone(),
        _ => return Err(format!("signals {}", x.spec)),
    };
    let is_half = call.flag("onesided", true)?;
    let given = |index| call.number(index)?.map(|number| size(number as i64)).transpose();
    let step = given(1)?.ok_or("operand 1 is missing")?;
    let window = call.maybe(2);
    let of_window = window.map(|window| window.spec.elements());
    let len = given(3)?.or(of_window).ok_or("neither a window nor a length of frames")?;
    let (batches, samples) = (signal.dims()[0], signal.dims()[1]);
    if step == 0 || len == 0 || len > samples || of_window.is_some_and(|window| window != len) {
        return Err(format!("frames of {len} each {step} of {samples} samples"));
    }
    if is_half && signal.dims()[2] == 2 {
        return Err("attribute onesided = 1 of complex signals".into());
    }
    let frames = (samples - len) / step + 1;
    let signal = b.widened(&signal)?;
    let (real, imaginary) = parts(b, &signal)?;
    let window = window.map(|window| b.reshape(window, vec![len])).transpose()?;
    let window = window.map(|window| b.cast(&window, signal.element())).transpose()?;
    let mut framed = |part: &Value| {
        let view = View { dims: vec![batches, frames, len], strides: vec![samples, step, 1] };
        let frames = b.viewed(part, &view)?;
        window.as_ref().map_or(Ok(frames.clone()), |window| b.binary(Binary::Mul, &frames, window))
    };
    let real = framed(&real)?;
    let imaginary = imaginary.map(|part| framed(&part)).transpose()?;
    let to = if is_half { len / 2 + 1 } else { len };
    let plan = Plan { len, to, is_inverse: false, from_half: false };
    let made = plan.apply(b, &real, imaginary.as_ref())?;
    let made = joined(b, &made)?;
    b.cast(&made, x.element())
}
