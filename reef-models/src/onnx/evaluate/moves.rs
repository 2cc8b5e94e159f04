//! Operators that move values, change their type, or give them another shape.

use super::operands::{Operands, elements, from_front};
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use crate::onnx::constant::{Constant, Data};
use crate::onnx::fault::Result;

pub(super) fn shape(of: &Operands<'_, '_>) -> Result<Constant> {
    let x = of.any(0)?;
    let sizes = List::of(x.dims.len(), x.dims.iter().map(|&size| size as i64), of.ledger())?;
    Ok(Constant::ints(vec![x.dims.len()], sizes))
}

pub(super) fn cast(of: &Operands<'_, '_>) -> Result<Constant> {
    let x = of.any(0)?;
    let data = match (of.node.int("to", 0)?, &x.data) {
        (1, Data::Ints(values)) => {
            let floats = values.iter().map(|&value| value as f32);
            Data::Floats(List::of(values.len(), floats, of.ledger())?)
        }
        (6 | 7, Data::Floats(values)) => {
            let ints = values.iter().map(|&value| value as i64);
            Data::Ints(List::of(values.len(), ints, of.ledger())?)
        }
        (1 | 6 | 7, _) => return Constant::own(x, of.ledger()),
        (other, _) => return Err(format!("attribute to = {other}")),
    };
    Ok(Constant { dims: x.dims.clone(), data })
}

pub(super) fn flatten(of: &Operands<'_, '_>) -> Result<Constant> {
    let x = of.own(0)?;
    let axis = of.node.int("axis", 1)?;
    let axis =
        if axis == x.dims.len() as i64 { x.dims.len() } else { from_front(axis, x.dims.len())? };
    let (rows, columns) = x.dims.split_at(axis);
    let dims = vec![rows.iter().product(), columns.iter().product()];
    x.shaped(dims)
}

/// 0 keeps a size, -1 stands for what is left.
pub(super) fn reshape(of: &Operands<'_, '_>) -> Result<Constant> {
    let (x, wanted) = (of.own(0)?, of.ints(1)?);
    let zero_is_zero = of.node.int("allowzero", 0)? != 0;
    let fault = || format!("{:?} can't become {wanted:?}", x.dims);
    let mut dims = Vec::new();
    for (axis, &size) in wanted.iter().enumerate() {
        dims.push(match size {
            0 if !zero_is_zero => *x.dims.get(axis).ok_or_else(fault)?,
            -1 => 1,
            _ => usize::try_from(size).map_err(|_| fault())?,
        });
    }
    let (all, known) = (x.dims.iter().product::<usize>(), elements(&dims)?);
    if let Some(free) = wanted.iter().position(|&size| size == -1) {
        dims[free] = all.checked_div(known).ok_or_else(fault)?;
    }
    x.shaped(dims)
}

/// Drops axes of size 1.
pub(super) fn squeeze(of: &Operands<'_, '_>) -> Result<Constant> {
    let x = of.own(0)?;
    let all = of.node.ints("axes")?.is_none() && of.node.operand(1).is_none();
    let axes = of.axes("axes", x.dims.len())?;
    let goes = |axis: usize| axes.contains(&axis) && (!all || x.dims[axis] == 1);
    let left = (0..x.dims.len()).filter(|&axis| !goes(axis)).map(|axis| x.dims[axis]).collect();
    x.shaped(left)
}

/// Puts in axes of size 1.
pub(super) fn unsqueeze(of: &Operands<'_, '_>) -> Result<Constant> {
    let x = of.own(0)?;
    let added = match of.node.ints("axes")? {
        Some(axes) => axes.len(),
        None => of.ints(1)?.len(),
    };
    let rank = x.dims.len() + added;
    if added > x.dims.len() + 8 {
        return Err(format!("{added} axes of size 1"));
    }
    let axes = of.axes("axes", rank)?;
    let mut sizes = x.dims.iter().copied();
    let size = |axis: usize| if axes.contains(&axis) { 1 } else { sizes.next().unwrap_or(1) };
    let dims = (0..rank).map(size).collect();
    x.shaped(dims)
}

