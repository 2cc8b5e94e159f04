//! What treats each element by itself: normalisation, activation, arithmetic.

use super::linear::module;
use super::shapes::channels;
use crate::ir::value::{Affine, Make};
use crate::memory::list::List;
use crate::model::check::is_epsilon;
use crate::onnx::constant::Constant;
use crate::onnx::fault::{Result, few};
use crate::onnx::node::Node;
use crate::onnx::scope::{Form, Known, Reader, Tensor};
use reef_core::op::{Bounds, Function};

pub(super) fn batch_norm<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    let epsilon = f64::from(node.float("epsilon")?.unwrap_or(1e-5));
    if !is_epsilon(epsilon) {
        return Err(format!("attribute epsilon = {epsilon}, a number of at least 0 is wanted"));
    }
    node.float("momentum")?;
    if node.int("training_mode", 0)? != 0 {
        return Err("attribute training_mode is not supported".into());
    }
    let channels = channels(reader, x)?;
    let mut tensors: [List<f32>; 4] = Default::default();
    for (index, tensor) in tensors.iter_mut().enumerate() {
        *tensor = reader.own(node, index + 1)?.into_floats()?;
        if tensor.len() != channels {
            let (operand, len) = (index + 1, tensor.len());
            return Err(format!("operand {operand} has {len} values for {channels} channels"));
        }
    }
    let [gain, bias, mean, variance] = tensors;
    let scale = |c: usize| f64::from(gain[c]) / (f64::from(variance[c]) + epsilon).sqrt();
    let shift = |c: usize| f64::from(bias[c]) - f64::from(mean[c]) * scale(c);
    let scales = List::of(channels, (0..channels).map(scale), reader.ledger)?;
    let shifts = List::of(channels, (0..channels).map(shift), reader.ledger)?;
    let affine = Affine { x: x.id, scale: scales, shift: shifts, relu: false };
    map(reader, module(node, 1), x, Make::Affine(affine))
}

/// A value of the shape of `x`.
pub(super) fn map(reader: &mut Reader<'_>, name: &str, x: Tensor, make: Make) -> Result<Tensor> {
    let shape = reader.shape(x.id);
    Ok(Tensor { id: reader.push(name, shape, make)?, ..x })
}

pub(super) fn relu<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    map(reader, node.name(), x, Make::Relu { x: x.id })
}

pub(super) fn activation<'a>(
    reader: &mut Reader<'a>,
    node: &Node<'a>,
    function: Function,
) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    map(reader, node.name(), x, Make::Activate { x: x.id, function })
}

/// As torch defines it; ONNX's own default for alpha is 0.2.
pub(super) fn hard_sigmoid<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    for (name, default, wanted) in [("alpha", 0.2, 1.0 / 6.0), ("beta", 0.5, 0.5)] {
        let given = node.float(name)?.unwrap_or(default);
        if (given - wanted).abs() > 1e-6 {
            return Err(format!("attribute {name} = {given}, {wanted} is wanted"));
        }
    }
    map(reader, node.name(), x, Make::Activate { x: x.id, function: Function::HardSigmoid })
}

/// Between bounds. Those that a file writes for "none" are the largest finite numbers.
pub(super) fn clip<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    let low = bound(reader, node, 1)?.filter(|&low| low > f32::MIN);
    let high = bound(reader, node, 2)?.filter(|&high| high < f32::MAX);
    let make = match (low, high) {
        (None, None) => return Ok(x),
        (Some(0.0), None) => Make::Relu { x: x.id },
        _ => {
            let (low, high) = (low.unwrap_or(f32::NEG_INFINITY), high.unwrap_or(f32::INFINITY));
            let bounds =
                Bounds::new(low, high).ok_or_else(|| format!("bounds {low} and {high}"))?;
            Make::Activate { x: x.id, function: Function::Clamp(bounds) }
        }
    };
    map(reader, node.name(), x, make)
}

fn bound<'a>(reader: &Reader<'a>, node: &Node<'a>, index: usize) -> Result<Option<f32>> {
    let Some(bound) = reader.constant(node, index)? else { return Ok(None) };
    match bound.as_floats()? {
        &[bound] if !bound.is_nan() => Ok(Some(bound)),
        other => Err(format!("operand {index} is {}, one number wanted", few(other))),
    }
}

