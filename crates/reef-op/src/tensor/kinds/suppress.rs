//! The best of boxes that overlap.

use super::formula::{larger, smaller};
use super::indexed::inside;
use super::job::{Job, Outputs};
use crate::tensor::array::{ElementType, Values};
use crate::tensor::element::Element;
use crate::tensor::spec::Spec;
use crate::tensor::view::product;
use reef_core::{Error, Result};

/// Lists of boxes, one for each batch and class, and what some more boxes add to them: those of
/// `len` places of an order, from place `first` on, one after the other.
///
/// A box is added if its score is above -inf, its list has fewer than `most` boxes, and it overlaps
/// none of them too much. The overlap of two boxes is the area that they have in common, as a part
/// of the area of both; too much is above the input's number.
///
/// Inputs are
///
/// 1. the boxes, four singles for each batch and box: two opposite corners (row, column, row,
///    column), or the centre (column, row), the width and the height;
/// 2. the scores, a single for each batch, class and box;
/// 3. the order, the number of a box for each batch, class and place;
/// 4. the overlap, one single;
/// 5. the lists so far, as the output has them. Without these, they are empty.
///
/// A list is the number of its boxes, `most` numbers of boxes, and zeros for boxes that it does not
/// have. Numbers that are out of range mean the nearest that is in range, as in a
/// [`Gather`](crate::tensor::Gather).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Suppress {
    /// Boxes of a batch.
    pub count: usize,
    /// Classes of a batch.
    pub classes: usize,
    /// Boxes of a list at most.
    pub most: usize,
    /// The first place of the order.
    pub first: usize,
    /// Number of places, at most [`MAX_PLACES`](Self::MAX_PLACES).
    pub len: usize,
    /// Boxes are given by their centres.
    pub centred: bool,
}

/// Edges of boxes (the low and the high one of rows, those of columns) and areas.
#[derive(Debug, Default)]
struct Areas([Vec<f32>; 5]);

/// Boxes that one is compared with before it is asked whether one of them hides it.
const COMPARED: usize = 64;

impl Suppress {
    /// Most places that an operation goes through: devices hold what it adds.
    pub const MAX_PLACES: usize = 1024;

    /// Outputs that are computed together: a list.
    pub(crate) fn grain(&self) -> usize {
        self.most.saturating_add(1)
    }

    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        let Self { count, classes, most, first, len, .. } = *self;
        let sized = count > 0
            && classes > 0
            && most > 0
            && (1..=Self::MAX_PLACES).contains(&len)
            && first.saturating_add(len) <= count;
        let lists = if sized { output.elements() / self.grain() } else { 0 };
        let whole = lists > 0 && lists.is_multiple_of(classes);
        let wanted = [
            (Element::F32, product(&[lists / classes.max(1), count, 4])),
            (Element::F32, product(&[lists, count])),
            (Element::I64, product(&[lists, count])),
            (Element::F32, 1),
            (Element::I64, output.elements()),
        ];
        let fits =
            |spec: &Spec, (element, size)| spec.element == element && spec.elements() == size;
        let fit = matches!(inputs.len(), 4 | 5)
            && inputs.iter().zip(wanted).all(|(spec, want)| fits(spec, want))
            && fits(output, (Element::I64, product(&[lists, self.grain()])));
        if sized && whole && fit {
            return Ok(());
        }
        Err(Error::invalid("suppress", format!("{self:?} cannot make {output} of {inputs:?}")))
    }

    pub(crate) fn compute(&self, mut job: Job<'_>) -> Outputs {
        for list in job.range.clone().step_by(self.grain()) {
            let made = self.list(&job, list / self.grain())?;
            job.push(&made);
        }
        Some(job.output)
    }

    /// List number `list`, with what it gets.
    fn list(&self, job: &Job<'_>, list: usize) -> Option<Vec<i64>> {
        let boxes = &singles(&job.inputs[0])[list / self.classes * self.count * 4..];
        let scores = &singles(&job.inputs[1])[list * self.count..][..self.count];
        let order = &integers(&job.inputs[2])[list * self.count..][self.first..][..self.len];
        let overlap = singles(&job.inputs[3])[0];
        let mut chosen = match job.inputs.get(4) {
            Some(lists) => self.chosen(&integers(lists)[list * self.grain()..][..self.grain()]),
            None => Vec::new(),
        };
        let mut areas = Areas::default();
        chosen.iter().for_each(|&number| areas.push(self.area(boxes, number)));
        for &number in order {
            if job.stopped() {
                return None;
            }
            let is_wanted = scores[self.inside(number)] > f32::NEG_INFINITY;
            let own = self.area(boxes, number);
            if is_wanted && chosen.len() < self.most && !areas.hide(own, overlap) {
                chosen.push(self.inside(number) as i64);
                areas.push(own);
            }
        }
        let numbers = chosen.iter().copied().chain(std::iter::repeat(0)).take(self.most);
        Some(std::iter::once(chosen.len() as i64).chain(numbers).collect())
    }

    /// The boxes of a list.
    fn chosen(&self, list: &[i64]) -> Vec<i64> {
        let len = usize::try_from(list[0]).unwrap_or(0).min(self.most);
        list[1..][..len].to_vec()
    }

    fn inside(&self, number: i64) -> usize {
        inside(number, self.count)
    }

    /// Edges and area of one of the boxes.
    fn area(&self, boxes: &[f32], number: i64) -> [f32; 5] {
        let &[a, b, c, d] = boxes[self.inside(number) * 4..].first_chunk().expect("it is inside");
        let [top, bottom, left, right] = if self.centred {
            [b - d * 0.5, b + d * 0.5, a - c * 0.5, a + c * 0.5]
        } else {
            [smaller(a, c), larger(a, c), smaller(b, d), larger(b, d)]
        };
        [top, bottom, left, right, (bottom - top) * (right - left)]
    }
}

