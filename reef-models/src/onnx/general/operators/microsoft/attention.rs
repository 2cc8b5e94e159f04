//! Attention of several heads, and places of tokens as rotations.

use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::places::indexed::rows_at;
use crate::onnx::general::operators::quantized::integers::{of_columns, product_of, scaled};
use crate::onnx::general::operators::quantized::linear::Factor;
use crate::tensors::axes::size;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Domain, Element};

/// Queries, keys and values: batches, heads, tokens, columns each.
struct Tokens {
    queries: Value,
    keys: Value,
    values: Value,
    /// Tokens that were there before.
    past: usize,
}

/// Operands: input, weights, bias, mask, past, summand of the scores.
pub(super) fn attention(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, weights) = (call.get(0)?, call.get(1)?);
    let mut all = b.matmul(x, weights)?;
    if let Some(bias) = call.maybe(2) {
        all = b.binary(Binary::Add, &all, bias)?;
    }
    projected(b, call, &all, [call.maybe(3), call.maybe(4), call.maybe(5)])
}

/// Operands: input and weights of 8 bits, bias, scales of both, mask, zero points of both, past.
pub(super) fn attention_of_integers(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, weights) = (call.get(0)?, call.get(1)?);
    let zero = call.maybe(6).map_or(Ok(Factor::Number(0.0)), |zero| Factor::of(b, zero))?;
    let zeros = [zero, of_columns(b, call.maybe(7))?];
    let sum = product_of(b, [x, weights], &zeros)?;
    let scales = [Factor::of(b, call.get(3)?)?, of_columns(b, Some(call.get(4)?))?];
    let all = scaled(b, &sum, [&scales[0], &scales[1]], Some(call.get(2)?))?;
    projected(b, call, &all, [call.maybe(5), call.maybe(8), None])
}

/// Attention of queries, keys and values that are columns of one tensor, with a mask, a past and a
/// summand of the scores.
fn projected(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    all: &Value,
    [mask, past, summand]: [Option<&Value>; 3],
) -> Result<Vec<Value>> {
    let heads = heads_of(call)?;
    for name in ["do_rotary", "past_present_share_buffer"] {
        if call.flag(name, false)? {
            return Err(beyond(&format!("attribute {name} must be 0, got 1")));
        }
    }
    call.int("rotary_embedding_dim", 0)?; // it is about rotations alone
    let width = all.dims().last().copied().unwrap_or_default();
    let sizes = match call.ints("qkv_hidden_sizes")? {
        Some(list) => list.iter().map(|&one| size(one)).collect::<Result<Vec<_>>>()?,
        None => vec![width / 3; 3],
    };
    if all.rank() != 3
        || sizes.len() != 3
        || sizes.iter().fold(0usize, |sum, &size| sum.saturating_add(size)) != width
    {
        return Err(format!("{} for hidden sizes {sizes:?}", all.spec));
    }
    let mut at = 0;
    let mut parts = Vec::new();
    for size in sizes {
        let part = b.cut(all, 2, at, at + size)?;
        parts.push(by_head(b, &part, heads)?);
        at += size;
    }
    let [queries, keys, values] = parts.try_into().map_err(|_| "must have three parts")?;
    let past = past.map(|past| halves(b, past)).transpose()?;
    let tokens = Tokens::new(b, [queries, keys, values], past)?;
    let made = tokens.attend(b, call, mask, summand)?;
    let mut results = vec![made];
    if call.wants(1) {
        let both = [&tokens.keys, &tokens.values]
            .map(|value| b.reshape(value, [&[1], value.dims()].concat()));
        let [keys, values] = both;
        results.push(b.concat(&[&keys?, &values?], 0)?);
    }
    Ok(results)
}

/// Keys and values of a past that holds both.
fn halves(b: &mut Builder<'_>, past: &Value) -> Result<[Value; 2]> {
    match past.dims() {
        &[2, batch, heads, tokens, columns] => {
            let mut half = |k: usize| {
                let half = b.cut(past, 0, k, k + 1)?;
                b.reshape(&half, vec![batch, heads, tokens, columns])
            };
            Ok([half(0)?, half(1)?])
        }
        _ => Err(format!("a past of {}", past.spec)),
    }
}

