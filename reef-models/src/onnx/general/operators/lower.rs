//! Table of the operators and the functions that read them.

use super::elements::{activations, arithmetic, cast, retired, training};
use super::microsoft;
use super::ml;
use super::places::{boxes, indexed, movement, resize, selected, shapes, slices};
use super::quantized;
use super::recurrent::node;
use super::sums::{convolutions, grams, losses, normal, pools, products, reductions, unpooled};
use super::tokens::attention;
use super::{sampled, signals};
use crate::onnx::fault::{Result, beyond, remedy, unsupported};
use crate::onnx::general::call::Call;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;

/// Reads operators of a few kinds; `None` if the operator is none of them.
type Family = fn(&mut Builder<'_>, &Call<'_>) -> Result<Option<Vec<Value>>>;

const FAMILIES: &[Family] = &[
    activations::activation,
    arithmetic::arithmetic,
    cast::cast,
    retired::retired,
    shapes::shape,
    movement::movement,
    slices::slice,
    resize::resize,
    reductions::reduction,
    products::product,
    convolutions::convolution,
    pools::pool,
    normal::normalisation,
    indexed::indexed,
    selected::selected,
    boxes::boxes,
    unpooled::unpooled,
    sampled::sampled,
    signals::signal,
    losses::loss,
    grams::grams,
    quantized::quantized,
    attention::of_tokens,
    node::recurrent,
];

/// Families of a domain.
fn families(domain: &str) -> Result<&'static [Family]> {
    match domain {
        "" | "ai.onnx" => Ok(FAMILIES),
        "ai.onnx.ml" => Ok(&[ml::learned]),
        "ai.onnx.preview.training" => Ok(&[training::optimizer]),
        "com.microsoft" => Ok(&[
            quantized::quantized,
            quantized::quantized_of_microsoft,
            microsoft::fused,
            node::recurrent_of_microsoft,
        ]),
        "com.microsoft.nchwc" => Err(beyond(
            "ONNX Runtime has optimized the file for one machine: save it with the level extended",
        )),
        other => Err(unsupported(&format!("operators of domain {other:?} are"))),
    }
}

/// The results of a node, in order.
pub(in crate::onnx) fn lower(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    if let Some(remedy) = remedy(call.file.domain, call.op()) {
        return Err(beyond(remedy));
    }
    for family in families(call.file.domain)? {
        if let Some(results) = family(b, call)? {
            call.ensure_all_known()?;
            if let Some(index) = (results.len()..call.results()).find(|&index| call.wants(index)) {
                return Err(format!("output {index} is not supported"));
            }
            return Ok(results);
        }
    }
    Err(unsupported(&format!("the operator {:?} is", call.op())))
}
