//! Operators that select elements, so that data decide about the number of results.
//!
//! In: tensors of known sizes. Out: as many places as there may be at most, those that were
//! selected first, and their number ([`Bound`]). What is behind them is without meaning. If the
//! number is known already, the result has no more.

use super::indexed::scattered;
use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::{Call, one};
use crate::tensors::axes::{axis, elements, sizes_around};
use crate::tensors::builder::Builder;
use crate::tensors::value::{Bound, Value};
use reef_op::tensor::{
    Array, Binary, Domain, Element, FoldKind, Gather, Kind, ScatterKind, Spec, Target,
};

pub(in crate::onnx::general::operators) fn selected(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "Compress" => one(compress(b, call)?),
        "NonZero" => one(non_zero(b, call)?),
        "Unique" => Ok(Some(unique(b, call)?)),
        _ => Ok(None),
    }
}

/// Elements of one dimension that were selected: their places, and how many there are.
pub(in crate::onnx::general::operators) struct Selection {
    pub(in crate::onnx::general::operators) places: Value,
    pub(in crate::onnx::general::operators) count: Value,
}

impl Selection {
    /// The places where `keep`, of one dimension, isn't 0.
    pub(in crate::onnx::general::operators) fn of(
        b: &mut Builder<'_>,
        keep: &Value,
    ) -> Result<Self> {
        let len = keep.spec.elements();
        let ones = b.cast(keep, Element::I64)?;
        let ones = b.reshape(&ones, vec![len])?;
        let before = b.running(&ones, 0, true, false)?;
        let count = b.fold_axes(&ones, &[0], FoldKind::Sum)?;
        // Those that aren't kept are written behind the others.
        let slots = b.map_in(Domain::I64, Element::I64, &[&ones, &before], |w| {
            let (keep, before, behind) = (w.input(0), w.input(1), w.whole(len as i64));
            w.select(keep, before, behind)
        })?;
        let _making = b.ledger.charge(8 * (len as u64 + 1))?;
        let empty = b.whole(vec![len + 1], vec![0; len + 1])?;
        let numbers = b.count(vec![len])?;
        let places = put(b, &empty, &slots, &numbers, ScatterKind::Replace)?;
        let places = b.cut(&places, 0, 0, len)?;
        Ok(Self { places, count: b.reshape(&count, Vec::new())? })
    }

    /// Rows of `x` along an axis at these places.
    pub(super) fn rows(&self, b: &mut Builder<'_>, x: &Value, at: usize) -> Result<Value> {
        taken(b, x, &self.places, at)
    }

    /// Says that result `index` has as many places along an axis as there are.
    pub(in crate::onnx::general::operators) fn bound(
        &self,
        b: &mut Builder<'_>,
        call: &Call<'_>,
        index: usize,
        value: Value,
        at: usize,
    ) -> Result<Value> {
        bounded(b, call, index, value, at, &self.count)
    }
}

/// Says that data decide about the size of result `index` along an axis; cuts it if the size is
/// known.
pub(in crate::onnx::general::operators) fn bounded(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    index: usize,
    value: Value,
    at: usize,
    size: &Value,
) -> Result<Value> {
    if let Some(known) = size.known_values() {
        let size = known.array.values().to_i64()[0];
        return b.cut(&value, at, 0, usize::try_from(size).unwrap_or_default());
    }
    call.bounds.borrow_mut().push((index, Bound { axis: at, size: size.clone() }));
    Ok(value)
}

/// Updates of a row of numbers at places.
fn put(
    b: &mut Builder<'_>,
    row: &Value,
    places: &Value,
    updates: &Value,
    kind: ScatterKind,
) -> Result<Value> {
    let (size, tuples) = (row.spec.elements(), places.spec.elements());
    let target = Target::Tuples { batches: 1, shared: false, sizes: vec![size], inner: 1, tuples };
    scattered(b, [row, places, updates], target, kind)
}

/// Rows along an axis at computed places.
fn taken(b: &mut Builder<'_>, x: &Value, places: &Value, at: usize) -> Result<Value> {
    let [batches, size, inner] = sizes_around(&x.spec, at);
    let tuples = places.spec.elements();
    let mut dims = x.dims().to_vec();
    dims[at] = tuples;
    if elements(&dims)? == 0 {
        return b.constant(dims, Array::with_capacity(x.element(), 0));
    }
    let target = Target::Tuples { batches, shared: true, sizes: vec![size], inner, tuples };
    b.emit(Kind::Gather(Gather { target }), &[x, places], Spec { element: x.element(), dims })
}

