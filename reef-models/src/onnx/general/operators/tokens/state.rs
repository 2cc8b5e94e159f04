//! Operators that hand a state from one token to the next: convolutions of the last tokens, and
//! attention whose state is a matrix.

use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::sums::convolutions::biased;
use crate::tensors::axes::size;
use crate::tensors::builder::Builder;
use crate::tensors::expressions::same_element;
use crate::tensors::value::{Value, wide};
use reef_op::tensor::{Binary, Scalar, Unary, View};

/// Operands: channels, a filter for each channel, a bias, and the last elements of before. Results:
/// sums over each element and those before it, and the last elements.
pub(super) fn causal_convolution(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, filter) = (call.get(0)?, call.get(1)?);
    let refused = || format!("a convolution of {} with {}", x.spec, filter.spec);
    let (&[batch, channels, len], &[filters, 1, taps]) = (x.dims(), filter.dims()) else {
        return Err(refused());
    };
    if filters != channels || taps == 0 || x.spec.elements() == 0 {
        return Err(refused());
    }
    same_element(x, filter)?;
    let before = taps - 1;
    let all = match call.maybe(3) {
        Some(past) if past.dims() == [batch, channels, before] => b.concat(&[past, x], 2)?,
        Some(past) => return Err(format!("a state {} for {before} elements before", past.spec)),
        None => b.pad(x, &[0, 0, before as i64], &[0; 3], Scalar::Whole(0))?,
    };
    let (x_wide, filter) = (b.widened(&all)?, b.widened(filter)?);
    let (row, dims) = (len + before, vec![batch, channels, len]);
    let kept = [[channels * row, row, 1], [0, taps, 0]];
    let kept = kept.map(|strides| View { dims: dims.clone(), strides: strides.into() });
    let summed = [1, 1].map(|stride| View { dims: vec![taps], strides: vec![stride] });
    let made = b.contract([&x_wide, &filter], kept, summed, dims, x_wide.element())?;
    let bias = call.maybe(2).map(|bias| b.cast(bias, made.element())).transpose()?;
    let made = biased(b, made, bias.as_ref())?;
    let made = match call.text("activation", "none")? {
        "none" => made,
        "silu" | "swish" => b.each(&made, |w, x| {
            let gate = w.sigmoid(x);
            w.mul(x, gate)
        })?,
        other => return Err(format!("attribute activation = {other:?}")),
    };
    let state = b.cut(&all, 2, len, row)?;
    Ok(vec![b.cast(&made, x.element())?, state])
}

/// Maximum number of tokens of linear attention, each of which is a few operations.
const MAX_TOKENS: usize = 1 << 13;

/// Operands: queries, keys, values, the state, decays, and rates. Results: the rows that queries
/// read, and the state behind the last token.
pub(super) fn linear_attention(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    let element = call.get(0)?.element();
    let of_state = call.maybe(3).map_or(element, Value::element);
    let mut tokens = Tokens::of(b, call)?;
    let mut rows = Vec::new();
    for at in 0..tokens.count {
        rows.push(tokens.step(b, at)?);
    }
    let made = b.concat(&rows.iter().collect::<Vec<_>>(), 1)?;
    let usual = 1.0 / (tokens.columns[0] as f64).sqrt();
    let scale = Some(call.float("scale", 0.0)?).filter(|&scale| scale != 0.0);
    let made = b.with_number(Binary::Mul, &made, scale.unwrap_or(usual))?;
    Ok(vec![b.cast(&made, element)?, b.cast(&tokens.state, of_state)?])
}

/// Operands of linear attention, as singles at least, and the state so far.
struct Tokens {
    queries: Value,
    keys: Value,
    values: Value,
    /// Factors of the state, of each token.
    decays: Option<Value>,
    /// Shares of its difference from the state that each token adds.
    rates: Option<Value>,
    /// Batches, heads, columns of keys, columns of values.
    state: Value,
    batch: usize,
    count: usize,
    /// Heads of queries, and of keys and values.
    heads: [usize; 2],
    /// Columns of keys, and of values.
    columns: [usize; 2],
}

