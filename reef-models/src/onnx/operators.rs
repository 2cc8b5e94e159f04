//! What each operator makes of its operands.

use super::constant::{Constant, Data};
use super::graph::{Form, Known, Reader, Tensor, axes, axis};
use super::node::{Node, Result, size};
use super::window::Sliding;
use crate::net::{Affine, Conv, Id, Make, POINT};
use reef_core::op::{PoolKind, Window};

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
    "Identity",
    "MatMul",
    "MaxPool",
    "Mul",
    "ReduceMean",
    "Relu",
    "Reshape",
    "Shape",
    "Squeeze",
    "Sub",
    "Transpose",
    "Unsqueeze",
];

/// What the first output of `node` is.
pub(super) fn read<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Known<'a>> {
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

/// The result if it doesn't depend on the input.
fn of_constants<'a>(reader: &Reader<'a>, node: &Node<'a>) -> Result<Option<Constant>> {
    match node.file.op {
        "Constant" => return node.constant().map(Some),
        "Shape" => {
            let dims = reader.dims(reader.tensor(node, 0)?);
            let sizes = dims.iter().map(|&size| size as i64).collect();
            return Ok(Some(Constant::ints(vec![dims.len()], sizes)));
        }
        _ => {}
    }
    let folds =
        ["Identity", "Cast", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Gather", "Concat"];
    let is_tensor = |index| matches!(reader.operand(node, index), Ok(Known::Tensor(_)));
    if !folds.contains(&node.file.op) || (0..node.file.inputs.len()).any(is_tensor) {
        return Ok(None);
    }
    let x = reader.wanted(node, 0)?;
    match node.file.op {
        "Identity" => Ok(x),
        "Cast" => cast_constant(node, x),
        "Transpose" => match node.ints("perm") {
            None | Some([1, 0]) => x.transposed(),
            Some(perm) => Err(format!("attribute perm = {perm:?} of a constant is not supported")),
        },
        "Concat" => concat_constants(reader, node),
        "Gather" => gather_constant(reader, node, &x),
        "Reshape" => {
            let wanted = reader.wanted(node, 1)?;
            let dims = target(&x.dims, wanted.as_ints()?)?;
            x.shaped(dims)
        }
        _ => {
            let len = x.dims.iter().product();
            match x.dims.iter().filter(|&&n| n != 1).count() {
                0 if node.file.op == "Squeeze" => x.shaped(Vec::new()),
                0 | 1 => x.shaped(vec![len]),
                _ => Err(format!("a constant of {:?} is not supported", x.dims)),
            }
        }
    }
    .map(Some)
}

fn cast_constant(node: &Node<'_>, x: Constant) -> Result<Constant> {
    let data = match (node.int("to", 0)?, x.data) {
        (1, Data::Ints(values)) => Data::Floats(values.iter().map(|&v| v as f32).collect()),
        (6 | 7, Data::Floats(values)) => Data::Ints(values.iter().map(|&v| v as i64).collect()),
        (1 | 6 | 7, same) => same,
        (other, _) => return Err(format!("attribute to = {other} is not supported")),
    };
    Ok(Constant { dims: x.dims, data })
}

fn concat_constants<'a>(reader: &Reader<'a>, node: &Node<'a>) -> Result<Constant> {
    node.int("axis", 0)?;
    let mut all = Vec::new();
    for index in 0..node.file.inputs.len() {
        let part = reader.wanted(node, index)?;
        if part.dims.len() != 1 {
            return Err(format!("constants of {:?} are not supported", part.dims));
        }
        all.extend_from_slice(part.as_ints()?);
    }
    Ok(Constant::ints(vec![all.len()], all))
}

fn gather_constant<'a>(reader: &Reader<'a>, node: &Node<'a>, x: &Constant) -> Result<Constant> {
    node.int("axis", 0)?;
    let (values, indices) = (x.as_ints()?, reader.wanted(node, 1)?);
    let pick = |&index: &i64| axis(index, values.len()).map(|index| values[index]);
    let picked = indices.as_ints()?.iter().map(pick).collect::<Result<_>>()?;
    match x.dims.len() {
        1 => Ok(Constant::ints(indices.dims, picked)),
        _ => Err(format!("a constant of {:?} is not supported", x.dims)),
    }
}