impl Areas {
    fn push(&mut self, area: [f32; 5]) {
        self.0.iter_mut().zip(area).for_each(|(list, part)| list.push(part));
    }

    /// Returns whether one of these overlaps too much with another.
    fn hide(&self, other: [f32; 5], overlap: f32) -> bool {
        let len = self.0[0].len();
        (0..len).step_by(COMPARED).any(|from| {
            // All of them, so that the loop has no branches.
            let some = self.0.each_ref().map(|part| &part[from..len.min(from + COMPARED)]);
            (0..some[0].len())
                .fold(false, |hides, k| hides | (overlap < share(some.map(|part| part[k]), other)))
        })
    }
}

/// The area that two boxes have in common, as a part of the area of both.
fn share(a: [f32; 5], b: [f32; 5]) -> f32 {
    let [rows, columns] = [0, 2].map(|low| {
        let (from, to) = (larger(a[low], b[low]), smaller(a[low + 1], b[low + 1]));
        larger(to - from, 0.0)
    });
    let common = rows * columns;
    common / (a[4] + b[4] - common)
}

fn singles<'a>(values: &Values<'a>) -> &'a [f32] {
    f32::of(values).expect("it was checked")
}

fn integers<'a>(values: &Values<'a>) -> &'a [i64] {
    i64::of(values).expect("it was checked")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::array::Array;
    use crate::tensor::op::{Kind, TensorOp};

    /// Of one batch, with `len` places from `first` on.
    fn op(suppress: Suppress, lists: bool) -> TensorOp {
        let Suppress { count, classes, most, .. } = suppress;
        let spec = |element, dims: &[usize]| Spec { element, dims: dims.to_vec() };
        let output = spec(Element::I64, &[1, classes, 1 + most]);
        let mut inputs = vec![
            spec(Element::F32, &[1, count, 4]),
            spec(Element::F32, &[1, classes, count]),
            spec(Element::I64, &[1, classes, count]),
            spec(Element::F32, &[]),
        ];
        inputs.extend(lists.then(|| output.clone()));
        TensorOp { kind: Kind::Suppress(suppress), inputs, output }
    }

    /// Four boxes, the first two of which have two thirds of their area in common.
    const BOXES: [f32; 16] =
        [0., 0., 1., 5., 1., 6., 0., 1., 0., 20., 1., 25., 0., 30., 1., f32::NAN];
    const SIZES: Suppress =
        Suppress { count: 4, classes: 1, most: 3, first: 0, len: 4, centred: false };

    /// The list of the only class.
    fn list(op: &TensorOp, scores: &[f32], order: &[i64], overlap: f32, lists: &[i64]) -> Vec<i64> {
        let all = [
            Values::F32(&BOXES),
            Values::F32(scores),
            Values::I64(order),
            Values::F32(&[overlap]),
            Values::I64(lists),
        ];
        let outputs = 0..op.output.elements();
        match op.compute(&all[..op.inputs.len()], outputs, &|| false) {
            Ok(Some(Array::I64(lists))) => lists,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn box_that_overlaps_one_before_it_is_left_out() {
        let all = |order: &[i64], overlap| list(&op(SIZES, false), &[1.0; 4], order, overlap, &[]);
        assert_eq!(all(&[1, 0, 2, 3], 0.6), [3, 1, 2, 3]);
        assert_eq!(all(&[1, 0, 2, 3], 0.7), [3, 1, 0, 2], "and the list is full");
        assert_eq!(all(&[2, 0, 1, 3], 0.5), [3, 2, 0, 3]);
        assert_eq!(all(&[0, 9, -1, -9], f32::NAN), [3, 0, 3, 3], "the nearest in range");
    }

    #[test]
    fn box_without_a_score_is_left_out_and_hides_no_other() {
        let scores = [f32::NEG_INFINITY, 0.0, f32::NAN, f32::INFINITY];
        assert_eq!(list(&op(SIZES, false), &scores, &[0, 1, 2, 3], 0.5, &[]), [2, 1, 3, 0]);
    }

    #[test]
    fn list_grows_by_some_places_at_a_time() {
        let order = [2, 0, 1, 3];
        let part = |first| op(Suppress { first, len: 2, ..SIZES }, true);
        let begun = list(&part(0), &[1.0; 4], &order, 0.5, &[0; 4]);
        assert_eq!(begun, [2, 2, 0, 0]);
        assert_eq!(list(&part(2), &[1.0; 4], &order, 0.5, &begun), [3, 2, 0, 3]);
        // What no operation makes means something all the same.
        assert_eq!(list(&part(2), &[1.0; 4], &order, 0.5, &[-1, 0, 0, 0]), [2, 1, 3, 0]);
        assert_eq!(list(&part(2), &[1.0; 4], &order, 0.5, &[9, 1, 7, 2]), [3, 1, 7, 2]);
    }

    #[test]
    fn boxes_by_their_centres_are_those_by_their_corners() {
        let op = op(Suppress { centred: true, count: 2, len: 2, most: 2, ..SIZES }, false);
        let boxes = [2.5, 0.5, 5., 1., 3.5, 0.5, 5., 1.];
        let list = |overlap: f32| {
            let all = [
                Values::F32(&boxes),
                Values::F32(&[1.0; 2]),
                Values::I64(&[0, 1]),
                Values::F32(&[overlap]),
            ];
            op.compute(&all, 0..3, &|| false).unwrap().unwrap()
        };
        assert_eq!(list(0.6), Array::I64(vec![1, 0, 0]));
        assert_eq!(list(0.7), Array::I64(vec![2, 0, 1]));
    }

    #[test]
    fn each_class_has_a_list_and_stops() {
        let op = op(Suppress { classes: 2, ..SIZES }, false);
        let all = [
            Values::F32(&BOXES),
            Values::F32(&[1.0; 8]),
            Values::I64(&[0, 1, 2, 3, 1, 0, 3, 2]),
            Values::F32(&[0.5]),
        ];
        let made = |range| op.compute(&all, range, &|| false).unwrap().unwrap();
        assert_eq!(made(0..8), Array::I64(vec![3, 0, 2, 3, 3, 1, 3, 2]));
        assert_eq!(made(4..8), Array::I64(vec![3, 1, 3, 2]));
        assert!(op.compute(&all, 0..8, &|| true).unwrap().is_none());
        assert!(op.compute(&all, 1..5, &|| false).is_err());
    }

    #[test]
    fn invalid_suppress_is_refused() {
        let few = TensorOp { inputs: op(SIZES, false).inputs[..3].to_vec(), ..op(SIZES, false) };
        let mut single = op(SIZES, false);
        single.output.element = Element::I32;
        let mut odd = op(Suppress { classes: 2, ..SIZES }, false);
        odd.output.dims = vec![3, 4];
        let with = |change: fn(&mut Suppress)| {
            let mut sizes = SIZES;
            change(&mut sizes);
            TensorOp { kind: Kind::Suppress(sizes), ..op(SIZES, true) }
        };
        for op in [
            few,
            single,
            odd,
            with(|op| op.len = 5),
            with(|op| op.len = 0),
            with(|op| op.first = usize::MAX),
            with(|op| op.most = 2),
            with(|op| op.most = usize::MAX),
            with(|op| op.count = 0),
            with(|op| op.classes = 0),
            with(|op| (op.count, op.len) = (2000, 1025)),
        ] {
            assert!(matches!(op.check(), Err(Error::Invalid(_))), "{op:?}");
        }
    }
}
