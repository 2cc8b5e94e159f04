//! `GroupQueryAttention`: heads of queries share keys and values, which are kept from token to
//! token.
//!
//! Each batch has a number of tokens of its own, which the operand `seqlens_k` says less one. Its
//! new tokens are those behind, so they belong at that number less how many they are.

use super::attention::{by_head, rotated_by};
use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::tokens::attention::{Attention, capped};
use crate::onnx::general::operators::tokens::cache::placed;
use crate::onnx::general::operators::tokens::heads::Heads;
use crate::onnx::general::operators::tokens::masks::Masks;
use crate::tensors::axes::size;
use crate::tensors::builder::Builder;
use crate::tensors::expressions::same_element;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Domain, Element, Scalar};

/// Operands: queries (or all three in one), keys, values, both of the past, numbers of tokens less
/// one, the largest number of tokens, tables of cosines and of sines, places, summand of the
/// scores, a score of each head that no value has, two scales of a packed cache, and weights of
/// norms of queries and keys. Results: means, keys and values of all tokens.
pub(super) fn attention(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    refuse_packed_caches(call)?;
    let [queries, keys, values] = heads(b, call)?;
    let [queries, keys] = normalised(b, call, [queries, keys])?;
    let cache = Cache::of(b, call, &queries, &keys)?;
    let places = cache.places(b, call, queries.dims()[2])?;
    let [queries, keys] = turned(b, call, [queries, keys], &places)?;
    let past = [call.maybe(3), call.maybe(4)];
    let keys = cache.with(b, past[0], &keys)?;
    let values = cache.with(b, past[1], &values)?;
    let of = |value: &Value| Heads::of(value, None, "kv_num_heads");
    let all = Attention { queries: of(&queries)?, keys: of(&keys)?, values: of(&values)?, past: 0 };
    let shares = shares(b, call, &all, &cache.before)?;
    let made = all.means(b, &shares, None)?;
    let made = b.cast(&made, queries.element())?;
    let made = b.transpose(&made, &[0, 2, 1, 3])?;
    let &[batch, rows, heads, columns] = made.dims() else { return Err("no heads".into()) };
    let made = b.reshape(&made, vec![batch, rows, heads * columns])?;
    Ok(vec![made, keys, values])
}

/// Keys and values of few bits are not read.
fn refuse_packed_caches(call: &Call<'_>) -> Result<()> {
    for name in ["k_quant_type", "v_quant_type"] {
        let kind = call.text(name, "NONE")?;
        if kind != "NONE" {
            return Err(beyond(&format!("attribute {name} must be \"NONE\", got {kind:?}")));
        }
    }
    for name in ["kv_cache_bit_width", "qk_output", "sliding_window_cache"] {
        let number = call.int(name, 0)?;
        if number > 0 {
            return Err(beyond(&format!("attribute {name} must be 0, got {number}")));
        }
    }
    for (index, name) in [(12, "k_scale"), (13, "v_scale")] {
        if call.maybe(index).is_some() {
            return Err(beyond(&format!("{name} must be left out: the cache has floats")));
        }
    }
    Ok(())
}

/// Queries and keys of each head divided by their root mean square, if there are weights for it.
fn normalised(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    [queries, keys]: [Value; 2],
) -> Result<[Value; 2]> {
    let usual = call.float("qk_norm_epsilon", 1e-6)?;
    let epsilons = [call.float("q_norm_epsilon", usual)?, call.float("k_norm_epsilon", usual)?];
    let weights = match (call.maybe(14), call.maybe(15)) {
        (Some(own), Some(shared)) => [own, shared],
        (None, None) => return Ok([queries, keys]),
        _ => return Err("q_norm_weight and k_norm_weight come together, one is missing".into()),
    };
    let mut each = |value: &Value, k: usize| {
        let [made, _] = b.by_root_mean_square(value, &[3], epsilons[k])?;
        let made = b.scaled(&made, Some(weights[k]), None)?;
        b.cast(&made, value.element())
    };
    Ok([each(&queries, 0)?, each(&keys, 1)?])
}

