//! Operators that put elements elsewhere.

use super::selected::{Selection, bounded};
use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::bounds::before::{masked, real_rows};
use crate::onnx::general::bounds::points;
use crate::onnx::general::call::{Call, one};
use crate::onnx::general::operators::elements::cast::sizes;
use crate::tensors::axes::{axis, broadcast, elements, size};
use crate::tensors::builder::Builder;
use crate::tensors::value::{Bound, Value};
use reef_op::tensor::{Array, NOWHERE, Scalar, Truth};

pub(in crate::onnx::general::operators) fn movement(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "Transpose" => one(transpose(b, call)?),
        "Concat" => one(concat(b, call)?),
        "Expand" => {
            let asked = sizes(&call.upper_bounds(1)?.ok_or("operand 1 is missing")?)?;
            let dims = broadcast([call.get(0)?.dims(), asked.as_slice()])?;
            one(b.expand(call.get(0)?, &dims)?)
        }
        "Tile" => one(tile(b, call)?),
        "Pad" => one(pad(b, call)?),
        "Trilu" => one(trilu(b, call)?),
        "DepthToSpace" => one(depth_to_space(b, call)?),
        "SpaceToDepth" => one(space_to_depth(b, call)?),
        "CenterCropPad" => one(centre(b, call)?),
        _ => Ok(None),
    }
}

/// Tensors one after the other. If data decide how many rows they have, the real rows of each.
fn concat(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let all = call.all()?;
    let at = call.axis(1, all.first().map_or(0, |value| value.rank()))?;
    let made = b.concat(&all, at)?;
    let own = |k: usize| call.bound(k).filter(|bound| bound.axis == at);
    if (0..all.len()).all(|k| own(k).is_none()) {
        return Ok(made);
    }
    if let (Some(own), 1) = (own(0), all.len()) {
        return bounded(b, call, 0, made, at, &own.size);
    }
    let mut keep = Vec::new();
    let mut number = Some(0i64);
    for (k, value) in all.iter().enumerate() {
        let len = value.dims()[at];
        let rows = own(k).map_or(Some(len as i64), |own| call.marks.number(&own.size));
        number = number.zip(rows).and_then(|(all, rows)| all.checked_add(rows));
        keep.push(match (own(k), call.bound(k)) {
            (Some(own), _) => real_rows(b, &[len], &Bound { axis: 0, size: own.size.clone() })?,
            (None, Some(_)) => {
                return Err(beyond("data decide about sizes along two axes: fix one of them"));
            }
            (None, None) => {
                let _making = b.ledger.charge(len as u64)?;
                b.constant(vec![len], Array::Bool(vec![Truth(1); len]))?
            }
        });
    }
    let keep = b.concat(&keep.iter().collect::<Vec<_>>(), 0)?;
    let chosen = Selection::of(b, &keep)?;
    if let Some(number) = number {
        call.marks.set_computed(&chosen.count, number);
    }
    let rows = chosen.rows(b, &made, at)?;
    chosen.bound(b, call, 0, rows, at)
}

fn transpose(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let Some(list) = call.ints("perm")? else {
        return b.transpose(x, &(0..x.rank()).rev().collect::<Vec<_>>());
    };
    let order = list.iter().map(|&k| axis(k, x.rank())).collect::<Result<Vec<_>>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if sorted.into_iter().eq(0..x.rank()) {
        b.transpose(x, &order)
    } else {
        Err(format!("attribute perm = {list:?} of {} dimensions", x.rank()))
    }
}

fn tile(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let times = sizes(&call.numbers(1)?.ok_or("operand 1 is missing")?)?;
    if times.len() != x.rank() {
        return Err(format!("{times:?} times {:?}", x.dims()));
    }
    let dims: Vec<usize> =
        x.dims().iter().zip(&times).map(|(size, times)| size.saturating_mul(*times)).collect();
    elements(&dims)?;
    let mut places = b.places(&dims)?;
    for (places, size) in places.iter_mut().zip(x.dims()) {
        places.iter_mut().for_each(|place| *place %= size);
    }
    b.pick(x, places, Scalar::Whole(0))
}

