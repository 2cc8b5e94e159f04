//! `NonMaxSuppression`: the best boxes of each class, less those that overlap with a better one.
//!
//! Boxes are sorted by their scores. Lists of chosen ones, one for each batch and class, grow by
//! some places of this order at a time.

use super::selected::{Selection, coordinates};
use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::{Call, one};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Domain, Element, Gather, Kind, Spec, Suppress, Target, TopK};

/// Maximum number of boxes of a class that are chosen. If there are no more than that, all of them
/// take 1,024 operations, a third of what 300 boxes took one by one.
const MAX_BOXES: usize = 1 << 14;
/// Comparisons of boxes that an operation makes for a class at most: a block of a GPU ends within a
/// hundred microseconds.
const MAX_COMPARED: usize = 1 << 18;

pub(in crate::onnx::general::operators) fn boxes(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "NonMaxSuppression" => one(suppressed(b, call)?),
        _ => Ok(None),
    }
}

/// Batch, class and box of all that were chosen.
fn suppressed(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (boxes, scores) = (call.get(0)?, call.get(1)?);
    let (&[batches, count, 4], &[own, classes, others]) = (boxes.dims(), scores.dims()) else {
        return Err(format!("boxes {} and scores {}", boxes.spec, scores.spec));
    };
    if (batches, count) != (own, others) {
        return Err(format!("boxes {} and scores {}", boxes.spec, scores.spec));
    }
    let most = call.number(2)?.unwrap_or(0.0).clamp(0.0, count as f64) as usize;
    // Of one batch and class the best boxes come first.
    let read = call.rows.filter(|_| batches * classes == 1);
    let most = read.map_or(most, |rows| rows.min(most));
    let overlap = threshold(b, call, 3, Some(0.0))?;
    let least = threshold(b, call, 4, None)?;
    let is_centred = call.flag("center_point_box", false)?;
    if most == 0 || batches * classes == 0 {
        return b.whole(vec![0, 3], Vec::new());
    }
    if most > MAX_BOXES {
        return Err(beyond(&format!(
            "max_output_boxes_per_class must be at most {MAX_BOXES}, got {most} of {count} boxes: \
             choose fewer when the file is exported"
        )));
    }
    let scores = match call.maybe(4) {
        Some(_) => scores.clone(),
        // Without a threshold each score counts, and -inf stands for none below.
        None => b.with_number(Binary::Max, scores, f64::from(f32::MIN))?,
    };
    let scores = real(b, call, &scores)?;
    let left = above(b, &scores, &least)?;
    let lists = lists(b, [boxes, &left, &overlap], most, is_centred)?;
    let chosen = b.cut(&lists, 2, 1, 1 + most)?;
    let counts = b.cut(&lists, 2, 0, 1)?;
    let places = b.count(vec![1, 1, most])?;
    let is_taken = b.map_in(Domain::I64, Element::Bool, &[&places, &counts], |w| {
        let (place, count) = (w.input(0), w.input(1));
        w.bin(Binary::Less, place, count)
    })?;
    let taken = Selection::of(b, &is_taken)?;
    let len = taken.places.spec.elements();
    let mut columns = coordinates(b, &taken.places, &[batches, classes, most])?;
    columns[2] = looked_up(b, &chosen, &taken.places)?;
    let column = |column: &Value| b.reshape(column, vec![len, 1]);
    let columns = columns.iter().map(column).collect::<Result<Vec<_>>>()?;
    let rows = b.concat(&columns.iter().collect::<Vec<_>>(), 1)?;
    taken.bound(b, call, 0, rows, 0)
}

