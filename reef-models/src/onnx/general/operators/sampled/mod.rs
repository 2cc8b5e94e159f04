//! Operators that read a tensor between its elements, at places that data say.

mod deformed;
pub(super) mod grid;
mod infinities;
mod regions;
mod taps;

use crate::onnx::fault::Result;
use crate::onnx::general::call::{Call, one};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;

pub(super) fn sampled(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "AffineGrid" => one(grid::affine(b, call)?),
        "DeformConv" => one(deformed::convolution(b, call)?),
        "GridSample" => one(grid::sample(b, call)?),
        "RoiAlign" => one(regions::align(b, call)?),
        _ => Ok(None),
    }
}
