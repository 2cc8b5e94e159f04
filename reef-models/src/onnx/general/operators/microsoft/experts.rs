//! Mixtures of experts: results of a few of several small networks for each token, by shares.
//!
//! All experts compute all tokens. Those that a token has not chosen have no share of it.

use super::products::{bytes_of, unpacked};
use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::elements::activations::gelu_by_tanh;
use crate::tensors::axes::{elements, size};
use crate::tensors::builder::Builder;
use crate::tensors::expressions::Writer;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Domain, FoldKind};

/// A layer of all experts.
struct Layer {
    /// Experts, outputs, inputs.
    weights: Value,
    /// Experts, outputs.
    bias: Option<Value>,
}

impl Layer {
    /// Experts, tokens, outputs of experts or one, tokens, inputs.
    fn apply(&self, b: &mut Builder<'_>, x: &Value) -> Result<Value> {
        if self.weights.rank() != 3 {
            let found = &self.weights.spec;
            return Err(format!("weights of experts must have 3 dimensions, got {found}"));
        }
        let turned = b.transpose(&self.weights, &[0, 2, 1])?;
        let made = b.matmul(x, &turned)?;
        let Some(bias) = &self.bias else { return Ok(made) };
        let &[experts, outputs] = bias.dims() else {
            return Err(format!("a bias of {}", bias.spec));
        };
        let bias = b.reshape(bias, vec![experts, 1, outputs])?;
        b.binary(Binary::Add, &made, &bias)
    }
}

/// Operands: tokens, scores of experts, and weights and biases of two or three layers.
pub(super) fn mixture(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let layer = |at| {
        let layer =
            |weights: &Value| Layer { weights: weights.clone(), bias: call.maybe(at + 1).cloned() };
        call.maybe(at).map(layer)
    };
    mixed(b, call, [layer(2), layer(4), layer(6)], None)
}

/// Operands: tokens, scores of experts, packed weights, scales and biases of three layers, zero
/// points of these, and shares of experts.
pub(super) fn mixture_of_few_bits(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    match call.text("quant_type", "int")? {
        "int" => {}
        other => return Err(beyond(&format!("attribute quant_type must be int, got {other:?}"))),
    }
    if call.int("weights_prepacked", -1)? == 1 {
        return Err(beyond("attribute weights_prepacked must be 0, got 1"));
    }
    call.int("accuracy_level", 0)?;
    let names = ["fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"];
    let (usual, block) = (call.int("expert_weight_bits", 4)?, size(call.int("block_size", 0)?)?);
    let mut layers = [None, None, None];
    for (k, name) in names.into_iter().enumerate() {
        let bits = size(call.int(name, usual)?)?;
        let at = 2 + 3 * k;
        if call.maybe(at).is_some() {
            let weights = floats(b, call, [at, 11 + k], bits, block)?;
            layers[k] = Some(Layer { weights, bias: call.maybe(at + 2).cloned() });
        }
    }
    mixed(b, call, layers, call.maybe(14))
}

/// Weights of a layer whose bytes and zero points are these operands, and whose scales are behind
/// the bytes: one for each output, or for each block of its inputs.
fn floats(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    [at, zeros]: [usize; 2],
    bits: usize,
    block: usize,
) -> Result<Value> {
    let (packed, scales) = (call.get(at)?, call.get(at + 1)?);
    let (&[experts, outputs, bytes], 2 | 4 | 8) = (packed.dims(), bits) else {
        return Err(beyond(&format!("weights {} of {bits} bits: have 2, 4 and 8", packed.spec)));
    };
    let inputs = bytes * 8 / bits;
    let blocks = inputs.checked_div(block).unwrap_or(1).max(1);
    let all = elements(&[experts, outputs, inputs])?;
    if !inputs.is_multiple_of(blocks) || scales.spec.elements() != experts * outputs * blocks {
        return Err(format!("scales {} of {blocks} blocks of {}", scales.spec, packed.spec));
    }
    let numbers = unpacked(b, bytes_of(call, at)?, bits, all, None)?;
    let numbers = b.constant(vec![experts, outputs, blocks, inputs / blocks], numbers)?;
    let each = vec![experts, outputs, blocks, 1];
    let scales = b.reshape(scales, each.clone())?;
    let zeros = match call.maybe(zeros) {
        Some(_) => {
            // Rows of blocks begin with a byte of their own, or those of an expert without blocks.
            let row = if block == 0 { outputs } else { blocks };
            let rows = Some((row, (row * bits).div_ceil(8)));
            let count = experts * outputs * blocks;
            let unpacked = unpacked(b, bytes_of(call, zeros)?, bits, count, rows)?;
            b.constant(each, unpacked)?
        }
        None => b.whole(Vec::new(), vec![1 << (bits - 1)])?,
    };
    let to = call.get(0)?.element();
    let weights = b.map_in(Domain::F32, to, &[&numbers, &scales, &zeros], |w| {
        let (number, scale, zero) = (w.input(0), w.input(1), w.input(2));
        let moved = w.sub(number, zero);
        w.mul(moved, scale)
    })?;
    b.reshape(&weights, vec![experts, outputs, inputs])
}

