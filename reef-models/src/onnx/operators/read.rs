//! What each operator makes of its operands.

use super::constants::of_constants;
use super::linear::{conv, gemm, matmul};
use super::maps::{activation, arithmetic, batch_norm, cast, clip, dropout, hard_sigmoid, relu};
use super::pools::{global_pool, pool, reduce_mean};
use super::shapes::{concat, flatten, gather, reshape, squeeze, transpose, unsqueeze};
use crate::onnx::fault::Result;
use crate::onnx::node::Node;
use crate::onnx::scope::{Known, Reader};
use reef_core::op::{Function, PoolKind};

/// The operators that are read.
pub const OPERATORS: &[&str] = &[
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "Clip",
    "Concat",
    "Constant",
    "Conv",
    "Div",
    "Dropout",
    "Flatten",
    "Gather",
    "Gemm",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "MatMul",
    "MaxPool",
    "Mul",
    "ReduceMean",
    "Relu",
    "Reshape",
    "Shape",
    "Sigmoid",
    "Squeeze",
    "Sub",
    "Transpose",
    "Unsqueeze",
];

/// What the first output of `node` is.
pub(in crate::onnx) fn read<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Known<'a>> {
    if let Some(constant) = of_constants(reader, node)? {
        return Ok(Known::Constant(constant));
    }
    let tensor = match node.file.op {
        "Conv" => conv(reader, node),
        "Gemm" => gemm(reader, node),
        "MatMul" => matmul(reader, node),
        "BatchNormalization" => batch_norm(reader, node),
        "Relu" => relu(reader, node),
        "Clip" => clip(reader, node),
        "HardSigmoid" => hard_sigmoid(reader, node),
        "HardSwish" => activation(reader, node, Function::HardSwish),
        "Sigmoid" => activation(reader, node, Function::Sigmoid),
        "MaxPool" | "AveragePool" => pool(reader, node),
        "GlobalAveragePool" => global_pool(reader, node, PoolKind::Average),
        "GlobalMaxPool" => global_pool(reader, node, PoolKind::Max),
        "ReduceMean" => reduce_mean(reader, node),
        "Add" | "Sub" | "Mul" | "Div" => arithmetic(reader, node),
        "Concat" => concat(reader, node),
        "Gather" => gather(reader, node),
        "Flatten" => flatten(reader, node),
        "Reshape" => reshape(reader, node),
        "Squeeze" => squeeze(reader, node),
        "Unsqueeze" => unsqueeze(reader, node),
        "Identity" => reader.tensor(node, 0),
        "Dropout" => dropout(reader, node),
        "Transpose" => transpose(reader, node),
        "Cast" => cast(reader, node),
        _ => Err(format!("the operator is not supported (have: {})", OPERATORS.join(", "))),
    }?;
    Ok(Known::Tensor(tensor))
}
