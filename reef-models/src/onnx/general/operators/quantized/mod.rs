//! Operators on numbers of 4, 8 and 16 bits, each a real number divided by a scale.
//!
//! Each is what the standard says it means: integers exactly, products in 32 bits, floats rounded
//! to the nearest with ties to even, and what is out of range as the nearest bound.

pub(super) mod integers;
pub(super) mod linear;
mod microsoft;

use crate::onnx::fault::Result;
use crate::onnx::general::call::{Call, one};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;

pub(super) use microsoft::quantized_of_microsoft;

pub(super) fn quantized(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "QuantizeLinear" => one(linear::quantize_linear(b, call)?),
        "DequantizeLinear" => one(linear::dequantize_linear(b, call)?),
        "DynamicQuantizeLinear" => Ok(Some(linear::quantize_by_range(b, call.get(0)?)?.into())),
        "ConvInteger" => one(integers::convolution(b, call)?),
        "MatMulInteger" => one(integers::product(b, call)?),
        "QLinearConv" => one(integers::linear_convolution(b, call)?),
        "QLinearMatMul" => one(integers::linear_product(b, call)?),
        _ => Ok(None),
    }
}
