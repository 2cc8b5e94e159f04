//! `NonMaxSuppression`: the best boxes of each class, less those that overlap with a better one.
//!
//! One box after the other is chosen, of all batches and classes at once, for as many as there may
//! be at most. A class without further boxes chooses boxes that are not taken.

use super::selected::{Selection, coordinates};
use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::{Call, one};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Domain, Element, FoldKind, Gather, Kind, Spec, Target};

/// Maximum number of boxes of a class that are chosen one after the other.
const MAX_BOXES: usize = 1024;

pub(in crate::onnx::general::operators) fn boxes(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "NonMaxSuppression" => one(suppressed(b, call)?),
        _ => Ok(None),
    }
}

/// Edges and areas of all boxes, one for each batch and box.
struct Boxes {
    /// Low and high edges of rows and of columns, and areas.
    parts: [Value; 5],
    /// Numbers of the boxes.
    places: Value,
    batches: usize,
    count: usize,
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
    let all = Boxes::of(b, boxes, is_centred)?;
    let scores = match call.maybe(4) {
        Some(_) => scores.clone(),
        // Without a threshold each score counts, and -inf stands for none below.
        None => b.with_number(Binary::Max, scores, f64::from(f32::MIN))?,
    };
    let scores = real(b, call, &scores)?;
    let mut left = above(b, &scores, &least)?;
    let (mut chosen, mut best) = (Vec::new(), Vec::new());
    for _ in 0..most {
        let place = b.fold_axes(&left, &[2], FoldKind::ArgMax { last: false })?;
        best.push(b.fold_axes(&left, &[2], FoldKind::Max)?);
        left = all.without(b, &left, &place, &overlap)?;
        chosen.push(place);
    }
    let chosen = b.concat(&chosen.iter().collect::<Vec<_>>(), 2)?;
    let best = b.concat(&best.iter().collect::<Vec<_>>(), 2)?;
    let is_taken = b.map_in(best.element().domain(), Element::Bool, &[&best], |w| {
        let (score, never) = (w.input(0), w.real(f64::NEG_INFINITY));
        w.bin(Binary::Less, never, score)
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

impl Boxes {
    /// Boxes by two corners in any order, or by their centres, widths and heights.
    fn of(b: &mut Builder<'_>, boxes: &Value, is_centred: bool) -> Result<Self> {
        let (batches, count) = (boxes.dims()[0], boxes.dims()[1]);
        let mut part = |at: usize| {
            let part = b.cut(boxes, 2, at, at + 1)?;
            b.reshape(&part, vec![batches, 1, count])
        };
        let ends = if is_centred {
            [[part(1)?, part(3)?], [part(0)?, part(2)?]]
        } else {
            [[part(0)?, part(2)?], [part(1)?, part(3)?]]
        };
        let mut edges = Vec::new();
        for [one, other] in &ends {
            for (order, sign) in [(Binary::Min, -0.5), (Binary::Max, 0.5)] {
                edges.push(b.map(one.element(), &[one, other], |w| {
                    let (one, other) = (w.input(0), w.input(1));
                    if !is_centred {
                        return w.bin(order, one, other);
                    }
                    let half = w.real(sign);
                    let half = w.mul(other, half);
                    w.add(one, half)
                })?);
            }
        }
        let areas = b.map(boxes.element(), &edges.iter().collect::<Vec<_>>(), |w| {
            let (top, bottom, left, right) = (w.input(0), w.input(1), w.input(2), w.input(3));
            let (rows, columns) = (w.sub(bottom, top), w.sub(right, left));
            w.mul(rows, columns)
        })?;
        edges.push(areas);
        let parts = edges.try_into().map_err(|_| "must have five parts")?;
        let places = b.count(vec![1, 1, count])?;
        Ok(Self { parts, places, batches, count })
    }

    /// A part of the box that each batch and class chose.
    fn at(&self, b: &mut Builder<'_>, part: usize, place: &Value) -> Result<Value> {
        let target = Target::Tuples {
            batches: self.batches,
            shared: false,
            sizes: vec![self.count],
            inner: 1,
            tuples: place.dims()[1],
        };
        let part = &self.parts[part];
        let spec = Spec { element: part.element(), dims: place.dims().into() };
        b.emit(Kind::Gather(Gather { target }), &[part, place], spec)
    }

    /// Length that all boxes have in common with the chosen one, along rows (0) or columns (2).
    fn common(&self, b: &mut Builder<'_>, edges: usize, place: &Value) -> Result<Value> {
        let (low, high) = (self.at(b, edges, place)?, self.at(b, edges + 1, place)?);
        let inputs = [&self.parts[edges], &self.parts[edges + 1], &low, &high];
        b.map(low.element(), &inputs, |w| {
            let (low, high) = (w.input(0), w.input(1));
            let (own_low, own_high) = (w.input(2), w.input(3));
            let (from, to) = (w.bin(Binary::Max, low, own_low), w.bin(Binary::Min, high, own_high));
            let (length, zero) = (w.sub(to, from), w.whole(0));
            w.bin(Binary::Max, length, zero)
        })
    }

    /// Scores without the chosen boxes and those that overlap with them too much.
    fn without(
        &self,
        b: &mut Builder<'_>,
        left: &Value,
        place: &Value,
        overlap: &Value,
    ) -> Result<Value> {
        let (rows, columns) = (self.common(b, 0, place)?, self.common(b, 2, place)?);
        let area = self.at(b, 4, place)?;
        let shares = b.map(rows.element(), &[&rows, &columns, &self.parts[4], &area], |w| {
            let (rows, columns) = (w.input(0), w.input(1));
            let (area, own) = (w.input(2), w.input(3));
            let (common, sum) = (w.mul(rows, columns), w.add(area, own));
            let all = w.sub(sum, common);
            w.div(common, all)
        })?;
        let is_chosen = b.map_in(Domain::I64, Element::Bool, &[&self.places, place], |w| {
            let (place, chosen) = (w.input(0), w.input(1));
            w.bin(Binary::Equal, place, chosen)
        })?;
        let overlap = b.cast(overlap, shares.element())?;
        b.map(left.element(), &[left, &shares, &overlap, &is_chosen], |w| {
            let (score, share) = (w.input(0), w.input(1));
            let (overlap, is_chosen) = (w.input(2), w.input(3));
            let never = w.real(f64::NEG_INFINITY);
            let hides = w.bin(Binary::Less, overlap, share);
            let is_gone = w.bin(Binary::Max, hides, is_chosen);
            w.select(is_gone, never, score)
        })
    }
}
