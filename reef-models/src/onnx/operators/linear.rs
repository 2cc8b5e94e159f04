//! Convolutions and fully connected layers, with weights that stand in the file.

use super::shapes::picture;
use crate::ir::value::{Conv, Make, POINT};
use crate::memory::list::List;
use crate::onnx::constant::{Constant, Data};
use crate::onnx::fault::Result;
use crate::onnx::node::{Node, size};
use crate::onnx::scope::{Form, Reader, Tensor};
use crate::onnx::window::Sliding;
use reef_core::op::Window;

/// What to call the step that uses the weights at operand `index`: torchvision's module, if the
/// weights have its name.
pub(super) fn module<'a>(node: &Node<'a>, index: usize) -> &'a str {
    let module = node.operand(index).and_then(|name| name.strip_suffix(".weight"));
    module.unwrap_or(node.name())
}

pub(super) fn conv<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.picture(node, 0)?;
    let weights = reader.own(node, 1)?;
    let [batch, channels, height, width] = reader.shape(x);
    let &[outputs, per_group, rows, columns] = weights.dims.as_slice() else {
        return Err(format!("weights of {:?}, four sizes wanted", weights.dims));
    };
    let groups = size("group", node.int("group", 1)?)?;
    let fits = groups > 0 && per_group.checked_mul(groups) == Some(channels) && outputs > 0;
    if !fits || outputs % groups != 0 {
        let weights = &weights.dims;
        return Err(format!("weights of {weights:?} in {groups} groups over {channels} channels"));
    }
    let kernel = node.pair("kernel_shape", 0)?;
    if node.ints("kernel_shape")?.is_some() && kernel != [rows, columns] {
        return Err(format!("attribute kernel_shape = {kernel:?}, weights of {:?}", weights.dims));
    }
    let sliding = Sliding::of(node, [rows, columns], [height, width])?;
    let bias = bias(reader, node, outputs)?;
    let (window, weights) = sliding.of_conv(weights.into_floats()?, reader.ledger)?;
    let [height, width] = window.over([height, width]);
    let make = Conv::plain(x, window, groups, weights, bias);
    let shape = [batch, outputs, height, width];
    picture(reader.push(module(node, 1), shape, Make::Conv(make))?)
}

/// Operand 2 as one value for each output.
fn bias<'a>(reader: &Reader<'a>, node: &Node<'a>, outputs: usize) -> Result<List<f32>> {
    let ledger = reader.ledger;
    let Some(bias) = reader.constant(node, 2)? else {
        return Ok(List::filled(0.0, outputs, ledger)?);
    };
    let dims = bias.dims.clone();
    match bias.as_floats()? {
        &[value] => Ok(List::filled(value, outputs, ledger)?),
        values if values.len() == outputs => Constant::own(bias, ledger)?.into_floats(),
        _ => Err(format!("bias of {dims:?} for {outputs} outputs")),
    }
}

pub(super) fn gemm<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let weights = reader.wanted(node, 1)?;
    let transposed = node.int("transB", 0)? != 0;
    if node.int("transA", 0)? != 0 {
        return Err("attribute transA is not supported".into());
    }
    let (alpha, beta) = (node.float("alpha")?.unwrap_or(1.0), node.float("beta")?.unwrap_or(1.0));
    let weights = match transposed {
        true => Constant::own(weights, reader.ledger)?,
        false => weights.transposed(reader.ledger)?,
    };
    let outputs = weights.dims.first().copied().unwrap_or_default();
    let mut bias = bias(reader, node, outputs)?;
    bias.iter_mut().for_each(|value| *value *= beta);
    let Constant { dims, data } = weights;
    let Data::Floats(mut weights) = data else { return Err("weights are integers".into()) };
    weights.iter_mut().for_each(|value| *value *= alpha);
    linear(reader, node, Constant::floats(dims, weights), bias)
}

pub(super) fn matmul<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let weights = reader.wanted(node, 1)?.transposed(reader.ledger)?;
    let bias = List::filled(0.0, weights.dims[0], reader.ledger)?;
    linear(reader, node, weights, bias)
}

/// Weights are `[outputs][inputs]`. Over a picture this is a convolution with a window as large as
/// it.
fn linear<'a>(
    reader: &mut Reader<'a>,
    node: &Node<'a>,
    weights: Constant,
    bias: List<f32>,
) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    let (dims, [batch, _, height, width]) = (reader.dims(x), reader.shape(x.id));
    let &[outputs, inputs] = weights.dims.as_slice() else {
        return Err(format!("weights of {:?}, a matrix wanted", weights.dims));
    };
    if x.form != Form::Flat || dims[1] != inputs {
        return Err(format!("{outputs} by {inputs} weights for a tensor of {dims:?}"));
    }
    let window = Window { size: [height, width], ..POINT };
    let weights = weights.into_floats()?;
    let make = Conv::plain(x.id, window, 1, weights, bias);
    let id = reader.push(module(node, 1), [batch, outputs, 1, 1], Make::Conv(make))?;
    Ok(Tensor { id, form: Form::Flat })
}
