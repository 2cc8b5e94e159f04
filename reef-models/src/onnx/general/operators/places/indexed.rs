//! Operators that look up what indices say.

use crate::onnx::fault::Result;
use crate::onnx::general::bounds::after::same_size;
use crate::onnx::general::bounds::before::real_rows;
use crate::onnx::general::call::{Call, one};
use crate::tensors::axes::{axis, elements, sizes_around};
use crate::tensors::builder::Builder;
use crate::tensors::expressions::same_element;
use crate::tensors::value::{Bound, Value};
use reef_op::tensor::{
    Array, Binary, Domain, Element, Gather, Kind, Scalar, Scatter, ScatterKind, Spec, Target,
};

pub(in crate::onnx::general::operators) fn indexed(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "Gather" => one(gather(b, call)?),
        "GatherElements" => {
            one(gather_elements(b, call.get(0)?, call.get(1)?, call.int("axis", 0)?)?)
        }
        "GatherND" => one(gather_nd(b, call)?),
        "ScatterElements" | "Scatter" => one(scatter_elements(b, call)?),
        "ScatterND" => one(scatter_nd(b, call)?),
        "OneHot" => one(one_hot(b, call)?),
        _ => Ok(None),
    }
}

fn gather(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, indices) = (call.get(0)?, call.get(1)?);
    parts_at(b, x, indices, call.axis(0, x.rank())?)
}

/// Parts of a tensor along axis `at`, by their numbers.
pub(in crate::onnx::general::operators) fn parts_at(
    b: &mut Builder<'_>,
    x: &Value,
    indices: &Value,
    at: usize,
) -> Result<Value> {
    let [outer, size, inner] = sizes_around(&x.spec, at);
    let dims = [&x.dims()[..at], indices.dims(), &x.dims()[at + 1..]].concat();
    if let Some(known) = indices.known_values().filter(|_| indices.rank() <= 1) {
        let places = known
            .array
            .values()
            .to_i64()
            .iter()
            .map(|&place| {
                axis(place, size).map_err(|_| format!("an index must be below {size}, got {place}"))
            })
            .collect::<Result<_>>()?;
        let made = b.pick_axis(x, at, places)?;
        return b.reshape(&made, dims);
    }
    let tuples = indices.spec.elements();
    let target = Target::Tuples {
        batches: outer,
        shared: true,
        sizes: vec![size],
        inner: inner.max(1),
        tuples: tuples.max(1),
    };
    picked(b, x, indices, target, dims)
}

/// Rows of a table by numbers.
pub(in crate::onnx::general::operators) fn rows_at(
    b: &mut Builder<'_>,
    table: &Value,
    numbers: &Value,
) -> Result<Value> {
    let &[rows, columns] = table.dims() else {
        return Err(format!("a table must be a matrix, got {}", table.spec));
    };
    let tuples = numbers.spec.elements().max(1);
    let inner = columns.max(1);
    let target = Target::Tuples { batches: 1, shared: true, sizes: vec![rows], inner, tuples };
    picked(b, table, numbers, target, [numbers.dims(), &[columns]].concat())
}

fn picked(
    b: &mut Builder<'_>,
    x: &Value,
    indices: &Value,
    target: Target,
    dims: Vec<usize>,
) -> Result<Value> {
    if elements(&dims)? == 0 {
        return b.constant(dims, Array::with_capacity(x.element(), 0));
    }
    let spec = Spec { element: x.element(), dims };
    b.emit(Kind::Gather(Gather { target }), &[x, indices], spec)
}

pub(in crate::onnx::general::operators) fn gather_elements(
    b: &mut Builder<'_>,
    x: &Value,
    indices: &Value,
    at: i64,
) -> Result<Value> {
    if x.rank() != indices.rank() {
        return Err(format!("indices {} of {}", indices.spec, x.spec));
    }
    let target = Target::Along {
        dims: x.dims().into(),
        indices: indices.dims().into(),
        axis: axis(at, x.rank())?,
    };
    picked(b, x, indices, target, indices.dims().to_vec())
}

