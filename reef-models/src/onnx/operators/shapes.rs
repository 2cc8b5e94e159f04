//! What moves elements or only sees them differently.

use crate::ir::value::{Conv, Id, Make, POINT};
use crate::memory::list::List;
use crate::onnx::constant::MAX_RANK;
use crate::onnx::fault::{Result, few};
use crate::onnx::node::Node;
use crate::onnx::scope::{Form, Reader, Tensor, axes, axis};
use std::collections::HashSet;

pub(super) fn picture(id: Id) -> Result<Tensor> {
    Ok(Tensor { id, form: Form::Picture })
}

/// Channels of a tensor that has them in its second dimension.
pub(super) fn channels(reader: &Reader<'_>, x: Tensor) -> Result<usize> {
    let dims = reader.dims(x);
    let channels = reader.shape(x.id)[1];
    match x.form != Form::Plane && dims[1] == channels {
        true => Ok(channels),
        false => Err(format!("a tensor of {dims:?} is not supported")),
    }
}

/// Axes that an attribute or operand 1 lists.
pub(super) fn all_axes<'a>(
    reader: &Reader<'a>,
    node: &Node<'a>,
    name: &'static str,
    rank: usize,
) -> Result<HashSet<usize>> {
    match node.ints(name)? {
        Some(list) => axes(list, rank),
        None => axes(reader.wanted(node, 1)?.as_ints()?, rank),
    }
}

pub(super) fn concat<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let first = reader.tensor(node, 0)?;
    let (dims, [batch, _, height, width]) = (reader.dims(first), reader.shape(first.id));
    let axis = axis(node.int("axis", 0)?, dims.len())?;
    channels(reader, first)?;
    let (mut parts, mut all) = (List::with_capacity(node.file.inputs.len(), reader.ledger)?, 0);
    for index in 0..node.file.inputs.len() {
        let part = reader.tensor(node, index)?;
        let [n, channels, h, w] = reader.shape(part.id);
        if axis != 1 || part.form != first.form || [n, h, w] != [batch, height, width] {
            let part = reader.dims(part);
            return Err(format!("tensors of {dims:?} and {part:?} along axis {axis}"));
        }
        parts.push(part.id, reader.ledger)?;
        all += channels;
    }
    if parts.len() == 1 {
        return Ok(first);
    }
    let id = reader.push(node.name(), [batch, all, height, width], Make::Concat { parts })?;
    Ok(Tensor { id, ..first })
}

/// Some channels of a picture: a convolution whose weights are one or zero.
pub(super) fn gather<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.picture(node, 0)?;
    let indices = reader.wanted(node, 1)?;
    let [batch, channels, height, width] = reader.shape(x);
    if axis(node.int("axis", 0)?, 4)? != 1 || indices.dims.len() > 1 {
        return Err("only channels (axis 1) can be picked".into());
    }
    let pick = |&index: &i64| axis(index, channels);
    let indices_of = indices.as_ints()?;
    let picked = List::try_of(indices_of.len(), indices_of.iter().map(pick), reader.ledger)?;
    let filter = |&from: &usize| (0..channels).map(move |c| f32::from(u8::from(c == from)));
    let len = picked.len().saturating_mul(channels);
    let weights = List::of(len, picked.iter().flat_map(filter), reader.ledger)?;
    let bias = List::filled(0.0, picked.len(), reader.ledger)?;
    let make = Conv::plain(x, POINT, 1, weights, bias);
    let shape = [batch, picked.len(), height, width];
    let id = reader.push(node.name(), shape, Make::Conv(make))?;
    let form = if indices.dims.is_empty() { Form::Plane } else { Form::Picture };
    Ok(Tensor { id, form })
}

pub(super) fn flatten<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    let rank = reader.dims(x).len();
    match (axis(node.int("axis", 1)?, rank)?, x.form) {
        (1, Form::Picture | Form::Flat) => Ok(Tensor { form: Form::Flat, ..x }),
        (axis, _) => Err(format!("axis {axis} of {rank} is not supported")),
    }
}

pub(super) fn reshape<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
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
pub(super) fn target(have: &[usize], wanted: &[i64]) -> Result<Vec<usize>> {
    let fault = || format!("{have:?} can't become {}", few(wanted));
    if wanted.len() > MAX_RANK {
        return Err(fault());
    }
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

pub(super) fn squeeze<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
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

pub(super) fn unsqueeze<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    let over = all_axes(reader, node, "axes", 4)?;
    let [.., height, width] = reader.shape(x.id);
    match x.form {
        Form::Plane if over == [1].into() => picture(x.id),
        Form::Flat if over == [2, 3].into() && [height, width] == [1, 1] => picture(x.id),
        _ => Err(format!("axes {over:?} to a tensor of {:?}", reader.dims(x))),
    }
}

pub(super) fn transpose<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.tensor(node, 0)?;
    let perm = node.ints("perm")?.ok_or("the order of a tensor can't be changed")?;
    match perm.iter().copied().eq(0..reader.dims(x).len() as i64) {
        true => Ok(x),
        false => {
            let perm = few(perm);
            Err(format!("attribute perm = {perm}: the order of a tensor can't be changed"))
        }
    }
}