/// The parts of an operand that has each for each head: batches, tokens, heads, parts, columns.
fn unpacked<const PARTS: usize>(
    b: &mut Builder<'_>,
    packed: &Value,
    heads: usize,
) -> Result<[Value; PARTS]> {
    let &[batch, tokens, own, parts, columns] = packed.dims() else {
        return Err(beyond(&format!(
            "packed queries, keys and values must have five dimensions, got {}",
            packed.spec
        )));
    };
    if own != heads || parts != PARTS {
        return Err(format!("must be {PARTS} parts of {heads} heads, got {}", packed.spec));
    }
    let mut all = Vec::new();
    for k in 0..PARTS {
        let part = b.cut(packed, 3, k, k + 1)?;
        all.push(b.reshape(&part, vec![batch, tokens, heads * columns])?);
    }
    all.try_into().map_err(|_| format!("must have {PARTS} parts"))
}

/// Operands: queries, keys, values, bias, mask, summand of the scores, keys and values of the past.
/// Keys and values may stand in one operand, and queries with them.
pub(super) fn multi_head(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    let heads = heads_of(call)?;
    let x = call.get(0)?;
    let given = match (call.maybe(1), call.maybe(2)) {
        (Some(keys), Some(values)) => [x.clone(), keys.clone(), values.clone()],
        (Some(both), None) => {
            let [keys, values] = unpacked::<2>(b, both, heads)?;
            [x.clone(), keys, values]
        }
        (None, None) => unpacked::<3>(b, x, heads)?,
        (None, Some(_)) => return Err("values without keys".into()),
    };
    if given[0].rank() != 3 {
        return Err(format!("queries must have three dimensions, got {}", given[0].spec));
    }
    let mut at = 0;
    let mut parts = Vec::new();
    for value in &given {
        let width = if value.rank() == 4 {
            value.dims()[1] * value.dims()[3]
        } else {
            value.dims().last().copied().unwrap_or_default()
        };
        let biased = match call.maybe(3) {
            Some(bias) if bias.rank() != 1 => {
                return Err(format!("a bias must be a list, got {}", bias.spec));
            }
            // Keys and values that are heads already are those of before, which have theirs.
            Some(bias) if value.rank() != 4 => {
                let part = b.cut(bias, 0, at.min(bias.spec.elements()), at + width)?;
                b.binary(Binary::Add, value, &part)?
            }
            _ => value.clone(),
        };
        parts.push(by_head(b, &biased, heads)?);
        at += width;
    }
    let [queries, keys, values] = parts.try_into().map_err(|_| "must have three operands")?;
    let past = match (call.maybe(6), call.maybe(7)) {
        (Some(keys), Some(values)) => Some([keys.clone(), values.clone()]),
        (None, None) => None,
        _ => return Err("past_key and past_value come together, one is missing".into()),
    };
    let tokens = Tokens::new(b, [queries, keys, values], past)?;
    let made = tokens.attend(b, call, call.maybe(4), call.maybe(5))?;
    Ok(vec![made, tokens.keys, tokens.values])
}

fn heads_of(call: &Call<'_>) -> Result<usize> {
    match size(call.int("num_heads", 0)?)? {
        0 => Err("attribute num_heads must be at least 1".into()),
        heads => Ok(heads),
    }
}

/// Heads before tokens.
pub(super) fn by_head(b: &mut Builder<'_>, value: &Value, heads: usize) -> Result<Value> {
    match *value.dims() {
        [_, own, _, _] if own == heads => Ok(value.clone()),
        [batch, tokens, width] if width.is_multiple_of(heads) => {
            let split = b.reshape(value, vec![batch, tokens, heads, width / heads])?;
            b.transpose(&split, &[0, 2, 1, 3])
        }
        _ => Err(format!("{} in {heads} heads", value.spec)),
    }
}

impl Tokens {
    fn new(
        b: &mut Builder<'_>,
        [queries, keys, values]: [Value; 3],
        past: Option<[Value; 2]>,
    ) -> Result<Self> {
        let Some([past_keys, past_values]) = past else {
            return Ok(Self { queries, keys, values, past: 0 });
        };
        if past_keys.rank() != 4 || past_values.rank() != 4 {
            return Err(format!("a past of {} and {}", past_keys.spec, past_values.spec));
        }
        let past = past_keys.dims()[2];
        let keys = b.concat(&[&past_keys, &keys], 2)?;
        let values = b.concat(&[&past_values, &values], 2)?;
        Ok(Self { queries, keys, values, past })
    }