/// Target of tuples of indices into `dims`, and sizes of the result. The first `batch` sizes of
/// `dims` are those of the indices as well.
fn tuples(dims: &[usize], indices: &Value, batch: usize) -> Result<(Target, Vec<usize>)> {
    let refused = || format!("indices {} of {dims:?}, {batch} of them batches", indices.spec);
    let Some((&depth, front)) = indices.dims().split_last() else { return Err(refused()) };
    let rest = dims.get(batch..).filter(|rest| depth <= rest.len()).ok_or_else(refused)?;
    if front.get(..batch) != dims.get(..batch) {
        return Err(refused());
    }
    let product = |dims: &[usize]| dims.iter().product::<usize>();
    let target = Target::Tuples {
        batches: product(&dims[..batch]),
        shared: false,
        sizes: rest[..depth].to_vec(),
        inner: product(&rest[depth..]),
        tuples: product(&front[batch..]),
    };
    Ok((target, [front, &rest[depth..]].concat()))
}

fn gather_nd(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, indices) = (call.get(0)?, call.get(1)?);
    let batch = crate::tensors::axes::size(call.int("batch_dims", 0)?)?;
    let (target, dims) = tuples(x.dims(), indices, batch)?;
    picked(b, x, indices, target, dims)
}

fn kind(call: &Call<'_>) -> Result<ScatterKind> {
    Ok(match call.text("reduction", "none")? {
        "none" => ScatterKind::Replace,
        "add" => ScatterKind::Add,
        "mul" => ScatterKind::Multiply,
        "max" => ScatterKind::Max,
        "min" => ScatterKind::Min,
        other => return Err(format!("attribute reduction = {other:?}")),
    })
}

fn scatter_elements(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let [indices, updates] = &replacements(b, call)?;
    if x.rank() != indices.rank() || indices.dims() != updates.dims() {
        return Err(format!("updates {} at {} of {}", updates.spec, indices.spec, x.spec));
    }
    let at = call.axis(0, x.rank())?;
    let target = |x: &Value| Target::Along {
        dims: x.dims().into(),
        indices: indices.dims().into(),
        axis: at,
    };
    let Some(bound) = replaced_rows(b, call)? else {
        return scattered(b, [x, indices, updates], target(x), kind(call)?);
    };
    // Updates behind the real ones go to a row of their own.
    let (len, mut more) = (x.dims()[at], vec![0; x.rank()]);
    more[at] = 1;
    let longer = b.pad(x, &vec![0; x.rank()], &more, Scalar::Whole(0))?;
    let places = elsewhere(b, indices, &bound, len as i64, [len as i64].as_slice(), None)?;
    let made = scattered(b, [&longer, &places, updates], target(&longer), kind(call)?)?;
    b.cut(&made, at, 0, len)
}

fn scatter_nd(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let [indices, updates] = &replacements(b, call)?;
    let (target, dims) = tuples(x.dims(), indices, 0)?;
    if updates.dims() != dims {
        return Err(format!("updates must be {dims:?}, got {}", updates.spec));
    }
    let bound = replaced_rows(b, call)?;
    let (Some(bound), Target::Tuples { sizes, inner, tuples, .. }) = (&bound, &target) else {
        return scattered(b, [x, indices, updates], target, kind(call)?);
    };
    // Updates behind the real ones go to a row of their own.
    let (all, inner) = (sizes.iter().product::<usize>(), *inner);
    let rows = b.reshape(x, vec![all, inner])?;
    let longer = b.pad(&rows, &[0, 0], &[1, 0], Scalar::Whole(0))?;
    let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
    let places = elsewhere(b, indices, bound, all as i64, &sizes, Some(indices.rank() - 1))?;
    let (sizes, tuples) = (vec![all + 1], *tuples);
    let target = Target::Tuples { batches: 1, shared: false, sizes, inner, tuples };
    let made = scattered(b, [&longer, &places, updates], target, kind(call)?)?;
    let made = b.cut(&made, 0, 0, all)?;
    b.reshape(&made, x.dims().to_vec())
}

/// Places and updates of a scattering. If data decide about the numbers of both, there is space for
/// as many as both may be.
fn replacements(b: &mut Builder<'_>, call: &Call<'_>) -> Result<[Value; 2]> {
    let (places, updates) = (call.get(1)?, call.get(2)?);
    match [call.bound(1), call.bound(2)].map(|bound| bound.map(|bound| bound.axis)) {
        [Some(axis), Some(other)]
            if axis == other && places.dims()[axis] != updates.dims()[axis] =>
        {
            let most = places.dims()[axis].min(updates.dims()[axis]);
            Ok([b.cut(places, axis, 0, most)?, b.cut(updates, axis, 0, most)?])
        }
        _ => Ok([places.clone(), updates.clone()]),
    }
}

