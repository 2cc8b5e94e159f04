//! `Attention`, as the standard's text of onnx 1.23 has it for operator sets 23 and 24: soft caps
//! come before masks, masks of later tokens are aligned with the last query, and queries that see
//! nothing get zeros.
//!
//! Nothing is moved that needs no move: products take heads where they are, and heads that share
//! keys take the same.

use super::cache::tensor_scatter;
use super::heads::Heads;
use super::masks::{Masks, or_zero};
use super::rotary::rotary;
use super::state::{causal_convolution, linear_attention};
use crate::onnx::fault::Result;
use crate::onnx::general::call::{Call, one};
use crate::onnx::general::stored::element;
use crate::tensors::builder::Builder;
use crate::tensors::value::{Value, wide};
use reef_op::tensor::{Binary, Element, Unary, View};

pub(in crate::onnx::general::operators) fn of_tokens(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "Attention" => Ok(Some(attention(b, call)?)),
        "RotaryEmbedding" => one(rotary(b, call)?),
        "TensorScatter" => one(tensor_scatter(b, call)?),
        "CausalConvWithState" => Ok(Some(causal_convolution(b, call)?)),
        "LinearAttention" => Ok(Some(linear_attention(b, call)?)),
        _ => Ok(None),
    }
}

/// Operands of a node, whose sizes fit.
pub(in crate::onnx::general::operators) struct Attention {
    pub(in crate::onnx::general::operators) queries: Heads,
    pub(in crate::onnx::general::operators) keys: Heads,
    pub(in crate::onnx::general::operators) values: Heads,
    /// Tokens that were there before.
    pub(in crate::onnx::general::operators) past: usize,
}

/// Results: what each query gets, keys and values of all tokens, and scores or shares if the node
/// names them.
fn attention(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    let all = Attention::of(b, call)?;
    let (element, softmax) = (all.queries.value.element(), softmax_element(call)?);
    let product = all.scores(b)?;
    let scale = call.float("scale", 1.0 / (all.queries.sizes[3] as f64).sqrt())?;
    let product = b.with_number(Binary::Mul, &product, scale)?;
    let capped = capped(b, &product, call.float("softcap", 0.0)?)?;
    let masks = all.masks(b, call, &product)?;
    let seeing = masks.seeing(b, product.element().domain())?;
    let masked = masks.of(b, capped.clone())?;
    let precise = if softmax == Some(Element::F64) { Element::F64 } else { masked.element() };
    let scores = b.cast(&masked, precise)?;
    let shares = b.softmax(&scores, &[3], false)?;
    let shares = b.cast(&shares, product.element())?;
    let made = all.means(b, &shares, seeing.as_ref())?;
    let (made, keys) = (b.cast(&made, element)?, all.keys.by_head(b)?);
    let mut results = vec![made, keys, all.values.by_head(b)?];
    let mode = call.int("qk_matmul_output_mode", 0)?;
    if call.wants(3) {
        let shown = match mode {
            0 => product,
            1 => capped,
            2 => masked,
            3 => or_zero(b, shares, seeing.as_ref())?,
            other => return Err(format!("attribute qk_matmul_output_mode = {other}")),
        };
        results.push(b.cast(&shown, element)?);
    }
    Ok(results)
}

/// The type that a softmax is made in at least.
fn softmax_element(call: &Call<'_>) -> Result<Option<Element>> {
    let asked = call.maybe_int("softmax_precision")?.map(element).transpose()?;
    match asked.filter(|element| !element.is_float()) {
        None => Ok(asked),
        Some(other) => Err(format!("attribute softmax_precision is {other}")),
    }
}

/// `cap * tanh(scores / cap)`.
pub(in crate::onnx::general::operators) fn capped(
    b: &mut Builder<'_>,
    scores: &Value,
    cap: f64,
) -> Result<Value> {
    if cap <= 0.0 {
        return Ok(scores.clone());
    }
    b.map(scores.element(), &[scores], |w| {
        let (score, cap) = (w.input(0), w.real(cap));
        let part = w.div(score, cap);
        let tangent = w.un(Unary::Tanh, part);
        w.mul(tangent, cap)
    })
}

