//! `NonMaxSuppression` of random boxes is what the operator's definition says: the best box that is
//! left is chosen, and hides those that overlap with it, until none is left.

use super::{doubles, network, numbers};
use crate::handmade::{int, node, open, scalar, value};
use reef_op::tensor::Array;

const I64: i64 = 7;

/// Numbers by chance, the same for a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// Operands and attributes of the operator.
#[derive(Debug)]
struct Case {
    batches: usize,
    classes: usize,
    count: usize,
    most: usize,
    overlap: f32,
    least: Option<f32>,
    centred: bool,
    boxes: Vec<f32>,
    scores: Vec<f32>,
}

impl Case {
    /// Of up to `count` boxes, whose corners lie on a grid: many overlaps and scores are the same.
    fn random(random: &mut Random, count: usize) -> Self {
        let (batches, classes, count) =
            (1 + random.below(2), 1 + random.below(3), 1 + random.below(count));
        let odd = random.of(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0]);
        let is_odd = random.below(3) == 0;
        let mut number = |steps| {
            let number = random.below(steps) as f32 / 4.0;
            if is_odd && random.below(20) == 0 { odd } else { number }
        };
        let boxes = (0..batches * count * 4).map(|_| number(40)).collect();
        let scores = (0..batches * classes * count).map(|_| number(30) - 1.0).collect();
        Self {
            batches,
            classes,
            count,
            most: random.of(&[1, 3, count, count + 9]),
            overlap: random.of(&[0.0, 0.25, 0.5, 1.0, -1.0]),
            least: random.of(&[None, Some(0.0), Some(2.0), Some(f32::NEG_INFINITY), Some(99.0)]),
            centred: random.below(2) == 0,
            boxes,
            scores,
        }
    }

    /// Edges of a box: rows and then columns, the low one first.
    fn edges(&self, at: usize) -> [f32; 4] {
        let &[a, b, c, d] = self.boxes[at * 4..].first_chunk().unwrap();
        let (low, high) = (
            |x: f32, y: f32| if y < x || y.is_nan() { y } else { x },
            |x: f32, y: f32| if y > x || y.is_nan() { y } else { x },
        );
        if self.centred {
            [b + d * -0.5, b + d * 0.5, a + c * -0.5, a + c * 0.5]
        } else {
            [low(a, c), high(a, c), low(b, d), high(b, d)]
        }
    }

    fn hides(&self, chosen: usize, other: usize) -> bool {
        let (own, other) = (self.edges(chosen), self.edges(other));
        let area = |edges: [f32; 4]| (edges[1] - edges[0]) * (edges[3] - edges[2]);
        let common = |low: usize| {
            let is_none = [own, other].iter().any(|edges| (edges[low] + edges[low + 1]).is_nan());
            let to = own[low + 1].min(other[low + 1]);
            if is_none { f32::NAN } else { (to - own[low].max(other[low])).max(0.0) }
        };
        let both = common(0) * common(2);
        both / (area(other) + area(own) - both) > self.overlap
    }

    /// Batch, class and box of all that are chosen, one after the other.
    fn one_by_one(&self) -> Vec<f64> {
        let mut made = Vec::new();
        for list in 0..self.batches * self.classes {
            let (batch, class) = (list / self.classes, list % self.classes);
            let scores = &self.scores[list * self.count..][..self.count];
            let is_above = |score: f32| match self.least {
                Some(least) => score > least,
                None => !score.is_nan(),
            };
            let mut left: Vec<usize> = (0..self.count).filter(|&k| is_above(scores[k])).collect();
            for _ in 0..self.most {
                // Of the same score the first one.
                let better = |a: usize, b: usize| if scores[b] > scores[a] { b } else { a };
                let Some(best) = left.iter().copied().reduce(better) else { break };
                made.extend([batch, class, best].map(|number| number as f64));
                let at = |k: usize| batch * self.count + k;
                left.retain(|&k| k != best && !self.hides(at(best), at(k)));
            }
        }
        made
    }

    /// The answer of a network, in the same order.
    fn chosen(&self) -> Vec<f64> {
        let Self { batches, classes, count, .. } = *self;
        let dims = [batches, classes, count].map(|size| size as i64);
        let mut inputs = vec!["boxes", "scores", "most", "overlap"];
        inputs.extend(self.least.map(|_| "least"));
        let parts = [
            value(11, "boxes", &[dims[0], dims[2], 4]),
            value(11, "scores", &dims),
            numbers("most", &[self.most as i64]),
            scalar("overlap", self.overlap),
            scalar("least", self.least.unwrap_or(0.0)),
            node(
                "NonMaxSuppression",
                &inputs,
                "y",
                &[int("center_point_box", self.centred.into())],
            ),
            open(12, "y", I64, &["n", "3"]),
        ];
        let network = network(&parts, &[]).unwrap();
        let given = [&self.boxes, &self.scores].map(|values| Array::F32(values.clone()));
        doubles(&network.execute(&given).unwrap()[0])
    }
}

#[test]
fn random_boxes_are_chosen_one_after_the_other() {
    for seed in 0..80 {
        println!("seed {seed}");
        // Every tenth case has more boxes than an operation goes through.
        let count = if seed % 10 == 0 { 1800 } else { 1 + seed as usize / 2 };
        let case = Case::random(&mut Random(seed), count);
        assert_eq!(case.chosen(), case.one_by_one(), "{case:?}");
    }
}

#[test]
fn no_boxes_are_chosen_of_none() {
    let parts = [
        value(11, "boxes", &[1, 0, 4]),
        value(11, "scores", &[1, 1, 0]),
        numbers("most", &[5]),
        node("NonMaxSuppression", &["boxes", "scores", "most"], "y", &[]),
        open(12, "y", I64, &["n", "3"]),
    ];
    assert_eq!(network(&parts, &[]).unwrap().outputs[0].spec.dims, [0, 3]);
}

/// Each box is compared with those that were chosen, some of them at once: 17,000 steps otherwise.
#[test]
fn choice_of_many_boxes_takes_few_steps() {
    let steps = |count: i64, most: i64| {
        let parts = [
            value(11, "boxes", &[1, count, 4]),
            value(11, "scores", &[1, 1, count]),
            numbers("most", &[most]),
            scalar("overlap", 0.5),
            scalar("least", 0.5),
            node("NonMaxSuppression", &["boxes", "scores", "most", "overlap", "least"], "y", &[]),
            open(12, "y", I64, &["n", "3"]),
        ];
        network(&parts, &[]).unwrap().steps().len()
    };
    let [few, many, all] = [(8400, 100), (8400, 300), (8400, 8400)].map(|(n, k)| steps(n, k));
    assert_eq!((many - few, all - few), (2, 516));
    assert!(few < 40, "{few}");
}