    /// Means of the values for each query, heads next to each other.
    fn attend(
        &self,
        b: &mut Builder<'_>,
        call: &Call<'_>,
        mask: Option<&Value>,
        summand: Option<&Value>,
    ) -> Result<Value> {
        let columns = self.queries.dims()[3];
        let usual = 1.0 / (columns as f64).sqrt();
        let scale = Some(call.float("scale", usual)?).filter(|&scale| scale != 0.0);
        let filter = call.float("mask_filter_value", -10_000.0)?;
        let turned = b.transpose(&self.keys, &[0, 1, 3, 2])?;
        let product = b.matmul(&self.queries, &turned)?;
        let mut scores = b.with_number(Binary::Mul, &product, scale.unwrap_or(usual))?;
        if let Some(summand) = summand {
            scores = b.binary(Binary::Add, &scores, summand)?;
        }
        if let Some(mask) = mask {
            let mask = self.mask(b, mask)?;
            scores = filtered(b, &scores, &mask, filter)?;
        }
        if call.flag("unidirectional", false)? {
            // Later keys are hidden more than masked ones: a query of padding sees itself.
            let sees = self.earlier(b)?;
            scores = b.map(scores.element(), &[&scores, &sees], |w| {
                let (score, sees, lowest) = (w.input(0), w.input(1), w.real(f32::MIN));
                w.select(sees, score, lowest)
            })?;
        }
        let shares = b.softmax(&scores, &[3], false)?;
        let shares = b.cast(&shares, self.values.element())?;
        let made = b.matmul(&shares, &self.values)?;
        let &[batch, heads, rows, columns] = made.dims() else { return Err("no heads".into()) };
        let made = b.transpose(&made, &[0, 2, 1, 3])?;
        b.reshape(&made, vec![batch, rows, heads * columns])
    }

    /// Not 0 where a key is seen: a number of keys for each batch, or where they end and begin, or
    /// a number for each key, or for each query and key.
    fn mask(&self, b: &mut Builder<'_>, mask: &Value) -> Result<Value> {
        let (batch, rows, keys) =
            (self.queries.dims()[0], self.queries.dims()[2], self.keys.dims()[2]);
        match *mask.dims() {
            [lengths] if lengths == batch => {
                let lengths = b.reshape(mask, vec![batch, 1, 1, 1])?;
                let places = b.count(vec![1, 1, 1, keys])?;
                b.map_in(Domain::I64, Element::Bool, &[&places, &lengths], |w| {
                    let (place, length) = (w.input(0), w.input(1));
                    w.bin(Binary::Less, place, length)
                })
            }
            [both] if both == 2 * batch => self.between(b, mask),
            [of, own] if (of, own) == (batch, keys) => b.reshape(mask, vec![batch, 1, 1, keys]),
            [of, queries, own] if (of, queries, own) == (batch, rows, keys) => {
                b.reshape(mask, vec![batch, 1, rows, keys])
            }
            _ => Err(format!("a mask of {} for {batch} batches of {keys} keys", mask.spec)),
        }
    }

    /// 1 where a key is before its batch's end, the first half of `mask`, and not before its begin.
    fn between(&self, b: &mut Builder<'_>, mask: &Value) -> Result<Value> {
        let (batch, keys) = (self.queries.dims()[0], self.keys.dims()[2]);
        let half = b.reshape(mask, vec![2, batch, 1, 1])?;
        let [end, begin] = [b.cut(&half, 0, 0, 1)?, b.cut(&half, 0, 1, 2)?];
        let dims = vec![batch, 1, 1, 1];
        let [end, begin] = [b.reshape(&end, dims.clone())?, b.reshape(&begin, dims)?];
        let places = b.count(vec![1, 1, 1, keys])?;
        b.map_in(Domain::I64, Element::Bool, &[&places, &end, &begin], |w| {
            let (place, end, begin) = (w.input(0), w.input(1), w.input(2));
            let is_after = w.bin(Binary::LessOrEqual, begin, place);
            let is_before = w.bin(Binary::Less, place, end);
            w.mul(is_after, is_before)
        })
    }

    /// 1 where a key is not later than the query.
    fn earlier(&self, b: &mut Builder<'_>) -> Result<Value> {
        let (rows, keys) = (self.queries.dims()[2], self.keys.dims()[2]);
        let (row, key) = (b.count(vec![rows, 1])?, b.count(vec![1, keys])?);
        let past = self.past as i64;
        b.map_in(Domain::I64, Element::Bool, &[&row, &key], |w| {
            let (row, key, past) = (w.input(0), w.input(1), w.whole(past));
            let last = w.add(row, past);
            w.bin(Binary::LessOrEqual, key, last)
        })
    }
}

/// `filter` is added where the mask is 0.
fn filtered(b: &mut Builder<'_>, scores: &Value, mask: &Value, filter: f64) -> Result<Value> {
    b.map(scores.element(), &[scores, mask], |w| {
        let (score, mask, filter) = (w.input(0), w.input(1), w.real(filter));
        let hidden = w.add(score, filter);
        w.select(mask, score, hidden)
    })
}

