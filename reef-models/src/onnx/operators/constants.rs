//! What is computed from constants alone: shapes, mostly.

use super::shapes::target;
use crate::memory::list::List;
use crate::onnx::constant::{Constant, Data};
use crate::onnx::fault::{Result, few};
use crate::onnx::node::Node;
use crate::onnx::scope::{Known, Reader, axis};
use std::rc::Rc;

/// The result if it doesn't depend on the input.
pub(super) fn of_constants<'a>(
    reader: &Reader<'a>,
    node: &Node<'a>,
) -> Result<Option<Rc<Constant>>> {
    match node.file.op {
        "Constant" => return Ok(Some(Rc::new(node.constant()?))),
        "Shape" => {
            let dims = reader.dims(reader.tensor(node, 0)?);
            let sizes = dims.iter().map(|&size| size as i64);
            let sizes = List::of(dims.len(), sizes, reader.ledger)?;
            return Ok(Some(Rc::new(Constant::ints(vec![dims.len()], sizes))));
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
    if node.file.op == "Identity" {
        return Ok(Some(x)); // the same values under another name
    }
    computed(reader, node, x).map(Rc::new).map(Some)
}

/// The result of a node whose operands are constants, `x` the first of them.
fn computed<'a>(reader: &Reader<'a>, node: &Node<'a>, x: Rc<Constant>) -> Result<Constant> {
    match node.file.op {
        "Cast" => cast_constant(reader, node, x),
        "Transpose" => match node.ints("perm")? {
            None | Some([1, 0]) => x.transposed(reader.ledger),
            Some(perm) => {
                let perm = few(perm);
                Err(format!("attribute perm = {perm} of a constant is not supported"))
            }
        },
        "Concat" => concat_constants(reader, node),
        "Gather" => gather_constant(reader, node, &x),
        "Reshape" => {
            let wanted = reader.wanted(node, 1)?;
            let dims = target(&x.dims, wanted.as_ints()?)?;
            Constant::own(x, reader.ledger)?.shaped(dims)
        }
        _ => {
            let dims = in_one(node.file.op, &x.dims)?;
            Constant::own(x, reader.ledger)?.shaped(dims)
        }
    }
}

/// Sizes after a `Squeeze` or an `Unsqueeze` of what has one size at most.
fn in_one(op: &str, dims: &[usize]) -> Result<Vec<usize>> {
    match dims.iter().filter(|&&n| n != 1).count() {
        0 if op == "Squeeze" => Ok(Vec::new()),
        0 | 1 => Ok(vec![dims.iter().product()]),
        _ => Err(format!("a constant of {dims:?} is not supported")),
    }
}

fn cast_constant<'a>(reader: &Reader<'a>, node: &Node<'a>, x: Rc<Constant>) -> Result<Constant> {
    let data = match (node.int("to", 0)?, &x.data) {
        (1, Data::Ints(values)) => {
            let floats = values.iter().map(|&value| value as f32);
            Data::Floats(List::of(values.len(), floats, reader.ledger)?)
        }
        (6 | 7, Data::Floats(values)) => {
            let ints = values.iter().map(|&value| value as i64);
            Data::Ints(List::of(values.len(), ints, reader.ledger)?)
        }
        (1 | 6 | 7, _) => return Constant::own(x, reader.ledger),
        (other, _) => return Err(format!("attribute to = {other} is not supported")),
    };
    Ok(Constant { dims: x.dims.clone(), data })
}

fn concat_constants<'a>(reader: &Reader<'a>, node: &Node<'a>) -> Result<Constant> {
    node.int("axis", 0)?;
    let mut all = List::default();
    for index in 0..node.file.inputs.len() {
        let part = reader.wanted(node, index)?;
        if part.dims.len() != 1 {
            return Err(format!("constants of {:?} are not supported", part.dims));
        }
        let part = part.as_ints()?;
        all.append(part.len(), part.iter().copied(), reader.ledger)?;
    }
    Ok(Constant::ints(vec![all.len()], all))
}

fn gather_constant<'a>(reader: &Reader<'a>, node: &Node<'a>, x: &Constant) -> Result<Constant> {
    node.int("axis", 0)?;
    let (values, indices) = (x.as_ints()?, reader.wanted(node, 1)?);
    let pick = |&index: &i64| axis(index, values.len()).map(|index| values[index]);
    let len = indices.as_ints()?.len();
    let picked = List::try_of(len, indices.as_ints()?.iter().map(pick), reader.ledger)?;
    match x.dims.len() {
        1 => Ok(Constant::ints(indices.dims.clone(), picked)),
        _ => Err(format!("a constant of {:?} is not supported", x.dims)),
    }
}