/// What to call the step that uses the weights at operand `index`: torchvision's module, if the weights
/// have its name.
fn module<'a>(node: &Node<'a>, index: usize) -> &'a str {
    let module = node.operand(index).and_then(|name| name.strip_suffix(".weight"));
    module.unwrap_or(node.name())
}

fn conv<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.picture(node, 0)?;
    let weights = reader.wanted(node, 1)?;
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
    if node.ints("kernel_shape").is_some() && kernel != [rows, columns] {
        return Err(format!("attribute kernel_shape = {kernel:?}, weights of {:?}", weights.dims));
    }
    let sliding = Sliding::of(node, [rows, columns], [height, width])?;
    let bias = bias(reader, node, outputs)?;
    let (window, weights) = sliding.of_conv(weights.into_floats()?)?;
    let [height, width] = window.over([height, width]);
    let make = Conv { x, window, groups, weights, bias, residual: None, relu: false };
    let shape = [batch, outputs, height, width];
    picture(reader.push(module(node, 1), shape, Make::Conv(make))?)
}

/// Operand 2 as one value for each output.
fn bias<'a>(reader: &Reader<'a>, node: &Node<'a>, outputs: usize) -> Result<Vec<f32>> {
    let Some(bias) = reader.constant(node, 2)? else { return Ok(vec![0.0; outputs]) };
    let dims = bias.dims.clone();
    let values = bias.into_floats()?;
    match values.len() {
        1 => Ok(vec![values[0]; outputs]),
        n if n == outputs => Ok(values),
        _ => Err(format!("bias of {dims:?} for {outputs} outputs")),
    }
}

fn picture(id: Id) -> Result<Tensor> {
    Ok(Tensor { id, form: Form::Picture })
}

fn gemm<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let weights = reader.wanted(node, 1)?;
    let transposed = node.int("transB", 0)? != 0;
    if node.int("transA", 0)? != 0 {
        return Err("attribute transA is not supported".into());
    }
    let (alpha, beta) = (node.float("alpha").unwrap_or(1.0), node.float("beta").unwrap_or(1.0));
    let weights = if transposed { weights } else { weights.transposed()? };
    let outputs = weights.dims.first().copied().unwrap_or_default();
    let bias = bias(reader, node, outputs)?.into_iter().map(|value| value * beta).collect();
    let Constant { dims, data } = weights;
    let weights = match data {
        Data::Floats(values) => values.into_iter().map(|value| value * alpha).collect(),
        Data::Ints(_) => return Err("weights are integers".into()),
    };
    linear(reader, node, Constant::floats(dims, weights), bias)
}

fn matmul<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let weights = reader.wanted(node, 1)?.transposed()?;
    let bias = vec![0.0; weights.dims[0]];
    linear(reader, node, weights, bias)
}

/// Weights are `[outputs][inputs]`. Over a picture this is a convolution with a window as large as it.
fn linear<'a>(
    reader: &mut Reader<'a>,
    node: &Node<'a>,
    weights: Constant,
    bias: Vec<f32>,
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
    let make = Conv { x: x.id, window, groups: 1, weights, bias, residual: None, relu: false };
    let id = reader.push(module(node, 1), [batch, outputs, 1, 1], Make::Conv(make))?;
    Ok(Tensor { id, form: Form::Flat })
}

fn batch_norm<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    let epsilon = f64::from(node.float("epsilon").unwrap_or(1e-5));
    node.float("momentum");
    if node.int("training_mode", 0)? != 0 {
        return Err("attribute training_mode is not supported".into());
    }
    let channels = channels(reader, x)?;
    let mut tensors = [const { Vec::new() }; 4];
    for (index, tensor) in tensors.iter_mut().enumerate() {
        *tensor = reader.wanted(node, index + 1)?.into_floats()?;
        if tensor.len() != channels {
            let (operand, len) = (index + 1, tensor.len());
            return Err(format!("operand {operand} has {len} values for {channels} channels"));
        }
    }
    let [gain, bias, mean, variance] = tensors;
    let scale = |c: usize| f64::from(gain[c]) / (f64::from(variance[c]) + epsilon).sqrt();
    let shift = |c: usize| f64::from(bias[c]) - f64::from(mean[c]) * scale(c);
    let scales = (0..channels).map(scale).collect();
    let shifts = (0..channels).map(shift).collect();
    let affine = Affine { x: x.id, scale: scales, shift: shifts, relu: false };
    map(reader, module(node, 1), x, Make::Affine(affine))
}