pub(super) fn transpose(of: &Operands<'_, '_>) -> Result<Constant> {
    let x = of.any(0)?;
    let rank = x.dims.len();
    let order: Vec<usize> = match of.node.ints("perm")? {
        Some(perm) => perm.iter().map(|&axis| from_front(axis, rank)).collect::<Result<_>>()?,
        None => (0..rank).rev().collect(),
    };
    if (0..rank).any(|axis| !order.contains(&axis)) || order.len() != rank {
        return Err(format!("attribute perm = {order:?} of {rank} axes"));
    }
    let dims: Vec<usize> = order.iter().map(|&axis| x.dims[axis]).collect();
    let place = |mut i: usize| {
        let mut place = 0;
        for (&axis, &size) in order.iter().zip(&dims).rev() {
            place += i % size * x.dims[axis + 1..].iter().product::<usize>();
            i /= size;
        }
        place
    };
    x.pick(dims.clone(), (0..dims.iter().product()).map(place), of.ledger())
}

pub(super) fn concat(of: &Operands<'_, '_>) -> Result<Constant> {
    let first = of.own(0)?;
    let axis = from_front(of.node.int("axis", 0)?, first.dims.len())?;
    let mut whole = first;
    for index in 1..of.count() {
        let next = of.any(index)?;
        whole = join_two(&whole, &next, axis, of.ledger())?;
    }
    Ok(whole)
}

/// Two tensors one behind the other along `axis`.
fn join_two(a: &Constant, b: &Constant, axis: usize, ledger: &Ledger) -> Result<Constant> {
    let mut dims = a.dims.clone();
    let alike = b.dims.len() == dims.len()
        && (0..dims.len()).all(|other| other == axis || a.dims[other] == b.dims[other]);
    if !alike {
        return Err(format!("tensors of {:?} and {:?} along axis {axis}", a.dims, b.dims));
    }
    dims[axis] += b.dims[axis];
    elements(&dims)?;
    let run = |x: &Constant| x.dims[axis..].iter().product::<usize>();
    let data = match (&a.data, &b.data) {
        (Data::Floats(x), Data::Floats(y)) => Data::Floats(in_turn(x, run(a), y, run(b), ledger)?),
        (Data::Ints(x), Data::Ints(y)) => Data::Ints(in_turn(x, run(a), y, run(b), ledger)?),
        _ => return Err("tensors of floats and of integers".into()),
    };
    Ok(Constant { dims, data })
}

/// A run of `a`, one of `b`, and so on.
fn in_turn<T: Copy>(
    a: &[T],
    run_a: usize,
    b: &[T],
    run_b: usize,
    ledger: &Ledger,
) -> Result<List<T>> {
    let runs = a.chunks(run_a.max(1)).zip(b.chunks(run_b.max(1)));
    let all = runs.flat_map(|(a, b)| a.iter().chain(b).copied());
    Ok(List::of(a.len() + b.len(), all, ledger)?)
}

/// Slices of an axis, in the order of the indices, whose sizes take the axis' place.
pub(super) fn gather(of: &Operands<'_, '_>) -> Result<Constant> {
    let (x, indices) = (of.any(0)?, of.any(1)?);
    let axis = from_front(of.node.int("axis", 0)?, x.dims.len())?;
    let size = x.dims[axis];
    let picked = indices.as_ints()?.iter().map(|&index| from_front(index, size));
    let picked = picked.collect::<Result<Vec<_>>>()?;
    let inner: usize = x.dims[axis + 1..].iter().product();
    let outer: usize = x.dims[..axis].iter().product();
    let dims = [&x.dims[..axis], &indices.dims, &x.dims[axis + 1..]].concat();
    let mut places = List::with_capacity(elements(&dims)?, of.ledger())?;
    for o in 0..outer {
        for &index in &picked {
            let first = (o * size + index) * inner;
            places.append(inner, first..first + inner, of.ledger())?;
        }
    }
    x.pick(dims, places.iter().copied(), of.ledger())
}