/// Queries, keys and values: batches, heads, tokens, columns each.
fn heads(b: &mut Builder<'_>, call: &Call<'_>) -> Result<[Value; 3]> {
    let count = |name| match size(call.int(name, 0)?)? {
        0 => Err(format!("attribute {name} must be at least 1, got 0")),
        count => Ok(count),
    };
    let (own, shared) = (count("num_heads")?, count("kv_num_heads")?);
    let x = call.get(0)?;
    let parts = match (call.maybe(1), call.maybe(2)) {
        (Some(keys), Some(values)) => [x.clone(), keys.clone(), values.clone()],
        (None, None) => parts(b, x, own, shared)?,
        _ => return Err("keys and values come together, one is missing".into()),
    };
    if let Some(other) = parts.iter().find(|part| part.rank() != 3) {
        return Err(format!("operands must have three dimensions, got {}", other.spec));
    }
    same_element(&parts[0], &parts[1])?;
    same_element(&parts[0], &parts[2])?;
    let [queries, keys, values] = parts;
    let all =
        [by_head(b, &queries, own)?, by_head(b, &keys, shared)?, by_head(b, &values, shared)?];
    let (q, k, v) = (all[0].dims(), all[1].dims(), all[2].dims());
    let fits = own.is_multiple_of(shared) && k == v && [q[0], q[2], q[3]] == [k[0], k[2], k[3]];
    if fits && q.iter().all(|&size| size > 0) {
        return Ok(all);
    }
    Err(format!("queries {q:?}, keys {k:?} and values {v:?} (batches, heads, tokens, columns)"))
}

/// The columns of all heads that stand in one tensor.
fn parts(b: &mut Builder<'_>, x: &Value, own: usize, shared: usize) -> Result<[Value; 3]> {
    let all = own.saturating_add(shared.saturating_mul(2));
    let columns = match *x.dims() {
        [_, _, width] if width.is_multiple_of(all) => width / all,
        _ => return Err(format!("{} of {own} heads and twice {shared}", x.spec)),
    };
    let (own, shared) = (own * columns, shared * columns);
    let mut part = |from: usize, len: usize| b.cut(x, 2, from, from + len);
    Ok([part(0, own)?, part(own, shared)?, part(own + shared, shared)?])
}

/// Places of keys and values, old and new.
struct Cache {
    /// Number of places.
    room: usize,
    /// Tokens of each batch that were there before.
    before: Value,
    /// None were, in any batch.
    is_new: bool,
}

impl Cache {
    fn of(b: &mut Builder<'_>, call: &Call<'_>, queries: &Value, keys: &Value) -> Result<Self> {
        let (batch, new) = (queries.dims()[0], queries.dims()[2]);
        let total = call.number(6)?.ok_or("operand 6 is missing")?;
        let total = size(total as i64)?;
        let past = match (call.maybe(3), call.maybe(4)) {
            (Some(past), Some(values)) => places_of_past(past, values, keys)?,
            (None, None) => 0,
            _ => return Err("past_key and past_value come together, one is missing".into()),
        };
        if new > total {
            return Err(format!("{new} new tokens, {total} of all"));
        }
        let room = total.max(past);
        if new == total {
            let before = b.zeros(vec![batch])?;
            return Ok(Self { room, before, is_new: true });
        }
        if call.maybe(3).is_none() {
            return Err(format!("{new} of {total} tokens are new, and past_key is missing"));
        }
        let lengths = last_tokens(b, call, batch)?;
        // Lengths that a request gives are kept within the cache.
        let before = b.map_in(Domain::I64, Element::I64, &[&lengths], |w| {
            let (last, new) = (w.input(0), w.whole(new as i64 - 1));
            let before = w.sub(last, new);
            let (least, most) = (w.whole(0), w.whole((room - queries.dims()[2]) as i64));
            let before = w.bin(Binary::Max, before, least);
            w.bin(Binary::Min, before, most)
        })?;
        Ok(Self { room, before, is_new: false })
    }