/// Elements, or places along an axis, where a condition holds.
fn compress(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, condition) = (call.get(0)?, call.get(1)?);
    let (x, at) = match call.maybe_int("axis")? {
        Some(number) => (x.clone(), axis(number, x.rank())?),
        None => (b.reshape(x, vec![x.spec.elements()])?, 0),
    };
    let is_bool = condition.element() == Element::Bool;
    if !is_bool || condition.rank() != 1 || condition.spec.elements() > x.dims()[at] {
        return Err(format!("a condition of {} for {}", condition.spec, x.spec));
    }
    let chosen = Selection::of(b, condition)?;
    let rows = chosen.rows(b, &x, at)?;
    chosen.bound(b, call, 0, rows, at)
}

/// Places of what isn't 0.
fn non_zero(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let all = b.reshape(x, vec![x.spec.elements()])?;
    let keep = b.map_in(x.element().domain(), Element::Bool, &[&all], |w| {
        let (x, zero, one) = (w.input(0), w.whole(0), w.whole(1));
        let is_zero = w.bin(Binary::Equal, x, zero);
        w.sub(one, is_zero)
    })?;
    let chosen = Selection::of(b, &keep)?;
    // A single number is a list of one, as in ONNX Runtime and numpy.
    let dims: &[usize] = if x.rank() == 0 { &[1] } else { x.dims() };
    let places = coordinates(b, &chosen.places, dims)?;
    let len = chosen.places.spec.elements();
    let rows =
        places.iter().map(|place| b.reshape(place, vec![1, len])).collect::<Result<Vec<_>>>()?;
    let rows = b.concat(&rows.iter().collect::<Vec<_>>(), 0)?;
    chosen.bound(b, call, 0, rows, 1)
}

/// Number of each axis, of places in a tensor of these sizes.
pub(in crate::onnx::general::operators) fn coordinates(
    b: &mut Builder<'_>,
    places: &Value,
    dims: &[usize],
) -> Result<Vec<Value>> {
    let each = (0..dims.len()).map(|at| {
        let inner: usize = dims[at + 1..].iter().product();
        b.each(places, |w, place| {
            let (inner, size) = (w.whole(inner.max(1) as i64), w.whole(dims[at].max(1) as i64));
            let row = w.bin(Binary::Div, place, inner);
            w.bin(Binary::Mod, row, size)
        })
    });
    each.collect()
}

/// Most elements of a row that is compared with others: rows are sorted by one after the other.
const MAX_COLUMNS: usize = 64;

/// The different elements of a tensor, or parts along an axis, smallest first or as they are met;
/// places of the first of each, which of them each is, and how often each is there.
fn unique(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.get(0)?;
    let is_sorted = call.flag("sorted", true)?;
    let (x, at) = match call.maybe_int("axis")? {
        Some(number) => (x.clone(), axis(number, x.rank())?),
        None => (b.reshape(x, vec![x.spec.elements()])?, 0),
    };
    let Parts { values, firsts, numbers, counts, count } = Parts::of(b, &x, at, is_sorted)?;
    Ok(vec![
        bounded(b, call, 0, values, at, &count)?,
        bounded(b, call, 1, firsts, 0, &count)?,
        numbers,
        bounded(b, call, 3, counts, 0, &count)?,
    ])
}