/// The number of updates of a scattering, if data decide about it: there are a place and an update
/// for each.
fn replaced_rows(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Option<Bound>> {
    let (Some(places), Some(updates)) = (call.bound(1), call.bound(2)) else {
        return Ok(call.bound(1).cloned());
    };
    if same_size(places, updates) {
        return Ok(Some(places.clone()));
    }
    let size = b.map(Element::I64, &[&places.size, &updates.size], |w| {
        let (places, updates) = (w.input(0), w.input(1));
        w.bin(Binary::Min, places, updates)
    })?;
    Ok(Some(Bound { axis: places.axis, size }))
}

/// Places that count from the front, and `other` behind the real rows. Along axis `tuple` are those
/// of several axes of these sizes, which become one.
fn elsewhere(
    b: &mut Builder<'_>,
    places: &Value,
    bound: &Bound,
    other: i64,
    sizes: &[i64],
    tuple: Option<usize>,
) -> Result<Value> {
    let is_real = real_rows(b, places.dims(), bound)?;
    let mut made: Option<Value> = None;
    for (k, &size) in sizes.iter().enumerate() {
        let part = tuple.map_or(Ok(places.clone()), |axis| b.cut(places, axis, k, k + 1))?;
        let inputs: Vec<&Value> = [&part].into_iter().chain(&made).collect();
        made = Some(b.map_in(Domain::I64, Element::I64, &inputs, |w| {
            let (place, size, zero) = (w.input(0), w.whole(size), w.whole(0));
            let moved = w.add(place, size);
            let is_negative = w.bin(Binary::Less, place, zero);
            let place = w.select(is_negative, moved, place);
            if inputs.len() == 1 {
                return place;
            }
            let outer = w.input(1);
            let outer = w.mul(outer, size);
            w.add(outer, place)
        })?);
    }
    let made = made.ok_or("places of no axes")?;
    b.map_in(Domain::I64, Element::I64, &[&made, &is_real], |w| {
        let (place, is_real, other) = (w.input(0), w.input(1), w.whole(other));
        w.select(is_real, place, other)
    })
}

/// Updates of a tensor, where there are any.
pub(in crate::onnx::general::operators) fn scattered(
    b: &mut Builder<'_>,
    [x, indices, updates]: [&Value; 3],
    target: Target,
    kind: ScatterKind,
) -> Result<Value> {
    same_element(x, updates)?;
    if updates.spec.elements() == 0 {
        return Ok(x.clone());
    }
    let scatter = Scatter { target, kind, domain: x.element().domain() };
    b.emit(Kind::Scatter(scatter), &[x, indices, updates], x.spec.clone())
}

/// `on` where the place along the new axis is the index, `off` elsewhere. Inputs: indices, depth,
/// [off, on].
fn one_hot(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (indices, values) = (call.get(0)?, call.get(2)?);
    let depth = call.number(1)?.ok_or("operand 1 is missing")? as i64;
    let size = crate::tensors::axes::size(depth)?;
    elements(&[size])?;
    let at = call.axis(-1, indices.rank() + 1)?;
    let mut dims = indices.dims().to_vec();
    dims.insert(at, 1);
    let indices = b.cast(indices, Element::I64)?;
    let indices = b.reshape(&indices, dims)?;
    let mut places = vec![1; indices.rank()];
    places[at] = size;
    let places = b.count(places)?;
    let out = |number: i64| move |w: &mut crate::tensors::expressions::Writer| w.whole(number);
    let is = b.map_in(reef_op::tensor::Domain::I64, Element::I64, &[&indices, &places], |w| {
        let (index, place, depth, zero) = (w.input(0), w.input(1), out(depth)(w), out(0)(w));
        let below = w.bin(Binary::Less, index, zero);
        let from_end = w.add(index, depth);
        let index = w.select(below, from_end, index);
        w.bin(Binary::Equal, index, place)
    })?;
    let dims = is.dims().to_vec();
    let target = Target::Tuples {
        batches: 1,
        shared: true,
        sizes: vec![2],
        inner: 1,
        tuples: is.spec.elements(),
    };
    picked(b, values, &is, target, dims)
}