    /// Places of new tokens, for tables of angles.
    fn places(&self, b: &mut Builder<'_>, call: &Call<'_>, new: usize) -> Result<Value> {
        let batch = self.before.dims()[0];
        if let Some(places) = call.maybe(9) {
            if places.dims() != [batch, new] || places.element().is_float() {
                return Err(format!("places {} of {batch} batches of {new} tokens", places.spec));
            }
            if !self.is_new {
                return Ok(places.clone());
            }
            // ONNX Runtime reads the first place of a first prompt, and counts on from it.
            let flat = b.reshape(places, vec![batch * new])?;
            let first = b.cut(&flat, 0, 0, 1)?;
            let first = b.cast(&first, Element::I64)?;
            let (first, rows) = (b.reshape(&first, vec![1, 1])?, b.count(vec![1, new])?);
            return b.binary(Binary::Add, &first, &rows);
        }
        let (before, rows) = (b.reshape(&self.before, vec![batch, 1])?, b.count(vec![1, new])?);
        b.binary(Binary::Add, &before, &rows)
    }

    /// Keys or values of all tokens, zeros behind the last.
    fn with(&self, b: &mut Builder<'_>, past: Option<&Value>, new: &Value) -> Result<Value> {
        let tokens = new.dims()[2];
        let Some(past) = past.filter(|_| !self.is_new) else {
            let after = [0, 0, (self.room - tokens) as i64, 0];
            return b.pad(new, &[0; 4], &after, Scalar::Whole(0));
        };
        let after = [0, 0, (self.room - past.dims()[2]) as i64, 0];
        let cache = b.pad(past, &[0; 4], &after, Scalar::Whole(0))?;
        let all = placed(b, &cache, new, &self.before, 2, false)?;
        let before = b.reshape(&self.before, vec![new.dims()[0], 1, 1, 1])?;
        let places = b.count(vec![1, 1, self.room, 1])?;
        let is_there = b.map_in(Domain::I64, Element::Bool, &[&places, &before], |w| {
            let (place, before, new) = (w.input(0), w.input(1), w.whole(tokens as i64));
            let end = w.add(before, new);
            w.bin(Binary::Less, place, end)
        })?;
        b.map(all.element(), &[&is_there, &all], |w| {
            let (is_there, value, zero) = (w.input(0), w.input(1), w.whole(0));
            w.select(is_there, value, zero)
        })
    }
}

/// Number of tokens of each batch less one.
fn last_tokens(b: &mut Builder<'_>, call: &Call<'_>, batch: usize) -> Result<Value> {
    let lengths = call.get(5)?;
    if lengths.element().is_float() || lengths.spec.elements() != batch {
        return Err(format!("numbers of tokens {} of {batch} batches", lengths.spec));
    }
    let lengths = b.reshape(lengths, vec![batch])?;
    b.cast(&lengths, Element::I64)
}

/// Places that keys and values of the past have.
fn places_of_past(past: &Value, values: &Value, keys: &Value) -> Result<usize> {
    same_element(past, keys)?;
    same_element(values, keys)?;
    match (past.dims(), keys.dims()) {
        (&[batch, heads, places, columns], &[own_batch, own_heads, _, own_columns])
            if values.dims() == past.dims()
                && [batch, heads, columns] == [own_batch, own_heads, own_columns] =>
        {
            Ok(places)
        }
        _ => Err(format!("a past of {} and {} for {}", past.spec, values.spec, keys.spec)),
    }
}