/// Sizes before and after each axis, in older operator sets as attributes.
fn pad(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let rank = x.rank();
    if call.points(1).is_some() {
        return pad_to_fixed(b, call);
    }
    let list = match call.ints("paddings")? {
        Some(list) => list.to_vec(),
        None => call.ints_of("pads", 1)?.ok_or("operand 1 is missing")?,
    };
    let all = || (0..rank as i64).collect();
    let axes: Vec<i64> = call.numbers(3)?.unwrap_or_else(all);
    if list.len() != 2 * axes.len() {
        return Err(format!("{} paddings for {} axes", list.len(), axes.len()));
    }
    let (mut before, mut after) = (vec![0; rank], vec![0; rank]);
    for (k, &number) in axes.iter().enumerate() {
        let at = axis(number, rank)?;
        (before[at], after[at]) = (list[k], list[axes.len() + k]);
    }
    let value = call.maybe_float("value")?;
    match call.text("mode", "constant")? {
        "constant" => {
            let fill = match value {
                Some(value) => Scalar::Real(value),
                None => fill(call)?,
            };
            b.pad(x, &before, &after, fill)
        }
        mode => {
            // Elements that are cut off are gone before the rest is repeated.
            let cut = |list: &[i64]| list.iter().map(|&more| more.min(0)).collect::<Vec<_>>();
            let x = b.pad(x, &cut(&before), &cut(&after), Scalar::Whole(0))?;
            let [before, after] = [before, after]
                .map(|list| list.into_iter().map(|more| more.max(0)).collect::<Vec<_>>());
            mirrored(b, &x, [&before, &after], mode)
        }
    }
}

/// A tensor with as many rows behind the real ones as a fixed size lacks.
fn pad_to_fixed(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, rank) = (call.get(0)?, call.get(0)?.rank());
    let refused = || beyond("data decide about padding that leads to no fixed size: fix it");
    let (bound, points) = call.bound(0).zip(call.points(1)).ok_or_else(refused)?;
    let sizes = points::sizes(x, bound, call.marks).ok_or_else(refused)?;
    let lists = points.each_ref().map(points::whole);
    let at = bound.axis;
    let is_fixed = |place: usize| lists.iter().all(|list| list[place] == lists[0][place]);
    let is_whole = call.text("mode", "constant")? == "constant" && call.maybe(3).is_none();
    let mut list = lists[1].clone();
    if !is_whole || list.len() != 2 * rank {
        return Err(refused());
    }
    // The padding is least where the rows are most.
    let totals = [(0, 1), (1, 0), (2, 2)]
        .map(|(rows, point)| sizes[rows].checked_add(lists[point][rank + at]));
    let others = (0..2 * rank).filter(|&place| place != rank + at).all(is_fixed);
    let rest = totals[0].and_then(|total| total.checked_sub(sizes[1])).ok_or_else(refused)?;
    if !others || list[at] != 0 || totals.iter().any(|&total| total != totals[0]) {
        return Err(refused());
    }
    list[rank + at] = rest;
    let fill = fill(call)?;
    let real = masked(b, x, bound, fill)?;
    b.pad(&real, &list[..rank], &list[rank..], fill)
}

/// Number of a constant operand to pad with.
fn fill(call: &Call<'_>) -> Result<Scalar> {
    let Some(array) = call.array(2)? else { return Ok(Scalar::Whole(0)) };
    match (
        array.element().is_float(),
        array.values().to_f64().first(),
        array.values().to_i64().first(),
    ) {
        (true, Some(&number), _) => Ok(Scalar::Real(number)),
        (false, _, Some(&number)) => Ok(Scalar::Whole(number)),
        _ => Ok(Scalar::Whole(0)),
    }
}

fn mirrored(
    b: &mut Builder<'_>,
    x: &Value,
    [before, after]: [&[i64]; 2],
    mode: &str,
) -> Result<Value> {
    let sizes = x.dims().iter().zip(before).zip(after);
    let lens = sizes.map(|((&own, &before), &after)| {
        size((own as i64).saturating_add(before).saturating_add(after))
    });
    let lens = lens.collect::<Result<Vec<_>>>()?;
    b.ensure_places(&lens)?;
    let mut places = Vec::new();
    for ((&size, &before), &len) in x.dims().iter().zip(before).zip(&lens) {
        let size = size as i64;
        if size == 0 && len > 0 {
            return Err(format!("mode {mode} of an empty axis"));
        }
        let place = |at: i64| match mode {
            "edge" => at.clamp(0, size - 1),
            "wrap" => at.rem_euclid(size),
            _ if size == 1 => 0,
            _ => {
                let at = at.rem_euclid(2 * (size - 1));
                at.min(2 * (size - 1) - at)
            }
        };
        places.push((0..len as i64).map(|i| place(i.saturating_sub(before)) as usize).collect());
    }
    match mode {
        "edge" | "wrap" | "reflect" => b.pick(x, places, Scalar::Whole(0)),
        other => Err(format!("attribute mode = {other:?}")),
    }
}

