//! Operators of the domain `com.microsoft`, in which ONNX Runtime puts several of ONNX's together.
//!
//! Each is made of the same operations as those that it stands for.

mod activations;
mod attention;
mod gathered;
mod grouped;
mod norms;
mod products;

use super::elements::cast;
use super::places::{indexed, movement};
use super::sampled::grid;
use super::sums::normal;
use crate::onnx::fault::Result;
use crate::onnx::general::call::{Call, one};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;

pub(super) fn fused(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "BiasGelu" | "FastGelu" | "Gelu" | "QuickGelu" => one(activations::gelu(b, call)?),
        "Attention" => Ok(Some(attention::attention(b, call)?)),
        "QAttention" => Ok(Some(attention::attention_of_integers(b, call)?)),
        "MultiHeadAttention" => Ok(Some(attention::multi_head(b, call)?)),
        "GroupQueryAttention" => Ok(Some(grouped::attention(b, call)?)),
        "GatherBlockQuantized" => one(gathered::gather(b, call)?),
        "RotaryEmbedding" => one(attention::rotary(b, call)?),
        "FusedConv" => one(products::convolution(b, call)?),
        "NhwcFusedConv" => one(products::convolution_of_last(b, call)?),
        "FusedGemm" => one(products::gemm(b, call)?),
        "FusedMatMul" | "TransposeMatMul" => one(products::matmul(b, call)?),
        "CDist" => one(products::distances(b, call)?),
        // These mean the same in ONNX's own domain.
        "GatherND" => indexed::indexed(b, call),
        "GridSample" => one(grid::sample(b, call)?),
        "Pad" | "Trilu" => movement::movement(b, call),
        "Range" => cast::cast(b, call),
        "LayerNormalization" | "SimplifiedLayerNormalization" => normal::normalisation(b, call),
        "MatMulBnb4" => one(products::matmul_by_table(b, call)?),
        "MatMulNBits" => one(products::matmul_of_few_bits(b, call)?),
        "SkipLayerNormalization" => norms::skip(b, call, true),
        "SkipSimplifiedLayerNormalization" => norms::skip(b, call, false),
        "EmbedLayerNormalization" | "QEmbedLayerNormalization" => norms::embed(b, call),
        _ => Ok(None),
    }
}