/// Queries and keys, turned by the angles of their places if the node says so.
fn turned(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    [queries, keys]: [Value; 2],
    places: &Value,
) -> Result<[Value; 2]> {
    let is_interleaved = call.flag("rotary_interleaved", false)?;
    let tables = [call.maybe(7), call.maybe(8)];
    if !call.flag("do_rotary", false)? {
        return Ok([queries, keys]);
    }
    let [Some(cosines), Some(sines)] = tables else {
        return Err("do_rotary = 1 needs cos_cache and sin_cache, one is missing".into());
    };
    let mut turn = |x: &Value| rotated_by(b, x, places, [cosines, sines], is_interleaved);
    Ok([turn(&queries)?, turn(&keys)?])
}

/// Share of each value that a query gets.
fn shares(b: &mut Builder<'_>, call: &Call<'_>, all: &Attention, before: &Value) -> Result<Value> {
    let usual = 1.0 / (all.queries.sizes[3] as f64).sqrt();
    let scale = Some(call.float("scale", usual)?).filter(|&scale| scale != 0.0);
    let product = all.scores(b)?;
    let product = b.with_number(Binary::Mul, &product, scale.unwrap_or(usual))?;
    let scores = capped(b, &product, call.float("softcap", 0.0)?)?;
    let window = Some(call.int("local_window_size", -1)?).filter(|&window| window > 0);
    let mut masks = Masks::new();
    if call.flag("causal", true)? {
        masks.following(b, before, &scores, window)?;
    } else if window.is_some() {
        return Err("attribute local_window_size must be -1 if causal is 0".into());
    } else {
        // Of a first prompt too: tokens behind the last one are padding, which nothing sees.
        let lengths = last_tokens(b, call, before.dims()[0])?;
        let lengths = b.each(&lengths, |w, last| {
            let one = w.whole(1);
            let length = w.add(last, one);
            w.bin(Binary::Max, length, one)
        })?;
        masks.lengths(b, &lengths, &scores, false)?;
    }
    if let Some(summand) = call.maybe(10) {
        let summand = b.cast(summand, scores.element())?;
        masks.adding(over_keys(b, &summand, &scores)?);
    }
    let masked = masks.of(b, scores)?;
    // ONNX Runtime writes -1, the default, into files that it optimizes.
    let is_smooth = call.int("smooth_softmax", -1)? == 1;
    match call.maybe(11) {
        Some(sink) => with_sink(b, &masked, sink),
        None if is_smooth => {
            let zero = b.scalar(masked.element(), 0.0)?;
            with_sink(b, &masked, &zero)
        }
        None => b.softmax(&masked, &[3], false),
    }
}

/// A summand with as many keys as the scores have; those behind its own are hidden anyway.
fn over_keys(b: &mut Builder<'_>, summand: &Value, scores: &Value) -> Result<Value> {
    let refused = || format!("a summand of {} for scores {:?}", summand.spec, scores.dims());
    let (&[_, _, _, own], &[_, _, _, keys]) = (summand.dims(), scores.dims()) else {
        return Err(refused());
    };
    let more = keys.checked_sub(own).ok_or_else(refused)? as i64;
    let made = b.pad(summand, &[0; 4], &[0, 0, 0, more], Scalar::Whole(0))?;
    b.expand(&made, scores.dims()).map_err(|_| refused())
}

/// Softmax with one more score for each head, which has no value.
fn with_sink(b: &mut Builder<'_>, scores: &Value, sink: &Value) -> Result<Value> {
    let &[batch, heads, rows, keys] = scores.dims() else { return Err("no scores".into()) };
    let sink = b.cast(sink, scores.element())?;
    let sink = match sink.spec.elements() {
        1 => b.reshape(&sink, vec![1; 4])?,
        own if own == heads => b.reshape(&sink, vec![1, heads, 1, 1])?,
        _ => return Err(format!("a score {} for {heads} heads", sink.spec)),
    };
    let sink = b.expand(&sink, &[batch, heads, rows, 1])?;
    let all = b.concat(&[scores, &sink], 3)?;
    let shares = b.softmax(&all, &[3], false)?;
    b.cut(&shares, 3, 0, keys)
}