impl Attention {
    fn of(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Self> {
        let (query_heads, heads) =
            (call.maybe_int("q_num_heads")?, call.maybe_int("kv_num_heads")?);
        let queries = Heads::of(call.get(0)?, query_heads, "q_num_heads")?;
        let mut keys = Heads::of(call.get(1)?, heads, "kv_num_heads")?;
        let mut values = Heads::of(call.get(2)?, heads, "kv_num_heads")?;
        let past = match (call.maybe(4), call.maybe(5)) {
            (None, None) => 0,
            (Some(key), Some(value)) => {
                let new = keys.sizes[2];
                (keys, values) = (keys.behind(b, key)?, values.behind(b, value)?);
                keys.sizes[2] - new
            }
            _ => return Err("past_key and past_value come together, one is missing".into()),
        };
        let ([batch, heads, _, columns], [_, shared, tokens, _]) = (queries.sizes, keys.sizes);
        let fits = keys.sizes[0] == batch
            && keys.sizes[3] == columns
            && values.sizes[..3] == [batch, shared, tokens]
            && shared > 0
            && heads.is_multiple_of(shared);
        if fits {
            Ok(Self { queries, keys, values, past })
        } else {
            Err(format!(
                "queries {:?}, keys {:?} and values {:?} (batches, heads, tokens, columns)",
                queries.sizes, keys.sizes, values.sizes
            ))
        }
    }

    /// Number of heads that share keys.
    fn sharing(&self) -> usize {
        self.queries.sizes[1] / self.keys.sizes[1]
    }

    /// Queries times keys, for each batch, head, query and key.
    pub(in crate::onnx::general::operators) fn scores(&self, b: &mut Builder<'_>) -> Result<Value> {
        let [queries, keys] = [b.widened(&self.queries.value)?, b.widened(&self.keys.value)?];
        let ([batch, heads, rows, columns], [_, shared, tokens, _]) =
            (self.queries.sizes, self.keys.sizes);
        let (q, k, sharing) = (self.queries.strides, self.keys.strides, self.sharing());
        let dims = [batch, shared, sharing, rows, tokens];
        let kept = [[q[0], sharing * q[1], q[1], q[2], 0], [k[0], k[1], 0, 0, k[2]]];
        let kept = kept.map(|strides| View { dims: dims.into(), strides: strides.into() });
        let summed = [q[3], k[3]].map(|stride| View { dims: vec![columns], strides: vec![stride] });
        let (element, dims) = (queries.element(), vec![batch, heads, rows, tokens]);
        let keys = b.cast(&keys, element)?;
        b.contract([&queries, &keys], kept, summed, dims, element)
    }

    /// Number of keys before the first query, of each batch or of all.
    fn offset(&self, b: &mut Builder<'_>, lengths: Option<&Value>) -> Result<Value> {
        let Some(lengths) = lengths else { return b.whole(vec![1], vec![self.past as i64]) };
        let (lengths, queries) = (b.cast(lengths, Element::I64)?, self.queries.sizes[2] as i64);
        b.each(&lengths, |w, length| {
            let queries = w.whole(queries);
            w.sub(length, queries)
        })
    }

    fn masks(&self, b: &mut Builder<'_>, call: &Call<'_>, scores: &Value) -> Result<Masks> {
        let (mut masks, causal) = (Masks::new(), call.flag("is_causal", false)?);
        if let Some(mask) = call.maybe(3) {
            masks.operand(b, mask, scores, call.opset < 24)?;
        }
        match call.maybe(6) {
            Some(_) if call.maybe(4).is_some() => {
                return Err("nonpad_kv_seqlen and past_key exclude each other".into());
            }
            Some(lengths) => masks.lengths(b, lengths, scores, causal)?,
            None if causal => masks.causal(b, scores, self.past)?,
            None => {}
        }
        let window = [call.int("left_window_size", -1)?, call.int("right_window_size", -1)?];
        if window != [-1, -1] {
            let before = self.offset(b, call.maybe(6))?;
            masks.window(b, &before, scores, window)?;
        }
        Ok(masks)
    }

    /// Shares times values, in the order of the queries' dimensions; zeros where nothing is seen.
    pub(in crate::onnx::general::operators) fn means(
        &self,
        b: &mut Builder<'_>,
        shares: &Value,
        seeing: Option<&Value>,
    ) -> Result<Value> {
        let values = b.cast(&self.values.value, wide(shares.element()))?;
        let ([batch, heads, rows, _], [_, shared, tokens, columns]) =
            (self.queries.sizes, self.values.sizes);
        let (v, sharing, square) = (self.values.strides, self.sharing(), rows * tokens);
        let axes = [
            (batch, heads * square, v[0]),
            (shared, sharing * square, v[1]),
            (sharing, square, 0),
            (rows, tokens, 0),
            (columns, 0, v[3]),
        ];
        let (order, dims, by_row) = match self.queries.value.rank() {
            3 => ([0, 3, 1, 2, 4], vec![batch, rows, heads, columns], [0, 2, 1, 3]),
            _ => ([0, 1, 2, 3, 4], vec![batch, heads, rows, columns], [0, 1, 2, 3]),
        };
        let sizes = order.map(|axis| axes[axis].0);
        let kept = [order.map(|axis| axes[axis].1), order.map(|axis| axes[axis].2)];
        let kept = kept.map(|strides| View { dims: sizes.into(), strides: strides.into() });
        let summed = [1, v[2]].map(|stride| View { dims: vec![tokens], strides: vec![stride] });
        let made = b.contract([shares, &values], kept, summed, dims, shares.element())?;
        let seeing = seeing.map(|seeing| b.transpose(seeing, &by_row)).transpose()?;
        let made = or_zero(b, made, seeing.as_ref())?;
        match self.queries.value.rank() {
            3 => b.reshape(&made, vec![batch, rows, heads * columns]),
            _ => Ok(made),
        }
    }
}