pub(super) fn arithmetic<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let is_tensor =
        |index| reader.operand(node, index).map(|known| matches!(known, Known::Tensor(_)));
    let op = node.file.op;
    let (x, by) = match [is_tensor(0)?, is_tensor(1)?] {
        [true, true] => return of_two(reader, node),
        [true, false] => (0, 1),
        _ if op == "Div" => return Err("a constant divided by a tensor is not supported".into()),
        _ => (1, 0),
    };
    let tensor = reader.tensor(node, x)?;
    let by = per_channel(reader, tensor, &*reader.wanted(node, by)?)?;
    let term = |value: &f64| match (op, x) {
        ("Add", _) => (1.0, *value),
        ("Sub", 0) => (1.0, -value),
        ("Sub", _) => (-1.0, *value),
        ("Mul", _) => (*value, 0.0),
        _ => (1.0 / value, 0.0),
    };
    let scale = List::of(by.len(), by.iter().map(|by| term(by).0), reader.ledger)?;
    let shift = List::of(by.len(), by.iter().map(|by| term(by).1), reader.ledger)?;
    let affine = Affine { x: tensor.id, scale, shift, relu: false };
    map(reader, node.name(), tensor, Make::Affine(affine))
}

/// One value for each channel of `x`, if the constant has the same for all else.
fn per_channel(reader: &Reader<'_>, x: Tensor, constant: &Constant) -> Result<List<f64>> {
    let (dims, [_, channels, ..]) = (reader.dims(x), reader.shape(x.id));
    let (shape, values) = (&constant.dims, constant.as_floats()?);
    if let &[value] = values
        && shape.len() <= dims.len()
    {
        return Ok(List::filled(value.into(), channels, reader.ledger)?);
    }
    let mut lined_up = vec![1; dims.len().saturating_sub(shape.len())]; // at the end, as ONNX does
    lined_up.extend(shape);
    let mut wanted = vec![1; dims.len()];
    wanted[1] = channels;
    match x.form != Form::Plane && dims[1] == channels && lined_up == wanted {
        true => Ok(List::of(values.len(), values.iter().map(|&v| v.into()), reader.ledger)?),
        false => Err(format!("a constant of {shape:?} to a tensor of {dims:?} is not supported")),
    }
}

/// A sum of two tensors of one shape, or their product, of which one may be a gate.
fn of_two<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let (a, b) = (reader.tensor(node, 0)?, reader.tensor(node, 1)?);
    let alike = a.form == b.form && reader.shape(a.id) == reader.shape(b.id);
    match node.file.op {
        "Add" if alike => map(reader, node.name(), a, Make::Add { a: a.id, b: b.id }),
        "Mul" if alike || is_gate_of(reader, b, a) => product(reader, node, a, b),
        "Mul" if is_gate_of(reader, a, b) => product(reader, node, b, a),
        "Add" | "Mul" => {
            let (a, b) = (reader.dims(a), reader.dims(b));
            let or = if node.file.op == "Mul" { " or one value for each channel" } else { "" };
            Err(format!("tensors of {a:?} and {b:?}, the same shape{or} wanted"))
        }
        _ => Err("only sums and products of two tensors are supported".into()),
    }
}

/// Whether `gate` has one value for each channel of each image of `x`.
fn is_gate_of(reader: &Reader<'_>, gate: Tensor, x: Tensor) -> bool {
    let [batch, channels, ..] = reader.shape(x.id);
    let pictures = [gate, x].iter().all(|tensor| tensor.form == Form::Picture);
    pictures && reader.shape(gate.id) == [batch, channels, 1, 1]
}

fn product<'a>(
    reader: &mut Reader<'a>,
    node: &Node<'a>,
    x: Tensor,
    factor: Tensor,
) -> Result<Tensor> {
    map(reader, node.name(), x, Make::Multiply { x: x.id, factor: factor.id })
}

/// Does nothing in inference.
pub(super) fn dropout<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    node.int("seed", 0)?;
    if let Some(training) = reader.constant(node, 2)?
        && training.as_ints()?.iter().any(|&truth| truth != 0)
    {
        return Err("training is not supported".into());
    }
    reader.tensor(node, 0)
}

pub(super) fn cast<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    node.int("saturate", 1)?;
    match node.int("to", 0)? {
        1 => reader.tensor(node, 0),
        other => Err(format!("attribute to = {other}, 32-bit floats (1) are wanted")),
    }
}
