//! Operators that change shapes alone.

use crate::onnx::fault::Result;
use crate::onnx::general::call::{Call, one};
use crate::tensors::axes::{axes, axis};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::Element;

pub(in crate::onnx::general::operators) fn shape(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "Shape" => one(sizes(b, call)?),
        "Size" => one(count(b, call)?),
        "Reshape" => one(reshape(b, call)?),
        "Flatten" => one(flatten(b, call)?),
        "Squeeze" => one(squeeze(b, call)?),
        "Unsqueeze" => one(unsqueeze(b, call)?),
        _ => Ok(None),
    }
}

/// Sizes of a tensor. One that data decide is computed.
fn sizes(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let dims = call.get(0)?.dims();
    let rank = dims.len() as i64;
    let clamp = |place: i64| {
        if place < 0 { place.saturating_add(rank) } else { place }.clamp(0, rank) as usize
    };
    let (from, to) = (clamp(call.int("start", 0)?), clamp(call.int("end", rank)?));
    let to = to.max(from);
    let known = |b: &Builder<'_>, dims: &[usize]| {
        let sizes: Vec<i64> = dims.iter().map(|&size| size as i64).collect();
        b.whole(vec![sizes.len()], sizes)
    };
    let Some(bound) = call.bound(0).filter(|bound| (from..to).contains(&bound.axis)) else {
        return known(b, &dims[from..to]);
    };
    let (before, behind) = (&dims[from..bound.axis], &dims[bound.axis + 1..to]);
    let (before, behind) = (known(b, before)?, known(b, behind)?);
    let size = b.cast(&bound.size, Element::I64)?;
    let size = b.reshape(&size, vec![1])?;
    b.concat(&[&before, &size, &behind], 0)
}

/// Number of elements. If data decide about a size, it is computed.
fn count(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let Some(bound) = call.bound(0) else {
        return b.whole(Vec::new(), vec![x.spec.elements() as i64]);
    };
    let others = x.spec.elements() / x.dims()[bound.axis].max(1);
    let size = b.cast(&bound.size, Element::I64)?;
    let size = b.reshape(&size, Vec::new())?;
    b.each(&size, |w, size| {
        let others = w.whole(others as i64);
        w.mul(size, others)
    })
}

/// 0 is the size that was there, -1 whatever is left.
fn reshape(b: &Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let asked = match call.ints("shape")? {
        Some(list) => list.to_vec(),
        None => call.upper_bounds(1)?.ok_or("operand 1 is missing")?,
    };
    let keeps_zero = call.flag("allowzero", false)?;
    let mut dims = Vec::with_capacity(asked.len());
    for (k, &size) in asked.iter().enumerate() {
        dims.push(match size {
            0 if !keeps_zero => {
                *x.dims().get(k).ok_or_else(|| format!("{:?} can't become {asked:?}", x.dims()))?
            }
            -1 => 1,
            size => crate::tensors::axes::size(size)?,
        });
    }
    if asked.iter().filter(|&&size| size == -1).count() > 1 {
        return Err(format!("sizes {asked:?}, of which one may be -1"));
    }
    if let Some(open) = asked.iter().position(|&size| size == -1) {
        let others = crate::tensors::axes::elements(&dims)?;
        let left = x.spec.elements().checked_div(others);
        dims[open] = left.ok_or_else(|| format!("{:?} can't become {asked:?}", x.dims()))?;
    }
    b.reshape(x, dims)
}

fn flatten(b: &Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let at = call.int("axis", 1)?;
    let at = if at == x.rank() as i64 { x.rank() } else { axis(at, x.rank().max(1))? };
    let [rows, columns] = [&x.dims()[..at.min(x.rank())], &x.dims()[at.min(x.rank())..]]
        .map(|dims| dims.iter().product());
    b.reshape(x, vec![rows, columns])
}

fn squeeze(b: &Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let all_ones = || (0..x.rank()).filter(|&k| x.dims()[k] == 1).collect();
    let listed = call.axes_of(1, x.rank())?.filter(|axes| !axes.is_empty());
    let gone: Vec<usize> = listed.unwrap_or_else(all_ones);
    if let Some(&k) = gone.iter().find(|&&k| x.dims()[k] != 1) {
        return Err(format!("axis {k} of {:?} has more than one element", x.dims()));
    }
    let dims = (0..x.rank()).filter(|k| !gone.contains(k)).map(|k| x.dims()[k]).collect();
    b.reshape(x, dims)
}

fn unsqueeze(b: &Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let list = call.ints_of("axes", 1)?.ok_or("operand 1 is missing")?;
    let new = axes(&list, x.rank() + list.len())?;
    let mut old = x.dims().iter();
    let size = |k| if new.contains(&k) { Some(1) } else { old.next().copied() };
    let dims = (0..x.rank() + new.len()).filter_map(size).collect();
    b.reshape(x, dims)
}