/// Channels of a tensor that has them in its second dimension.
fn channels(reader: &Reader<'_>, x: Tensor) -> Result<usize> {
    let dims = reader.dims(x);
    let channels = reader.shape(x.id)[1];
    match x.form != Form::Plane && dims[1] == channels {
        true => Ok(channels),
        false => Err(format!("a tensor of {dims:?} is not supported")),
    }
}

/// A value of the shape of `x`.
fn map(reader: &mut Reader<'_>, name: &str, x: Tensor, make: Make) -> Result<Tensor> {
    let shape = reader.shape(x.id);
    Ok(Tensor { id: reader.push(name, shape, make)?, ..x })
}

fn relu<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    map(reader, node.name(), x, Make::Relu { x: x.id })
}

/// Between bounds, each of which is a ReLU: `min(x, high) = high - relu(high - x)`.
fn clip<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let mut x = reader.tensor(node, 0)?;
    let low = bound(reader, node, 1)?.filter(|&low| low > f64::from(f32::MIN));
    let high = bound(reader, node, 2)?.filter(|&high| high < f64::from(f32::MAX));
    if low.zip(high).is_some_and(|(low, high)| low > high) {
        return Err(format!("bounds {low:?} and {high:?}"));
    }
    let base = low.unwrap_or(0.0);
    let name = node.name();
    if let Some(high) = high {
        x = affine(reader, name, x, -1.0, high)?;
        x = map(reader, name, x, Make::Relu { x: x.id })?;
        x = affine(reader, name, x, -1.0, high - base)?;
    } else if base != 0.0 {
        x = affine(reader, name, x, 1.0, -base)?;
    }
    if low.is_some() {
        x = map(reader, name, x, Make::Relu { x: x.id })?;
    }
    if base != 0.0 { affine(reader, name, x, 1.0, base) } else { Ok(x) }
}

fn bound<'a>(reader: &Reader<'a>, node: &Node<'a>, index: usize) -> Result<Option<f64>> {
    let Some(bound) = reader.constant(node, index)? else { return Ok(None) };
    match bound.into_floats()?.as_slice() {
        &[bound] if !bound.is_nan() => Ok(Some(bound.into())),
        other => Err(format!("operand {index} is {other:?}, one number wanted")),
    }
}

fn affine(reader: &mut Reader<'_>, name: &str, x: Tensor, by: f64, and: f64) -> Result<Tensor> {
    let channels = reader.shape(x.id)[1];
    map(reader, name, x, Make::Affine(Affine::uniform(x.id, channels, by, and)))
}

fn pool<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.picture(node, 0)?;
    let [batch, channels, height, width] = reader.shape(x);
    if node.file.outputs.get(1).is_some_and(|name| !name.is_empty()) {
        return Err("a second output is not supported".into());
    }
    let sliding = Sliding::of(node, node.pair("kernel_shape", 0)?, [height, width])?;
    let (kind, counts_padding) = match node.file.op {
        "MaxPool" => (PoolKind::Max, None),
        _ => (PoolKind::Average, Some(node.int("count_include_pad", 0)? != 0)),
    };
    node.int("storage_order", 0)?; // of the second output
    let window = sliding.of_pool([height, width], counts_padding)?;
    if window == POINT {
        return picture(x);
    }
    let [height, width] = window.over([height, width]);
    let make = Make::Pool { x, kind, window };
    picture(reader.push(node.name(), [batch, channels, height, width], make)?)
}

fn global_pool<'a>(reader: &mut Reader<'a>, node: &Node<'a>, kind: PoolKind) -> Result<Tensor> {
    let x = reader.picture(node, 0)?;
    let [batch, channels, height, width] = reader.shape(x);
    let make = Make::Pool { x, kind, window: Window { size: [height, width], ..POINT } };
    picture(reader.push(node.name(), [batch, channels, 1, 1], make)?)
}

/// The mean of rows and columns, which is a global pool.
fn reduce_mean<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let keeps = node.int("keepdims", 1)? != 0;
    node.int("noop_with_empty_axes", 0)?;
    let over = all_axes(reader, node, "axes", 4)?;
    if over != [2, 3].into() {
        return Err(format!("axes {over:?}, only rows and columns (2 and 3) are supported"));
    }
    let pooled = global_pool(reader, node, PoolKind::Average)?;
    Ok(if keeps { pooled } else { Tensor { form: Form::Flat, ..pooled } })
}

