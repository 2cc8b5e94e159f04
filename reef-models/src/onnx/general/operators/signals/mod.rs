//! Operators of signals: Fourier transforms, the windows they have, and matrices of frequencies.

mod fourier;
mod tables;

use crate::onnx::fault::Result;
use crate::onnx::general::call::{Call, one};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;

pub(super) fn signal(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "BlackmanWindow" | "HammingWindow" | "HannWindow" => one(tables::window(b, call)?),
        "DFT" => one(fourier::transform(b, call)?),
        "MelWeightMatrix" => one(tables::mel(b, call)?),
        "STFT" => one(fourier::of_frames(b, call)?),
        _ => Ok(None),
    }
}