/// A list of boxes for each batch and class, of at most `most`: the best first, without those that
/// overlap a better one. Of the same score the first is the best.
fn lists(
    b: &mut Builder<'_>,
    [boxes, scores, overlap]: [&Value; 3],
    most: usize,
    centred: bool,
) -> Result<Value> {
    let [boxes, scores, overlap] = [
        b.cast(boxes, Element::F32)?,
        b.cast(scores, Element::F32)?,
        b.cast(overlap, Element::F32)?,
    ];
    let (classes, count) = (scores.dims()[1], scores.dims()[2]);
    let by_score = Kind::TopK(TopK { len: count, k: count, largest: true, places: true });
    let order = Spec { element: Element::I64, dims: scores.dims().to_vec() };
    let order = b.emit(by_score, &[&scores], order)?;
    let spec = Spec { element: Element::I64, dims: vec![scores.dims()[0], classes, 1 + most] };
    let mut lists: Option<Value> = None;
    for first in (0..count).step_by(places_at_a_time(most)) {
        let len = places_at_a_time(most).min(count - first);
        let kind = Kind::Suppress(Suppress { count, classes, most, first, len, centred });
        let inputs = [&boxes, &scores, &order, &overlap].into_iter().chain(&lists);
        lists = Some(b.emit(kind, &inputs.collect::<Vec<_>>(), spec.clone())?);
    }
    lists.ok_or_else(|| "no boxes".into())
}

/// Places of an order that an operation goes through, if lists have at most `most` boxes.
fn places_at_a_time(most: usize) -> usize {
    let places = (MAX_COMPARED / most.max(1)).clamp(1, Suppress::MAX_PLACES);
    let step = 1 << places.ilog2().min(8); // what a GPU's block takes at a time
    places - places % step
}

/// Scores of boxes, of which those behind the real ones are never chosen.
fn real(b: &mut Builder<'_>, call: &Call<'_>, scores: &Value) -> Result<Value> {
    let sizes = match [call.bound(0), call.bound(1)] {
        [None, None] => return Ok(scores.clone()),
        [Some(boxes), Some(own)] if (boxes.axis, own.axis) == (1, 2) => [boxes, own],
        _ => {
            return Err(beyond(
                "data must decide about the number of boxes and of scores, or of neither; batches \
                 and classes must be known",
            ));
        }
    };
    let places = b.count(vec![1, 1, scores.dims()[2]])?;
    let inputs = [&places, &sizes[0].size, &sizes[1].size];
    let is_real = b.map_in(Domain::I64, Element::Bool, &inputs, |w| {
        let (place, boxes, own) = (w.input(0), w.input(1), w.input(2));
        let size = w.bin(Binary::Min, boxes, own);
        w.bin(Binary::Less, place, size)
    })?;
    b.map(scores.element(), &[scores, &is_real], |w| {
        let (score, is_real, never) = (w.input(0), w.input(1), w.real(f64::NEG_INFINITY));
        w.select(is_real, score, never)
    })
}

/// Scores above the least one; the others, and those that are NaN, are never chosen.
fn above(b: &mut Builder<'_>, scores: &Value, least: &Value) -> Result<Value> {
    b.map(scores.element(), &[scores, least], |w| {
        let (score, least, never) = (w.input(0), w.input(1), w.real(f64::NEG_INFINITY));
        let is_above = w.bin(Binary::Less, least, score);
        w.select(is_above, score, never)
    })
}

/// A number of which there is one; without it the usual one, or the least there is.
fn threshold(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    operand: usize,
    usual: Option<f64>,
) -> Result<Value> {
    match call.maybe(operand) {
        Some(given) => b.reshape(given, vec![1, 1, 1]),
        None => {
            let least = b.scalar(Element::F32, usual.unwrap_or(f64::NEG_INFINITY))?;
            b.reshape(&least, vec![1, 1, 1])
        }
    }
}

/// Elements of a tensor at places, as of one dimension.
fn looked_up(b: &mut Builder<'_>, x: &Value, places: &Value) -> Result<Value> {
    let (size, tuples) = (x.spec.elements(), places.spec.elements());
    let target = Target::Tuples { batches: 1, shared: true, sizes: vec![size], inner: 1, tuples };
    let spec = Spec { element: x.element(), dims: vec![tuples] };
    b.emit(Kind::Gather(Gather { target }), &[x, places], spec)
}