/// Zeros on one side of a diagonal.
fn trilu(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let (upper, k) = (call.flag("upper", true)?, call.number(1)?.unwrap_or(0.0) as i64);
    let &[.., rows, columns] = x.dims() else {
        return Err(format!("must be matrices, got {}", x.spec));
    };
    let _making = b.ledger.charge(elements(&[rows, columns])? as u64)?;
    let stays = |i: usize| {
        let right = (i % columns) as i64 - (i / columns) as i64;
        Truth(u8::from(if upper { right >= k } else { right <= k }))
    };
    let stays =
        b.constant(vec![rows, columns], Array::Bool((0..rows * columns).map(stays).collect()))?;
    b.map(x.element(), &[&stays, x], |w| {
        let (stays, x, zero) = (w.input(0), w.input(1), w.whole(0));
        w.select(stays, x, zero)
    })
}

/// Block size and sizes of a batch of images.
fn blocks(call: &Call<'_>) -> Result<(usize, [usize; 4])> {
    let side = size(call.int("blocksize", 0)?)?;
    match *call.get(0)?.dims() {
        [n, c, h, w] if side > 0 => Ok((side, [n, c, h, w])),
        _ => Err(format!("blocks of {side} in {}", call.get(0)?.spec)),
    }
}

fn depth_to_space(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (s, [n, c, h, w]) = blocks(call)?;
    let d = c / s.saturating_mul(s).max(1);
    let (dims, order) = match call.text("mode", "DCR")? {
        "DCR" => (vec![n, s, s, d, h, w], [0, 3, 4, 1, 5, 2]),
        "CRD" => (vec![n, d, s, s, h, w], [0, 1, 4, 2, 5, 3]),
        other => return Err(format!("attribute mode = {other:?}")),
    };
    let x = b.reshape(call.get(0)?, dims)?;
    let x = b.transpose(&x, &order)?;
    b.reshape(&x, vec![n, d, h.saturating_mul(s), w.saturating_mul(s)])
}

fn space_to_depth(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (s, [n, c, h, w]) = blocks(call)?;
    let order = match call.text("mode", "DCR")? {
        "DCR" => [0, 3, 5, 1, 2, 4],
        "CRD" => [0, 1, 3, 5, 2, 4],
        other => return Err(format!("attribute mode = {other:?}")),
    };
    let x = b.reshape(call.get(0)?, vec![n, c, h / s, s, w / s, s])?;
    let x = b.transpose(&x, &order)?;
    b.reshape(&x, vec![n, c.saturating_mul(s).saturating_mul(s), h / s, w / s])
}

/// Cuts or pads around the middle.
fn centre(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let wanted = sizes(&call.numbers(1)?.ok_or("operand 1 is missing")?)?;
    let all: Vec<i64> = (0..x.rank() as i64).collect();
    let axes = call.ints("axes")?.unwrap_or(&all);
    if axes.len() != wanted.len() {
        return Err(format!("{} sizes for {} axes", wanted.len(), axes.len()));
    }
    let mut places = b.places(x.dims())?;
    for (&number, &wanted) in axes.iter().zip(&wanted) {
        let at = axis(number, x.rank())?;
        let have = x.dims()[at];
        let place = |i: usize| {
            if have >= wanted {
                (have - wanted) / 2 + i
            } else {
                i.checked_sub((wanted - have) / 2).filter(|&at| at < have).unwrap_or(NOWHERE)
            }
        };
        b.ledger.charge(8 * wanted as u64)?;
        places[at] = (0..wanted).map(place).collect();
    }
    b.pick(x, places, Scalar::Whole(0))
}