/// `shares` take the place of the scores, which choose the experts then.
fn mixed(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    layers: [Option<Layer>; 3],
    shares: Option<&Value>,
) -> Result<Value> {
    let [Some(first), Some(second), third] = layers else {
        return Err("experts must have two layers".into());
    };
    let x = call.get(0)?;
    let width = x.dims().last().copied().unwrap_or_default();
    let tokens = b.reshape(x, vec![1, x.spec.elements().checked_div(width).unwrap_or(0), width])?;
    let gates = gates(b, call, shares)?;
    let gates = b.cast(&gates, x.element())?;
    let experts = gates.dims()[0];
    for layer in [&first, &second].into_iter().chain(&third) {
        if layer.weights.dims().first() != Some(&experts) {
            return Err(format!(
                "weights must be of {experts} experts, got {}",
                layer.weights.spec
            ));
        }
    }
    let inner = first.apply(b, &tokens)?;
    let other = third.map(|third| third.apply(b, &tokens)).transpose()?;
    let inner = activated(b, call, inner, other)?;
    let made = second.apply(b, &inner)?;
    // An expert that a token has not chosen may be infinite.
    let made = b.map(made.element(), &[&made, &gates], |w| {
        let (made, gate, zero) = (w.input(0), w.input(1), w.real(0.0));
        let part = w.mul(made, gate);
        w.select(gate, part, zero)
    })?;
    let sum = b.fold_axes(&made, &[0], FoldKind::Sum)?;
    b.reshape(&sum, x.dims().to_vec())
}

/// Shares of each expert in each token: experts, tokens, 1.
fn gates(b: &mut Builder<'_>, call: &Call<'_>, shares: Option<&Value>) -> Result<Value> {
    let scores = call.get(1)?;
    let (&[tokens, experts], chosen) = (scores.dims(), size(call.int("k", 1)?)?) else {
        return Err(format!("scores of experts must be a matrix, got {}", scores.spec));
    };
    if !(1..=experts).contains(&chosen) {
        return Err(format!("attribute k must be 1 to {experts}, got {chosen}"));
    }
    if call.flag("use_sparse_mixer", false)? {
        return Err(beyond("attribute use_sparse_mixer must be 0, got 1"));
    }
    let [_, places] = b.top(scores, chosen, true)?;
    let places = b.reshape(&places, vec![tokens, chosen, 1])?;
    let numbers = b.count(vec![1, 1, experts])?;
    let is_chosen = b.binary(Binary::Equal, &places, &numbers)?;
    let is_chosen = b.cast(&is_chosen, scores.element())?;
    let is_chosen = b.fold_axes(&is_chosen, &[1], FoldKind::Sum)?;
    let is_chosen = b.reshape(&is_chosen, vec![tokens, experts])?;
    let all = match shares {
        Some(shares) if shares.dims() != scores.dims() => {
            return Err(format!(
                "shares must be as the scores {}, got {}",
                scores.spec, shares.spec
            ));
        }
        Some(shares) => shares.clone(),
        None => b.softmax(scores, &[1], false)?,
    };
    let is_chosen = b.cast(&is_chosen, all.element())?;
    let mut made = b.binary(Binary::Mul, &all, &is_chosen)?;
    if call.flag("normalize_routing_weights", false)? {
        let sum = b.fold_axes(&made, &[1], FoldKind::Sum)?;
        made = b.binary(Binary::Div, &made, &sum)?;
    }
    let turned = b.transpose(&made, &[1, 0])?;
    b.reshape(&turned, vec![experts, tokens, 1])
}

/// The first layer's results, activated, times those of the third one.
fn activated(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    made: Value,
    other: Option<Value>,
) -> Result<Value> {
    let (alpha, beta) = (call.float("activation_alpha", 1.0)?, call.float("activation_beta", 0.0)?);
    let limit = call.maybe_float("swiglu_limit")?.unwrap_or(f64::INFINITY);
    let fusion = call.int("swiglu_fusion", 0)?;
    if call.flag("swiglu_limit_after_activation", false)? {
        return Err(beyond("attribute swiglu_limit_after_activation must be 0, got 1"));
    }
    let kind = call.text("activation_type", "relu")?;
    if kind == "swiglu" {
        let [gate, linear] = parts(b, made, other, fusion)?;
        return b.map(gate.element(), &[&gate, &linear], |w| {
            let (alpha, beta) = (w.real(alpha), w.real(beta));
            let (most, least) = (w.real(limit), w.real(-limit));
            let (gate, linear) = (w.input(0), w.input(1));
            let (gate, linear) = (w.bin(Binary::Min, gate, most), w.bin(Binary::Min, linear, most));
            let linear = w.bin(Binary::Max, linear, least);
            let (scaled, moved) = (w.mul(alpha, gate), w.add(linear, beta));
            let share = w.sigmoid(scaled);
            let gate = w.mul(gate, share);
            w.mul(gate, moved)
        });
    }
    let made = match kind {
        "identity" => made,
        "relu" => b.each(&made, Writer::relu)?,
        "gelu" => b.each(&made, gelu_by_tanh)?,
        "silu" => b.each(&made, |w, x| {
            let share = w.sigmoid(x);
            w.mul(x, share)
        })?,
        other => return Err(format!("attribute activation_type = {other:?}")),
    };
    match other {
        Some(other) => b.binary(Binary::Mul, &made, &other),
        None => Ok(made),
    }
}

/// The gate and what it is for: of two layers, of every other column, or of two halves.
fn parts(
    b: &mut Builder<'_>,
    made: Value,
    other: Option<Value>,
    fusion: i64,
) -> Result<[Value; 2]> {
    let columns = made.dims()[2];
    match (fusion, other) {
        (0, Some(other)) => Ok([made, other]),
        (1, None) if columns.is_multiple_of(2) => {
            let mut part = |k: usize| b.pick_axis(&made, 2, (k..columns).step_by(2).collect());
            Ok([part(0)?, part(1)?])
        }
        (2, None) if columns.is_multiple_of(2) => {
            let half = columns / 2;
            Ok([b.cut(&made, 2, 0, half)?, b.cut(&made, 2, half, columns)?])
        }
        (_, other) => {
            let layers = if other.is_some() { 3 } else { 2 };
            Err(format!(
                "attribute swiglu_fusion = {fusion} with {layers} layers of {columns} columns"
            ))
        }
    }
}
