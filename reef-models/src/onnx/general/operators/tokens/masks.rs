//! Masks of attention: keys that a query must not see.

use crate::onnx::fault::Result;
use crate::tensors::axes::{broadcast, elements};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Binary, Domain, Element, FoldKind, Scalar, Truth};

/// Masks of scores. All have four dimensions that can be broadcast to those of scores.
#[derive(Default)]
pub(in crate::onnx::general::operators) struct Masks {
    /// Scores stay where these are true, and are `-inf` elsewhere.
    keep: Vec<Value>,
    /// This is added to scores.
    add: Option<Value>,
    /// True if each query sees some key, whatever the values are.
    sound: bool,
}

impl Masks {
    pub(in crate::onnx::general::operators) fn new() -> Self {
        Self { sound: true, ..Self::default() }
    }

    /// The operand of the node: truth values, or numbers of type `element` that are added. If its
    /// last axis is shorter than the number of keys, no query sees the keys behind it, unless it
    /// `spreads` a single value over all keys.
    pub(in crate::onnx::general::operators) fn operand(
        &mut self,
        b: &mut Builder<'_>,
        given: &Value,
        scores: &Value,
        spreads: bool,
    ) -> Result<()> {
        let refused = || format!("a mask of {} for scores of {:?}", given.spec, scores.dims());
        let (&keys, rank) = (scores.dims().last().ok_or_else(refused)?, given.rank());
        let &last = given.dims().last().filter(|_| rank <= 4).ok_or_else(refused)?;
        let is_truth = given.element() == Element::Bool;
        let mask = if is_truth { given.clone() } else { b.cast(given, scores.element())? };
        let fill = if is_truth { Scalar::Whole(0) } else { Scalar::Real(f64::NEG_INFINITY) };
        let mut after = vec![0; rank];
        if last < keys && !(spreads && last == 1) {
            after[rank - 1] = (keys - last) as i64;
        }
        let mask = b.pad(&mask, &vec![0; rank], &after, fill)?;
        let mask = b.reshape(&mask, [&vec![1; 4 - rank], mask.dims()].concat())?;
        let both = broadcast([mask.dims(), scores.dims()]);
        if both.ok().as_deref() != Some(scores.dims()) {
            return Err(refused());
        }
        self.sound = false;
        if is_truth {
            self.keep.push(mask)
        } else {
            self.add = Some(mask)
        }
        Ok(())
    }

    /// Query `i` sees keys up to `i + before`.
    pub(in crate::onnx::general::operators) fn causal(
        &mut self,
        b: &Builder<'_>,
        scores: &Value,
        before: usize,
    ) -> Result<()> {
        let (queries, keys) = (scores.dims()[2], scores.dims()[3]);
        let count = elements(&[queries, keys])?;
        let sees = |at: usize| Truth((at % keys <= at / keys + before).into());
        let _making = b.ledger.charge(count as u64)?;
        let sees = Array::Bool((0..count).map(sees).collect());
        self.keep.push(b.constant(vec![1, 1, queries, keys], sees)?);
        Ok(())
    }

    /// Each batch has a number of keys of its own. If it is `causal`, the last query sees the last
    /// of those, the one before it one key less, and so on.
    pub(in crate::onnx::general::operators) fn lengths(
        &mut self,
        b: &mut Builder<'_>,
        lengths: &Value,
        scores: &Value,
        causal: bool,
    ) -> Result<()> {
        let &[batch, _, queries, keys] = scores.dims() else { return Err("no scores".into()) };
        if lengths.element().is_float() || lengths.dims() != [batch] {
            return Err(format!("lengths must be of {batch} batches, got {}", lengths.spec));
        }
        let lengths = b.cast(lengths, Element::I64)?;
        let lengths = b.reshape(&lengths, vec![batch, 1, 1, 1])?;
        let places = b.count(vec![1, 1, 1, keys])?;
        // Which key each query doesn't see any more, over the number of keys.
        let rows = if causal { 1 - queries as i64..=0 } else { 0..=0 };
        let _making = b.ledger.charge(if causal { 8 * queries as u64 } else { 8 })?;
        let rows: Vec<i64> = rows.collect();
        let rows = b.whole(vec![1, 1, rows.len(), 1], rows)?;
        let inputs = [&places, &lengths, &rows];
        self.keep.push(b.map_in(Domain::I64, Element::Bool, &inputs, |w| {
            let (place, length, row) = (w.input(0), w.input(1), w.input(2));
            let end = w.add(length, row);
            w.bin(Binary::Less, place, end)
        })?);
        self.sound = false;
        Ok(())
    }