/// Axes that an attribute or operand 1 lists.
fn all_axes<'a>(
    reader: &Reader<'a>,
    node: &Node<'a>,
    name: &'static str,
    rank: usize,
) -> Result<std::collections::HashSet<usize>> {
    match node.ints(name) {
        Some(list) => axes(list, rank),
        None => axes(reader.wanted(node, 1)?.as_ints()?, rank),
    }
}

fn arithmetic<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let is_tensor =
        |index| reader.operand(node, index).map(|known| matches!(known, Known::Tensor(_)));
    let op = node.file.op;
    let (x, by) = match [is_tensor(0)?, is_tensor(1)?] {
        [true, true] => return add(reader, node),
        [true, false] => (0, 1),
        _ if op == "Div" => return Err("a constant divided by a tensor is not supported".into()),
        _ => (1, 0),
    };
    let tensor = reader.tensor(node, x)?;
    let by = per_channel(reader, tensor, reader.wanted(node, by)?)?;
    let term = |value: &f64| match (op, x) {
        ("Add", _) => (1.0, *value),
        ("Sub", 0) => (1.0, -value),
        ("Sub", _) => (-1.0, *value),
        ("Mul", _) => (*value, 0.0),
        _ => (1.0 / value, 0.0),
    };
    let (scale, shift) = by.iter().map(term).unzip();
    let affine = Affine { x: tensor.id, scale, shift, relu: false };
    map(reader, node.name(), tensor, Make::Affine(affine))
}

/// One value for each channel of `x`, if the constant has the same for all else.
fn per_channel(reader: &Reader<'_>, x: Tensor, constant: Constant) -> Result<Vec<f64>> {
    let (dims, [_, channels, ..]) = (reader.dims(x), reader.shape(x.id));
    let shape = constant.dims.clone();
    let values: Vec<f64> = constant.into_floats()?.into_iter().map(f64::from).collect();
    if shape.len() <= dims.len() && values.len() == 1 {
        return Ok(vec![values[0]; channels]);
    }
    let mut lined_up = vec![1; dims.len().saturating_sub(shape.len())]; // at the end, as ONNX does
    lined_up.extend(&shape);
    let mut wanted = vec![1; dims.len()];
    wanted[1] = channels;
    match x.form != Form::Plane && dims[1] == channels && lined_up == wanted {
        true => Ok(values),
        false => Err(format!("a constant of {shape:?} to a tensor of {dims:?} is not supported")),
    }
}

fn add<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    if node.file.op != "Add" {
        return Err("only sums of two tensors are supported".into());
    }
    let (a, b) = (reader.tensor(node, 0)?, reader.tensor(node, 1)?);
    if a.form != b.form || reader.shape(a.id) != reader.shape(b.id) {
        let (a, b) = (reader.dims(a), reader.dims(b));
        return Err(format!("tensors of {a:?} and {b:?}, the same shape wanted"));
    }
    map(reader, node.name(), a, Make::Add { a: a.id, b: b.id })
}

fn concat<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let first = reader.tensor(node, 0)?;
    let (dims, [batch, _, height, width]) = (reader.dims(first), reader.shape(first.id));
    let axis = axis(node.int("axis", 0)?, dims.len())?;
    channels(reader, first)?;
    let (mut parts, mut all) = (Vec::new(), 0);
    for index in 0..node.file.inputs.len() {
        let part = reader.tensor(node, index)?;
        let [n, channels, h, w] = reader.shape(part.id);
        if axis != 1 || part.form != first.form || [n, h, w] != [batch, height, width] {
            let part = reader.dims(part);
            return Err(format!("tensors of {dims:?} and {part:?} along axis {axis}"));
        }
        parts.push(part.id);
        all += channels;
    }
    if parts.len() == 1 {
        return Ok(first);
    }
    let id = reader.push(node.name(), [batch, all, height, width], Make::Concat { parts })?;
    Ok(Tensor { id, ..first })
}

