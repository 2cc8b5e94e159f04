//! Table of the operators and their definitions.

use super::operands::Operands;
use super::{elementwise, moves, products, sliding};
use crate::onnx::constant::Constant;
use crate::onnx::fault::Result;
use std::rc::Rc;

/// The first output of a node.
pub(super) fn compute(of: &Operands<'_, '_>) -> Result<Rc<Constant>> {
    match of.node.file.op {
        "Identity" | "Dropout" => of.any(0),
        _ => evaluate(of).map(Rc::new),
    }
}

fn evaluate(of: &Operands<'_, '_>) -> Result<Constant> {
    let per_value = |function: fn(f64) -> f64| elementwise::each(of, function);
    match of.node.file.op {
        "Constant" => of.node.constant(),
        "Conv" => sliding::conv(of),
        "MaxPool" => sliding::max_pool(of),
        "AveragePool" => sliding::average_pool(of),
        "GlobalMaxPool" => products::global(of, products::maximum),
        "GlobalAveragePool" => products::global(of, products::mean),
        "ReduceMean" => products::reduce_mean(of),
        "Gemm" => products::gemm(of),
        "MatMul" => products::matmul(of),
        "BatchNormalization" => elementwise::batch_norm(of),
        "Relu" => per_value(|x| if x < 0.0 { 0.0 } else { x }),
        "HardSwish" => per_value(|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
        "Sigmoid" => per_value(|x| 1.0 / (1.0 + (-x).exp())),
        "HardSigmoid" => elementwise::hard_sigmoid(of),
        "Clip" => elementwise::clip(of),
        "Add" => elementwise::of_two(of, |a, b| a + b),
        "Sub" => elementwise::of_two(of, |a, b| a - b),
        "Mul" => elementwise::of_two(of, |a, b| a * b),
        "Div" => elementwise::of_two(of, |a, b| a / b),
        "Concat" => moves::concat(of),
        "Gather" => moves::gather(of),
        "Flatten" => moves::flatten(of),
        "Reshape" => moves::reshape(of),
        "Shape" => moves::shape(of),
        "Squeeze" => moves::squeeze(of),
        "Unsqueeze" => moves::unsqueeze(of),
        "Transpose" => moves::transpose(of),
        "Cast" => moves::cast(of),
        _ => Err("the operator is not supported".into()),
    }
}
