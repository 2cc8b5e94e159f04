//! What is computed from constants alone: shapes, mostly.

use super::shapes::target;
use crate::onnx::constant::{Constant, Data};
use crate::onnx::fault::Result;
use crate::onnx::node::Node;
use crate::onnx::scope::{Known, Reader, axis};

/// The result if it doesn't depend on the input.
pub(super) fn of_constants<'a>(reader: &Reader<'a>, node: &Node<'a>) -> Result<Option<Constant>> {
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