    /// Each batch has `before` keys before its queries, of which each sees those up to itself, and
    /// not more than the last `window` of them.
    pub(in crate::onnx::general::operators) fn following(
        &mut self,
        b: &mut Builder<'_>,
        before: &Value,
        scores: &Value,
        window: Option<i64>,
    ) -> Result<()> {
        let &[batch, _, queries, keys] = scores.dims() else { return Err("no scores".into()) };
        let before = b.reshape(before, vec![batch, 1, 1, 1])?;
        let (rows, places) = (b.count(vec![1, 1, queries, 1])?, b.count(vec![1, 1, 1, keys])?);
        let inputs = [&places, &before, &rows];
        self.keep.push(b.map_in(Domain::I64, Element::Bool, &inputs, |w| {
            let (place, before, row) = (w.input(0), w.input(1), w.input(2));
            let last = w.add(before, row);
            let seen = w.bin(Binary::LessOrEqual, place, last);
            let Some(window) = window else { return seen };
            let window = w.whole(window);
            let gone = w.sub(last, window);
            let is_near = w.bin(Binary::Less, gone, place);
            w.mul(seen, is_near)
        })?);
        Ok(())
    }

    /// Query `i` sees keys from `left` places before place `i + before` to `right` places behind
    /// it. A side that is negative has no bound.
    pub(in crate::onnx::general::operators) fn window(
        &mut self,
        b: &mut Builder<'_>,
        before: &Value,
        scores: &Value,
        [left, right]: [i64; 2],
    ) -> Result<()> {
        let &[_, _, queries, keys] = scores.dims() else { return Err("no scores".into()) };
        let before = b.reshape(before, vec![before.spec.elements(), 1, 1, 1])?;
        let (rows, places) = (b.count(vec![1, 1, queries, 1])?, b.count(vec![1, 1, 1, keys])?);
        for (bound, is_left) in [(left, true), (right, false)] {
            if bound < 0 {
                continue;
            }
            let inputs = [&places, &before, &rows];
            self.keep.push(b.map_in(Domain::I64, Element::Bool, &inputs, |w| {
                let (place, before, row) = (w.input(0), w.input(1), w.input(2));
                let (at, bound) = (w.add(before, row), w.whole(bound));
                let apart = if is_left { w.sub(at, place) } else { w.sub(place, at) };
                w.bin(Binary::LessOrEqual, apart, bound)
            })?);
            self.sound = false;
        }
        Ok(())
    }

    /// `summand` is added to scores.
    pub(in crate::onnx::general::operators) fn adding(&mut self, summand: Value) {
        self.add = Some(summand);
    }

    /// Scores with these masks.
    pub(in crate::onnx::general::operators) fn of(
        &self,
        b: &mut Builder<'_>,
        scores: Value,
    ) -> Result<Value> {
        let mut scores = scores;
        if let Some(add) = &self.add {
            scores = b.binary(Binary::Add, &scores, add)?;
        }
        for keep in &self.keep {
            scores = b.map(scores.element(), &[&scores, keep], |w| {
                let (score, keep, never) = (w.input(0), w.input(1), w.real(f64::NEG_INFINITY));
                w.select(keep, score, never)
            })?;
        }
        Ok(scores)
    }

    /// Returns whether each query sees any key, with one element for all keys; `None` if all do.
    pub(in crate::onnx::general::operators) fn seeing(
        &self,
        b: &mut Builder<'_>,
        domain: Domain,
    ) -> Result<Option<Value>> {
        if self.sound {
            return Ok(None);
        }
        let inputs: Vec<&Value> = self.keep.iter().chain(&self.add).collect();
        let sees = b.map_in(domain, Element::Bool, &inputs, |w| {
            let one = |w: &mut crate::tensors::expressions::Writer, k: usize| {
                let input = w.input(k);
                if k < self.keep.len() {
                    return input;
                }
                let never = w.real(f64::NEG_INFINITY);
                w.bin(Binary::Less, never, input)
            };
            let first = one(w, 0);
            (1..inputs.len()).fold(first, |all, k| {
                let other = one(w, k);
                w.mul(all, other)
            })
        })?;
        let any = b.fold_axes(&sees, &[3], FoldKind::Max)?;
        let all = any
            .known_values()
            .is_some_and(|known| known.array.values().to_i64().iter().all(|&x| x != 0));
        Ok(Some(any).filter(|_| !all))
    }
}

/// `value` where `seeing` is true, 0 elsewhere.
pub(in crate::onnx::general::operators) fn or_zero(
    b: &mut Builder<'_>,
    value: Value,
    seeing: Option<&Value>,
) -> Result<Value> {
    let Some(seeing) = seeing else { return Ok(value) };
    b.map(value.element(), &[&value, seeing], |w| {
        let (value, seeing, zero) = (w.input(0), w.input(1), w.real(0.0));
        w.select(seeing, value, zero)
    })
}
