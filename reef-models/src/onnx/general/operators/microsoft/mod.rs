//! Operators of the domain `com.microsoft`, in which ONNX Runtime puts several of ONNX's together.
//!
//! Each is made of the same operations as those that it stands for.

mod activations;
mod attention;
mod experts;
mod gathered;
mod grouped;
mod norms;
mod positions;
mod products;

use super::elements::cast;
use super::places::{indexed, movement, selected};
use super::sampled::grid;
use super::sums::{normal, products as plain};
use super::tokens;
use crate::onnx::fault::{Result, unsupported};
use crate::onnx::general::call::{Call, one};
use crate::tensors::axes::axis;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::Binary;

pub(super) fn fused(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "BiasGelu" | "FastGelu" | "Gelu" | "QuickGelu" => one(activations::gelu(b, call)?),
        "BiasSplitGelu" => one(activations::split_gelu(b, call)?),
        "BiasSoftmax" => one(norms::softmax_of_sum(b, call)?),
        "GroupNorm" => Ok(Some(norms::group(b, call, false)?)),
        "SkipGroupNorm" => Ok(Some(norms::group(b, call, true)?)),
        "BiasAdd" => one(sum(b, call, [call.maybe(1), Some(call.get(2)?)])?),
        "BiasDropout" => one(undropped(b, call)?),
        "UnfoldTensor" => one(products::unfolded(b, call)?),
        "Unique" => Ok(Some(selected::different(b, call)?)),
        "ExpandDims" => one(expanded(b, call)?),
        "Attention" => Ok(Some(attention::attention(b, call)?)),
        "QAttention" => Ok(Some(attention::attention_of_integers(b, call)?)),
        "MultiHeadAttention" => Ok(Some(attention::multi_head(b, call)?)),
        "GroupQueryAttention" => Ok(Some(grouped::attention(b, call)?)),
        "MoE" => one(experts::mixture(b, call)?),
        "QMoE" => one(experts::mixture_of_few_bits(b, call)?),
        "RelativePositionBias" => one(positions::bias(b, call)?),
        "GatherBlockQuantized" => one(gathered::gather(b, call)?),
        "RotaryEmbedding" => one(attention::rotary(b, call)?),
        "FusedConv" => one(products::convolution(b, call)?),
        "NhwcConv" | "NhwcFusedConv" => one(products::convolution_of_last(b, call)?),
        "FusedGemm" => one(products::gemm(b, call)?),
        "FusedMatMul" | "TransposeMatMul" => one(products::matmul(b, call)?),
        "CDist" => one(products::distances(b, call)?),
        "Inverse" => one(plain::inverse(b, call)?),
        "MatMulInteger16" => one(products::matmul_of_integers(b, call)?),
        // These mean the same in ONNX's own domain.
        "GatherND" => indexed::indexed(b, call),
        "GridSample" => one(grid::sample(b, call)?),
        "Pad" | "Trilu" => movement::movement(b, call),
        "Range" => cast::cast(b, call),
        "CausalConvWithState" | "LinearAttention" => tokens::attention::of_tokens(b, call),
        "LayerNormalization" | "SimplifiedLayerNormalization" => normal::normalisation(b, call),
        "MatMulBnb4" => one(products::matmul_by_table(b, call)?),
        "MatMulNBits" => one(products::matmul_of_few_bits(b, call)?),
        "SkipLayerNormalization" => norms::skip(b, call, true),
        "SkipSimplifiedLayerNormalization" => norms::skip(b, call, false),
        "EmbedLayerNormalization" | "QEmbedLayerNormalization" => norms::embed(b, call),
        _ => Ok(None),
    }
}

/// Operand 0 with others added: a bias of channels, and a summand.
fn sum(b: &mut Builder<'_>, call: &Call<'_>, others: [Option<&Value>; 2]) -> Result<Value> {
    let mut made = call.get(0)?.clone();
    for other in others.into_iter().flatten() {
        made = b.binary(Binary::Add, &made, other)?;
    }
    Ok(made)
}

/// A sum of which nothing is left out, as without training.
fn undropped(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    call.int("seed", 0)?;
    call.maybe(3); // how much training leaves out
    if call.number(4)?.is_some_and(|flag| flag != 0.0) {
        return Err(unsupported("training is"));
    }
    sum(b, call, [Some(call.get(1)?), call.maybe(2)])
}

/// A tensor with one more axis of one element, whose number is operand 1.
fn expanded(b: &Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let at = call.number(1)?.ok_or("operand 1 is missing")? as i64;
    let mut dims = x.dims().to_vec();
    dims.insert(axis(at, x.rank() + 1)?, 1);
    b.reshape(x, dims)
}
