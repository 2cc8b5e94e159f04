//! Finds attention that a network has as separate operations, and joins it.

use super::operands::{Operand, score_step, whole_rows};
use super::places::{line, split_last};
use super::rows::common;
use super::scores::{Change, changes};
use super::softmax::softmax;
use super::steps::{Steps, needed};
use crate::model::ports::Port;
use crate::tensors::step::TensorStep;
use reef_op::tensor::{Attention, Contract, Kind, Placed, ScoreStep, TensorOp, View};
use std::collections::HashMap;
use std::sync::Arc;

/// Joins attention into one operation wherever it is found and `has` has it.
pub(crate) fn joined(
    steps: &[TensorStep],
    outputs: &[Port],
    has: &dyn Fn(&TensorOp) -> bool,
) -> Vec<TensorStep> {
    let known = Steps::new(steps, outputs);
    let found = (0..steps.len()).filter_map(|at| join(&known, at));
    let mut instead: HashMap<usize, TensorStep> = found.filter(|(_, step)| has(&step.op)).collect();
    let all = steps.iter().enumerate();
    let all = all.map(|(k, step)| instead.remove(&k).unwrap_or_else(|| step.clone()));
    needed(all.collect(), outputs)
}

/// Attention that ends with step `at`, as one step, and which one it replaces.
fn join(steps: &Steps<'_>, at: usize) -> Option<(usize, TensorStep)> {
    let Kind::Contract(product) = &steps.all[at].op.kind else { return None };
    [0, 1].into_iter().find_map(|weights| Weighted { steps, at, product, weights }.join())
}

/// A product that may be one of weights and values.
struct Weighted<'a> {
    steps: &'a Steps<'a>,
    /// Number of the step.
    at: usize,
    product: &'a Contract,
    /// Number of the input with the weights.
    weights: usize,
}

impl Weighted<'_> {
    fn join(&self) -> Option<(usize, TensorStep)> {
        let last = &self.steps.all[self.at];
        let (keys, _) = line(&self.product.summed[self.weights]).filter(|(keys, _)| *keys > 0)?;
        let rows = self.rows_of_weights(keys)?;
        let softmax = softmax(self.steps, last.reads[self.weights], keys)?;
        let (changes, scores) = changes(self.steps, softmax.scores, keys)?;
        let mut scale = 1.0;
        let [queries, keys] = factors(self.steps, scores, keys, &mut scale)?;
        let mut operands = vec![queries, keys];
        for read in changes.iter().filter_map(Change::reads) {
            operands.push(Operand::of_scores(read)?.at_source(self.steps, None));
        }
        let of_scores = common(&rows, operands.iter().map(|operand| &operand.rows))?;
        operands.iter_mut().zip(of_scores).for_each(|(operand, rows)| operand.rows = rows);
        operands.insert(2, self.values()?);
        let (at, order) = self.order();
        let views = views(&order, &operands)?;
        let replaced = &self.steps.all[at];
        let [queries, keys, values] = [0, 1, 2].map(|k| views[k].clone());
        let scores = score_steps(scale, &changes, &views[3..])?;
        let none_is_zero = softmax.none_is_zero;
        let op = TensorOp {
            kind: Kind::Attention(Attention { queries, keys, values, scores, none_is_zero }),
            inputs: operands.iter().map(|operand| operand.spec.clone()).collect(),
            output: replaced.op.output.clone(),
        };
        op.check().ok()?;
        let reads = operands.iter().map(|operand| operand.storage).collect();
        Some((
            at,
            TensorStep {
                name: last.name.clone(),
                op: Arc::new(op),
                reads,
                writes: replaced.writes,
            },
        ))
    }

    /// Row of `keys` weights that belongs to each row of the product.
    fn rows_of_weights(&self, keys: usize) -> Option<Placed> {
        let (mut rows, still) = split_last(&self.product.kept[self.weights])?;
        let (_, stride) = line(&self.product.summed[self.weights])?;
        let whole = rows.strides.iter().all(|stride| stride.is_multiple_of(keys));
        rows.strides.iter_mut().for_each(|stride| *stride /= keys);
        (still == 0 && whole && (stride == 1 || keys == 1))
            .then_some(Placed { first: 0, view: rows })
    }

    fn values(&self) -> Option<Operand> {
        let (last, values) = (&self.steps.all[self.at], 1 - self.weights);
        let (rows, stride) = split_last(&self.product.kept[values])?;
        let axes = [line(&self.product.summed[values])?, (self.width(), stride)];
        Some(Operand::of((last, values), rows, &axes).at_source(self.steps, None))
    }

    /// Elements of a row of the result.
    fn width(&self) -> usize {
        self.product.kept[0].dims.last().copied().unwrap_or(1)
    }

    /// Number of the step that the joined one replaces, and the row of the product that each row of
    /// its result is. A move of whole rows is part of it if it alone reads them.
    fn order(&self) -> (usize, Placed) {
        let last = &self.steps.all[self.at];
        let moved = self.steps.only_reader(last.writes).and_then(|at| {
            let step = &self.steps.all[at];
            let Kind::Move(op) = &step.op.kind else { return None };
            let as_many = step.op.output.elements() == last.op.output.elements();
            Some((at, whole_rows(op, self.width())?)).filter(|_| as_many)
        });
        moved.unwrap_or_else(|| {
            let dims = &self.product.kept[0].dims;
            (self.at, Placed { first: 0, view: View::dense(&dims[..dims.len() - 1]) })
        })
    }
}

/// Queries and keys, if `scores` is their product for `keys` keys. Factors of both go to `scale`.
fn factors(
    steps: &Steps<'_>,
    scores: &TensorStep,
    keys: usize,
    scale: &mut f64,
) -> Option<[Operand; 2]> {
    let Kind::Contract(product) = &scores.op.kind else { return None };
    let query = product.kept.iter().position(|view| view.strides.last() == Some(&0))?;
    let key = 1 - query;
    let (query_rows, _) = split_last(&product.kept[query])?;
    let (key_rows, stride) = split_last(&product.kept[key])?;
    (product.kept[key].dims.last() == Some(&keys)).then_some(())?;
    let [query_depth, key_depth] = [line(&product.summed[query])?, line(&product.summed[key])?];
    let queries = Operand::of((scores, query), query_rows, &[query_depth]);
    let keys = Operand::of((scores, key), key_rows, &[(keys, stride), key_depth]);
    Some([queries.at_source(steps, Some(&mut *scale)), keys.at_source(steps, Some(scale))])
}

/// View of each operand from a row of the result.
fn views(order: &Placed, operands: &[Operand]) -> Option<Vec<Placed>> {
    let rows =
        common(order, operands.iter().map(|operand| &operand.rows))?.into_iter().zip(operands);
    Some(rows.map(|(rows, operand)| operand.placed(rows)).collect())
}

/// Steps of scores that are multiplied by `scale` first. Each change but a scale has a view.
fn score_steps(scale: f64, changes: &[Change], views: &[Placed]) -> Option<Vec<ScoreStep>> {
    let (mut steps, mut views) = (vec![ScoreStep::Scale(scale as f32)], views.iter());
    for change in changes {
        match (change, steps.as_mut_slice()) {
            (Change::Scale(factor), [ScoreStep::Scale(scale)]) => {
                *scale = (f64::from(*scale) * factor) as f32
            }
            (Change::Scale(factor), _) => steps.push(ScoreStep::Scale(*factor as f32)),
            (other, _) => steps.push(score_step(other, views.next()?.clone())?),
        }
    }
    steps.retain(|step| *step != ScoreStep::Scale(1.0));
    Some(steps)
}