/// Operands: input, places, tables of cosines and of sines.
pub(super) fn rotary(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, places) = (call.get(0)?, call.get(1)?);
    let (heads, wanted) =
        (size(call.int("num_heads", 0)?)?, size(call.int("rotary_embedding_dim", 0)?)?);
    let is_interleaved = call.flag("interleaved", false)?;
    call.float("scale", 1.0)?; // ONNX Runtime makes nothing of it
    if call.flag("is_packed_batching", false)? {
        return Err(beyond("attribute is_packed_batching must be 0, got 1"));
    }
    let half = call.get(2)?.dims().last().copied().unwrap_or_default();
    let heads = match *x.dims() {
        [_, heads, _, _] => heads,
        [_, _, width] if heads == 0 => width.checked_div(2 * half).unwrap_or_default(),
        _ => heads,
    };
    let rotated = if wanted == 0 { 2 * half } else { wanted };
    let tokens = by_head(b, x, heads.max(1))?;
    let &[batch, _, rows, columns] = tokens.dims() else { return Err("no heads".into()) };
    if rotated != 2 * half || rotated > columns {
        return Err(format!("{rotated} of {columns} columns rotate, tables have {half}"));
    }
    let places = places_of(b, places, batch, rows)?;
    let tables = [call.get(2)?, call.get(3)?];
    let made = rotated_by(b, &tokens, &places, tables, is_interleaved)?;
    if x.rank() == 4 {
        return Ok(made);
    }
    let made = b.transpose(&made, &[0, 2, 1, 3])?;
    b.reshape(&made, x.dims().to_vec())
}

/// Heads whose first columns are turned by the angles of their places, as many as the tables of
/// cosines and sines have.
pub(super) fn rotated_by(
    b: &mut Builder<'_>,
    tokens: &Value,
    places: &Value,
    tables: [&Value; 2],
    is_interleaved: bool,
) -> Result<Value> {
    let &[_, _, rows, columns] = tokens.dims() else { return Err("no heads".into()) };
    let half = tables[0].dims().last().copied().unwrap_or_default();
    let rotated = 2 * half;
    if rotated > columns || tables[1].dims() != tables[0].dims() {
        let (cosines, sines) = (&tables[0].spec, &tables[1].spec);
        return Err(format!("angles {cosines} and {sines} for {columns} columns"));
    }
    let mut table = |index: usize| {
        let found = rows_at(b, tables[index], places)?;
        b.reshape(&found, vec![places.dims()[0], 1, rows, half])
    };
    let (cosines, sines) = (table(0)?, table(1)?);
    let place = |k: usize, second: usize| {
        if is_interleaved { 2 * k + second } else { k + second * half }
    };
    let mut part =
        |second: usize| b.pick_axis(tokens, 3, (0..half).map(|k| place(k, second)).collect());
    let (first, second) = (part(0)?, part(1)?);
    let turned = [
        combined(b, Binary::Sub, [&first, &cosines, &second, &sines])?,
        combined(b, Binary::Add, [&second, &cosines, &first, &sines])?,
    ];
    let rest = b.cut(tokens, 3, rotated, columns)?;
    let all = b.concat(&[&turned[0], &turned[1], &rest], 3)?;
    let order = (0..columns).map(|at| match at {
        _ if at >= rotated => at,
        _ if is_interleaved => at / 2 + at % 2 * half,
        _ => at,
    });
    b.pick_axis(&all, 3, order.collect())
}

/// `a · c + b · d`, or their difference.
fn combined(
    b: &mut Builder<'_>,
    function: Binary,
    [first, second, third, fourth]: [&Value; 4],
) -> Result<Value> {
    b.map(first.element(), &[first, second, third, fourth], |w| {
        let (a, c, b, d) = (w.input(0), w.input(1), w.input(2), w.input(3));
        let (left, right) = (w.mul(a, c), w.mul(b, d));
        w.bin(function, left, right)
    })
}

/// Places of all tokens; a single one is that of the first.
fn places_of(b: &mut Builder<'_>, places: &Value, batch: usize, rows: usize) -> Result<Value> {
    if places.dims() == [batch, rows] {
        return Ok(places.clone());
    }
    if places.spec.elements() != 1 {
        return Err(format!("places {} of {batch} batches of {rows} tokens", places.spec));
    }
    let first = b.reshape(places, vec![1, 1])?;
    let first = b.cast(&first, Element::I64)?;
    let count = b.count(vec![1, rows])?;
    b.binary(Binary::Add, &first, &count)
}