/// As [`unique`], of ONNX Runtime's domain: elements of a list as they are met, which of them each
/// is, and how often each is there.
pub(in crate::onnx::general::operators) fn different(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Vec<Value>> {
    let x = call.get(0)?;
    if x.rank() != 1 {
        return Err(format!("must be a list, got {}", x.spec));
    }
    let Parts { values, numbers, counts, count, .. } = Parts::of(b, x, 0, false)?;
    let values = bounded(b, call, 0, values, 0, &count)?;
    Ok(vec![values, numbers, bounded(b, call, 2, counts, 0, &count)?])
}

/// The different parts of a tensor along an axis.
struct Parts {
    values: Value,
    /// The place of the first of each.
    firsts: Value,
    /// The number of each part among them.
    numbers: Value,
    counts: Value,
    /// Number of them.
    count: Value,
}

impl Parts {
    fn of(b: &mut Builder<'_>, x: &Value, at: usize, is_sorted: bool) -> Result<Self> {
        let len = x.dims()[at];
        if len == 0 {
            let none = b.whole(vec![0], Vec::new())?;
            let count = b.whole(Vec::new(), vec![0])?;
            let (firsts, numbers) = (none.clone(), none.clone());
            return Ok(Self { values: x.clone(), firsts, numbers, counts: none, count });
        }
        let order: Vec<usize> =
            [at].into_iter().chain((0..x.rank()).filter(|&k| k != at)).collect();
        let columns = x.spec.elements() / len;
        let rows = b.transpose(x, &order)?;
        let rows = b.reshape(&rows, vec![len, columns])?;
        if !(1..=MAX_COLUMNS).contains(&columns) {
            return Err(beyond(&format!(
                "parts of {} along axis {at} must have 1 to {MAX_COLUMNS} elements, got {columns}",
                x.spec
            )));
        }
        let mut groups = Groups::of(b, &rows)?;
        if !is_sorted {
            groups = groups.by_first_rows(b)?;
        }
        let Groups { firsts, numbers, count } = groups;
        let _making = b.ledger.charge(16 * len as u64)?;
        let zeros = b.whole(vec![len], vec![0; len])?;
        let ones = b.whole(vec![len], vec![1; len])?;
        let counts = put(b, &zeros, &numbers, &ones, ScatterKind::Add)?;
        let values = taken(b, x, &firsts, at)?;
        Ok(Self { values, firsts, numbers, counts, count })
    }
}

/// Groups of equal rows.
struct Groups {
    /// The number of the first row of each group, as many places as there are rows.
    firsts: Value,
    /// The number of each row's group.
    numbers: Value,
    /// Number of groups.
    count: Value,
}

impl Groups {
    /// Groups of the rows of a matrix that is not empty, the smallest first.
    fn of(b: &mut Builder<'_>, rows: &Value) -> Result<Self> {
        let (len, columns) = (rows.dims()[0], rows.dims()[1]);
        let order = ascending(b, rows)?;
        let changes = if len == 1 {
            b.whole(vec![0], Vec::new())?
        } else {
            let sorted = taken(b, rows, &order, 0)?;
            let (before, after) = (b.cut(&sorted, 0, 0, len - 1)?, b.cut(&sorted, 0, 1, len)?);
            let differ =
                b.map_in(rows.element().domain(), Element::I64, &[&before, &after], |w| {
                    let (before, after, one) = (w.input(0), w.input(1), w.whole(1));
                    let same = w.bin(Binary::Equal, before, after);
                    w.sub(one, same)
                })?;
            let differ =
                if columns == 1 { differ } else { b.fold_axes(&differ, &[1], FoldKind::Max)? };
            b.reshape(&differ, vec![len - 1])?
        };
        let first = b.whole(vec![1], vec![1])?;
        let is_first = b.concat(&[&first, &changes], 0)?;
        let chosen = Selection::of(b, &is_first)?;
        let number = numbered(b, &is_first)?;
        let _making = b.ledger.charge(8 * len as u64)?;
        let zeros = b.whole(vec![len], vec![0; len])?;
        let numbers = put(b, &zeros, &order, &number, ScatterKind::Replace)?;
        let firsts = chosen.rows(b, &order, 0)?;
        Ok(Self { firsts, numbers, count: chosen.count })
    }

    /// Orders the groups by their first rows.
    fn by_first_rows(self, b: &mut Builder<'_>) -> Result<Self> {
        let first_of = taken(b, &self.firsts, &self.numbers, 0)?;
        let places = b.count(first_of.dims().to_vec())?;
        let is_first = b.map_in(Domain::I64, Element::I64, &[&first_of, &places], |w| {
            let (first, place) = (w.input(0), w.input(1));
            w.bin(Binary::Equal, first, place)
        })?;
        let chosen = Selection::of(b, &is_first)?;
        let number = numbered(b, &is_first)?;
        let numbers = taken(b, &number, &first_of, 0)?;
        Ok(Self { firsts: chosen.places, numbers, count: chosen.count })
    }
}

/// Number of those before each place and at it that aren't 0, less one.
fn numbered(b: &mut Builder<'_>, is_first: &Value) -> Result<Value> {
    let so_far = b.running(is_first, 0, false, false)?;
    b.each(&so_far, |w, x| {
        let one = w.whole(1);
        w.sub(x, one)
    })
}

/// Numbers of rows in ascending order, those of equal ones too: they are sorted by each column, the
/// last one first, and sorting keeps equals in their order.
fn ascending(b: &mut Builder<'_>, rows: &Value) -> Result<Value> {
    let (len, columns) = (rows.dims()[0], rows.dims()[1]);
    let mut order: Option<Value> = None;
    for column in (0..columns).rev() {
        let own = b.cut(rows, 1, column, column + 1)?;
        let own = b.reshape(&own, vec![len])?;
        order = Some(match order {
            None => {
                let [_, places] = b.top(&own, len, false)?;
                places
            }
            Some(order) => {
                let own = taken(b, &own, &order, 0)?;
                let [_, places] = b.top(&own, len, false)?;
                taken(b, &order, &places, 0)?
            }
        });
    }
    order.ok_or_else(|| "rows without elements".into())
}