impl Tokens {
    fn of(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Self> {
        call.int("chunk_size", 64)?; // how a device may divide the work
        let (decays, corrects) = match call.text("update_rule", "gated_delta")? {
            "linear" => (false, false),
            "gated" => (true, false),
            "delta" => (false, true),
            "gated_delta" => (true, true),
            other => return Err(format!("attribute update_rule = {other:?}")),
        };
        let heads = [head_count(call, "q_num_heads")?, head_count(call, "kv_num_heads")?];
        let [batch, count, width, depth] = sizes(call, heads)?;
        if count > MAX_TOKENS {
            return Err(beyond(&format!("{count} tokens: have at most {MAX_TOKENS}")));
        }
        let (element, dims) = (wide(call.get(0)?.element()), [batch, heads[1], width, depth]);
        let state = match call.maybe(3) {
            Some(past) if past.dims() == dims => b.cast(past, element)?,
            Some(past) => return Err(format!("a state {} for {dims:?}", past.spec)),
            None => {
                let zero = b.scalar(element, 0.0)?;
                b.expand(&zero, &dims)?
            }
        };
        let of_token = [batch, count];
        let decays = of_rule(call, 4, decays, of_token, [heads[1], heads[1] * width])?;
        let decays = decays.map(|decays| b.cast(decays, element)).transpose()?;
        let decays = decays.map(|decays| b.unary(Unary::Exp, &decays)).transpose()?;
        let rates = of_rule(call, 5, corrects, of_token, [heads[1], 1])?;
        let rates = rates.map(|rates| b.cast(rates, element)).transpose()?;
        let [queries, keys, values] = [call.get(0)?, call.get(1)?, call.get(2)?];
        Ok(Self {
            queries: b.cast(queries, element)?,
            keys: b.cast(keys, element)?,
            values: b.cast(values, element)?,
            decays,
            rates,
            state,
            batch,
            count,
            heads,
            columns: [width, depth],
        })
    }

    /// Adds keys and values of a token to the state, and returns the row that its queries read.
    fn step(&mut self, b: &mut Builder<'_>, at: usize) -> Result<Value> {
        let (batch, [own, shared], [width, depth]) = (self.batch, self.heads, self.columns);
        let element = self.state.element();
        let key = token(b, &self.keys, at, [batch, shared, width, 1])?;
        let mut value = token(b, &self.values, at, [batch, shared, 1, depth])?;
        if let Some(decays) = &self.decays {
            let columns = decays.dims()[2] / shared;
            let factor = token(b, decays, at, [batch, shared, columns, 1])?;
            self.state = b.binary(Binary::Mul, &self.state, &factor)?;
        }
        if let Some(rates) = &self.rates {
            let asked = b.reshape(&key, vec![batch, shared, 1, width])?;
            let known = b.matmul(&asked, &self.state)?;
            let rate = token(b, rates, at, [batch, rates.dims()[2], 1, 1])?;
            value = b.map(element, &[&rate, &value, &known], |w| {
                let (rate, value, known) = (w.input(0), w.input(1), w.input(2));
                let apart = w.sub(value, known);
                w.mul(rate, apart)
            })?;
        }
        self.state = b.map(element, &[&self.state, &key, &value], |w| {
            let (state, key, value) = (w.input(0), w.input(1), w.input(2));
            let product = w.mul(key, value);
            w.add(state, product)
        })?;
        let query = token(b, &self.queries, at, [batch, shared, own / shared, width])?;
        let made = b.matmul(&query, &self.state)?;
        b.reshape(&made, vec![batch, 1, own * depth])
    }
}

fn head_count(call: &Call<'_>, name: &'static str) -> Result<usize> {
    match size(call.int(name, 0)?)? {
        0 => Err(format!("attribute {name} must be at least 1, got 0")),
        count => Ok(count),
    }
}

/// Batches, tokens, columns of keys and columns of values.
fn sizes(call: &Call<'_>, [own, shared]: [usize; 2]) -> Result<[usize; 4]> {
    let (queries, keys, values) = (call.get(0)?, call.get(1)?, call.get(2)?);
    same_element(queries, keys)?;
    same_element(queries, values)?;
    if let (&[batch, count, row], &[_, _, value_row]) = (queries.dims(), values.dims()) {
        let (width, depth) = (row / own, value_row / shared);
        let fits = own.is_multiple_of(shared)
            && own * width == row
            && keys.dims() == [batch, count, shared * width]
            && values.dims() == [batch, count, shared * depth]
            && queries.element().is_float()
            && queries.spec.elements() > 0
            && values.spec.elements() > 0;
        if fits {
            return Ok([batch, count, width, depth]);
        }
    }
    Err(format!(
        "queries {}, keys {} and values {} of {own} and {shared} heads",
        queries.spec, keys.spec, values.spec
    ))
}

/// An operand that the node's rule has or has not, with one of two widths.
fn of_rule<'c>(
    call: &'c Call<'_>,
    index: usize,
    is_read: bool,
    [batch, count]: [usize; 2],
    widths: [usize; 2],
) -> Result<Option<&'c Value>> {
    match call.maybe(index) {
        None if is_read => Err(format!("operand {index} is missing")),
        Some(value) if !is_read => {
            Err(format!("operand {index} is {}, which this update_rule does not have", value.spec))
        }
        Some(value) if !widths.iter().any(|&width| value.dims() == [batch, count, width]) => {
            Err(format!("operand {index} is {} for {batch} batches of {count}", value.spec))
        }
        found => Ok(found),
    }
}

/// The part of a token, as heads.
fn token(b: &mut Builder<'_>, all: &Value, at: usize, dims: [usize; 4]) -> Result<Value> {
    let part = b.cut(all, 1, at, at + 1)?;
    b.reshape(&part, dims.into())
}