/// Some channels of a picture: a convolution whose weights are one or zero.
fn gather<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.picture(node, 0)?;
    let indices = reader.wanted(node, 1)?;
    let [batch, channels, height, width] = reader.shape(x);
    if axis(node.int("axis", 0)?, 4)? != 1 || indices.dims.len() > 1 {
        return Err("only channels (axis 1) can be picked".into());
    }
    let pick = |&index: &i64| axis(index, channels);
    let picked = indices.as_ints()?.iter().map(pick).collect::<Result<Vec<_>>>()?;
    let filter = |&from: &usize| (0..channels).map(move |c| f32::from(u8::from(c == from)));
    let weights = picked.iter().flat_map(filter).collect();
    let bias = vec![0.0; picked.len()];
    let make = Conv { x, window: POINT, groups: 1, weights, bias, residual: None, relu: false };
    let shape = [batch, picked.len(), height, width];
    let id = reader.push(node.name(), shape, Make::Conv(make))?;
    let form = if indices.dims.is_empty() { Form::Plane } else { Form::Picture };
    Ok(Tensor { id, form })
}

fn flatten<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    let rank = reader.dims(x).len();
    match (axis(node.int("axis", 1)?, rank)?, x.form) {
        (1, Form::Picture | Form::Flat) => Ok(Tensor { form: Form::Flat, ..x }),
        (axis, _) => Err(format!("axis {axis} of {rank} is not supported")),
    }
}

fn reshape<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    let wanted = reader.wanted(node, 1)?;
    if node.int("allowzero", 0)? != 0 && wanted.as_ints()?.contains(&0) {
        return Err("attribute allowzero is not supported".into());
    }
    let dims = target(&reader.dims(x), wanted.as_ints()?)?;
    let forms = [Form::Picture, Form::Flat].map(|form| Tensor { form, ..x });
    let seen = [x].into_iter().chain(forms).find(|&tensor| reader.dims(tensor) == dims);
    seen.ok_or_else(|| format!("a tensor of {:?} can't become {dims:?} here", reader.dims(x)))
}

/// Sizes after a reshape: 0 keeps one, -1 stands for what is left.
fn target(have: &[usize], wanted: &[i64]) -> Result<Vec<usize>> {
    let fault = || format!("{have:?} can't become {wanted:?}");
    let all: usize = have.iter().product();
    let mut dims = Vec::new();
    for (place, &size) in wanted.iter().enumerate() {
        dims.push(match size {
            0 => *have.get(place).ok_or_else(fault)?,
            -1 => 0,
            _ => usize::try_from(size).map_err(|_| fault())?,
        });
    }
    let free = wanted.iter().filter(|&&size| size == -1).count();
    let mut known = dims.iter().filter(|&&size| size != 0);
    let known = known.try_fold(1usize, |n, &size| n.checked_mul(size)).ok_or_else(fault)?;
    if free > 1 || !all.is_multiple_of(known) || (free == 0 && all != known) {
        return Err(fault());
    }
    dims.iter_mut().filter(|size| **size == 0).for_each(|size| *size = all / known);
    Ok(dims)
}

fn squeeze<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    let dims = reader.dims(x);
    let over = all_axes(reader, node, "axes", dims.len())?;
    let ones = over.iter().all(|&axis| dims[axis] == 1);
    match (x.form, ones) {
        (Form::Picture, true) if over == [2, 3].into() => Ok(Tensor { form: Form::Flat, ..x }),
        (Form::Picture, true) if over == [1].into() => Ok(Tensor { form: Form::Plane, ..x }),
        _ => Err(format!("axes {over:?} of a tensor of {dims:?} are not supported")),
    }
}

fn unsqueeze<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    let over = all_axes(reader, node, "axes", 4)?;
    let [.., height, width] = reader.shape(x.id);
    match x.form {
        Form::Plane if over == [1].into() => picture(x.id),
        Form::Flat if over == [2, 3].into() && [height, width] == [1, 1] => picture(x.id),
        _ => Err(format!("axes {over:?} to a tensor of {:?}", reader.dims(x))),
    }
}

/// Does nothing in inference.
fn dropout<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    node.int("seed", 0)?;
    if let Some(training) = reader.constant(node, 2)?
        && training.as_ints()?.iter().any(|&truth| truth != 0)
    {
        return Err("training is not supported".into());
    }
    reader.tensor(node, 0)
}

fn transpose<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    let perm = node.ints("perm").ok_or("the order of a tensor can't be changed")?;
    match perm.iter().copied().eq(0..reader.dims(x).len() as i64) {
        true => Ok(x),
        false => Err(format!("attribute perm = {perm:?}: the order of a tensor can't be changed")),
    }
}

fn cast<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    node.int("saturate", 1)?;
    match node.int("to", 0)? {
        1 => reader.tensor(node, 0),
        other => Err(format!("attribute to = {other}, 32-bit floats (1) are wanted")),
    }
}
