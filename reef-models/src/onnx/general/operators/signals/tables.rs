//! Windows and matrices that depend on a few numbers alone.

use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::onnx::general::stored::element;
use crate::tensors::axes::{elements, size};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::Array;

/// As the type that attribute `output_datatype` names.
fn typed(b: &mut Builder<'_>, call: &Call<'_>, dims: Vec<usize>, table: Vec<f64>) -> Result<Value> {
    let made = b.constant(dims, Array::F64(table))?;
    b.cast(&made, element(call.int("output_datatype", 1)?)?)
}

pub(super) fn window(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let count = size(call.number(0)?.ok_or("operand 0 is missing")? as i64)?;
    let _making = b.ledger.charge(8 * elements(&[count])? as u64)?;
    let around = if call.flag("periodic", true)? { count } else { count.saturating_sub(1) };
    let [middle, one, two] = match call.op() {
        "HannWindow" => [0.5, 0.5, 0.0],
        "HammingWindow" => [25.0 / 46.0, 21.0 / 46.0, 0.0],
        _ => [0.42, 0.5, 0.08],
    };
    // A symmetric window of one element is NaN, as in ONNX's reference and in ONNX Runtime.
    let number = |i: usize| {
        let angle = std::f64::consts::TAU * i as f64 / around as f64;
        middle - one * angle.cos() + two * (2.0 * angle).cos()
    };
    typed(b, call, vec![count], (0..count).map(number).collect())
}

/// Factor of each frequency in each band of the mel scale. Operands: number of bands, length of the
/// transform, sample rate, lowest and highest frequency.
pub(super) fn mel(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let number = |index| call.number(index)?.ok_or_else(|| format!("operand {index} is missing"));
    let (bands, len) = (size(number(0)? as i64)?, size(number(1)? as i64)?);
    let (rate, low, high) = (number(2)?, number(3)?, number(4)?);
    let rows = len / 2 + 1;
    let _making = b.ledger.charge(8 * elements(&[rows, bands])? as u64)?;
    let mel = |frequency: f64| 2595.0 * (1.0 + frequency / 700.0).log10();
    let step = (mel(high) - mel(low)) / (bands as f64 + 2.0);
    let edge = |k: usize| {
        let frequency = 700.0 * (10f64.powf((k as f64 * step + mel(low)) / 2595.0) - 1.0);
        ((len as f64 + 1.0) * frequency / rate).floor()
    };
    let is_sound = rate > 0.0 && low <= high && edge(0) >= 0.0 && edge(bands) < rows as f64;
    let is_sound = is_sound && edge(bands + 1) <= rows as f64;
    if !is_sound {
        return Err(format!("frequencies from {low} to {high} at a rate of {rate}"));
    }
    let mut table = vec![0.0; rows * bands];
    for band in 0..bands {
        let [from, middle, to] = [0, 1, 2].map(|k| edge(band + k) as usize);
        let mut put = |row: usize, number: f64| table[row * bands + band] = number;
        put(middle, 1.0);
        for row in from..middle {
            put(row, (row - from) as f64 / (middle - from) as f64);
        }
        for row in middle..to {
            put(row, (to - row) as f64 / (to - middle) as f64);
        }
    }
    typed(b, call, vec![rows, bands], table)
}
