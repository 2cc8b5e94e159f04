//! Networks that read text as numbers of tokens: BERT and DistilBERT, which say which of two
//! classes a text is of.
//!
//! In: a name, a number of tokens, a batch, tensors. Out: a network of tensors, with the inputs
//! `input_ids` and `attention_mask` and the output `logits`.
//!
//! Invariant: layers and tensors are those of the transformers library's
//! `BertForSequenceClassification` and `DistilBertForSequenceClassification`, all tokens in the
//! first segment.

pub(crate) mod by_name;
pub(crate) mod encoder;
mod names;

pub use by_name::TEXT_NAMES;

#[cfg(test)]
mod tests;
