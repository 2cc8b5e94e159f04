//! Names of a network's parts in the transformers library, and its operation behind the last layer.

/// Names of modules. Those of a layer come behind `layer` and its number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    pub(super) embeddings: &'static str,
    pub(super) layer: &'static str,
    pub(super) query: &'static str,
    pub(super) key: &'static str,
    pub(super) value: &'static str,
    /// Mixes what the heads have seen.
    pub(super) mix: &'static str,
    pub(super) mix_norm: &'static str,
    /// Into the wide inner layer.
    pub(super) expand: &'static str,
    /// Out of it.
    pub(super) contract: &'static str,
    pub(super) norm: &'static str,
    /// Layer that reads the first token.
    pub(super) pool: &'static str,
    pub(super) pooled: Pooled,
}

/// Function of the first token before it is classified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooled {
    Tanh,
    Relu,
}

pub(super) const BERT: Names = Names {
    embeddings: "bert.embeddings",
    layer: "bert.encoder.layer",
    query: "attention.self.query",
    key: "attention.self.key",
    value: "attention.self.value",
    mix: "attention.output.dense",
    mix_norm: "attention.output.LayerNorm",
    expand: "intermediate.dense",
    contract: "output.dense",
    norm: "output.LayerNorm",
    pool: "bert.pooler.dense",
    pooled: Pooled::Tanh,
};

pub(super) const DISTILBERT: Names = Names {
    embeddings: "distilbert.embeddings",
    layer: "distilbert.transformer.layer",
    query: "attention.q_lin",
    key: "attention.k_lin",
    value: "attention.v_lin",
    mix: "attention.out_lin",
    mix_norm: "sa_layer_norm",
    expand: "ffn.lin1",
    contract: "ffn.lin2",
    norm: "output_layer_norm",
    pool: "pre_classifier",
    pooled: Pooled::Relu,
};
