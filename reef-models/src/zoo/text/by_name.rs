//! Networks of text that can be built by name.

use super::encoder::Encoder;
use super::names;
use crate::errors::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::model::tensors::Tensors;
use crate::tensors::builder::Builder;
use crate::tensors::model::TensorModel;
use crate::zoo::range::{MAX_SIZE, in_range};

/// Networks of text that can be built.
pub const TEXT_NAMES: &[&str] = &["bert", "distilbert"];

/// Tokens of a text unless it is said.
const TOKENS: usize = 128;

/// BERT in its base size, uncased, as all of its kind have their names from.
const BERT: Encoder = Encoder {
    names: names::BERT,
    vocabulary: 30_522,
    positions: 512,
    segments: 2,
    layers: 12,
    heads: 12,
    width: 768,
    inner: 3072,
    classes: 2,
};

/// Half as many layers, and no segments.
const DISTILBERT: Encoder = Encoder { names: names::DISTILBERT, segments: 0, layers: 6, ..BERT };

/// Builds the network called `name`, one of [`TEXT_NAMES`], for `batch` texts at a time of `tokens`
/// tokens, 128 by default and 512 at most.
///
/// Inputs are `input_ids` and `attention_mask`, both of 64-bit integers; a token whose mask is 0 is
/// not looked at. The output, `logits`, has two classes for each text. Tensors have the names of
/// the transformers library's `BertForSequenceClassification` and
/// `DistilBertForSequenceClassification`; made-up ones are made when they come onto a device, one
/// at a time.
///
/// # Errors
///
/// `UnknownNetwork`, `OutOfRange` for the tokens or the batch; `Tensor` if one is missing or of
/// another length.
pub(crate) fn build_text(
    name: &str,
    tokens: Option<usize>,
    batch: usize,
    tensors: Tensors,
) -> Result<TensorModel> {
    let encoder = match name {
        "bert" => BERT,
        "distilbert" => DISTILBERT,
        _ => {
            return Err(Error::UnknownNetwork { asked: name.into(), have: TEXT_NAMES.join(", ") });
        }
    };
    let tokens = tokens.unwrap_or(TOKENS);
    in_range(name, "batch", batch, 1..=MAX_SIZE)?;
    in_range(name, "tokens", tokens, 1..=encoder.positions)?;
    // Nothing grows with a file: what was read is taken from where it is.
    let ledger = Ledger::new(&Budget::new(u64::MAX));
    let made = encoder.build(name, [batch, tokens], tensors, Builder::new(&ledger));
    made.map_err(|why| Error::Tensor { why: format!("{name}: {why}") })
}
