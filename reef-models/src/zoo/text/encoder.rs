//! An encoder: tables, layers of attention and of two linear layers, and a classifier of the first
//! token.

use super::names::{Names, Pooled};
use crate::model::tensors::Tensors;
use crate::tensors::axes::Result;
use crate::tensors::builder::Builder;
use crate::tensors::expressions::Writer;
use crate::tensors::model::TensorModel;
use crate::tensors::value::Value;
use crate::zoo::transformer::attention::{Heads, bias_of};
use crate::zoo::transformer::layers::{Layers, as_it_is};
use reef_op::tensor::{Binary, Element, Spec, Unary};

/// Names of inputs: numbers of tokens, and which of them are looked at.
pub(crate) const INPUTS: [&str; 2] = ["input_ids", "attention_mask"];

/// Added to variances.
const EPSILON: f64 = 1e-12;

/// Sizes of an encoder, and names of its parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Encoder {
    pub(super) names: Names,
    /// Tokens that there are.
    pub(super) vocabulary: usize,
    /// Tokens that a text may have.
    pub(super) positions: usize,
    /// Segments that a token may be of; 0 if they make no difference.
    pub(super) segments: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    /// Numbers that stand for a token.
    pub(super) width: usize,
    /// Of the wide linear layer.
    pub(super) inner: usize,
    pub(super) classes: usize,
}

impl Encoder {
    /// The network for `texts` texts of `tokens` tokens at a time.
    pub(super) fn build(
        &self,
        name: &str,
        [texts, tokens]: [usize; 2],
        tensors: Tensors,
        b: Builder<'_>,
    ) -> Result<TensorModel> {
        let mut l = Layers { b, tensors, epsilon: EPSILON };
        let spec = Spec { element: Element::I64, dims: vec![texts, tokens] };
        let numbers = l.b.input(INPUTS[0], spec.clone())?;
        let mask = l.b.input(INPUTS[1], spec)?;
        let mut x = self.embeddings(&mut l, &numbers)?;
        l.b.node = INPUTS[1].into();
        let bias = bias_of(&mut l.b, &mask)?;
        let columns = self.width / self.heads;
        let heads = Heads { texts, tokens, heads: self.heads, columns };
        for number in 0..self.layers {
            x = self.layer(&mut l, number, &x, heads, &bias)?;
        }
        let logits = self.classify(&mut l, &x, [texts, tokens])?;
        l.b.finish(name, vec![("logits".into(), logits)])
    }

    /// A row for each token of each text: what it is and where.
    fn embeddings(&self, l: &mut Layers<'_>, numbers: &Value) -> Result<Value> {
        let (names, width) = (self.names, self.width);
        let (texts, tokens) = (numbers.dims()[0], numbers.dims()[1]);
        let module = |table: &str| format!("{}.{table}", names.embeddings);
        let places = l.b.whole(vec![tokens], (0..tokens as i64).collect())?;
        let (words, at) = ([self.vocabulary, width], [self.positions, width]);
        let mut x = l.rows(&module("word_embeddings"), words, numbers)?;
        if self.segments > 0 {
            let first = l.b.whole(vec![1], vec![0])?;
            let table = module("token_type_embeddings");
            let segment = l.rows(&table, [self.segments, width], &first)?;
            x = l.b.binary(Binary::Add, &x, &segment)?;
        }
        let position = l.rows(&module("position_embeddings"), at, &places)?;
        let x = l.b.binary(Binary::Add, &x, &position)?;
        let x = l.b.reshape(&x, vec![texts * tokens, width])?;
        l.normalised(&module("LayerNorm"), &x)
    }

    fn layer(
        &self,
        l: &mut Layers<'_>,
        number: usize,
        x: &Value,
        heads: Heads,
        bias: &Value,
    ) -> Result<Value> {
        let (names, width) = (self.names, self.width);
        let module = |part: &str| format!("{}.{number}.{part}", names.layer);
        let mut project = |part| l.linear(&module(part), x, width, None, as_it_is);
        let (queries, keys) = (project(names.query)?, project(names.key)?);
        let values = project(names.value)?;
        l.b.node = module("attention");
        let seen = heads.attend(&mut l.b, [&queries, &keys, &values], Some(bias))?;
        let x = l.linear(&module(names.mix), &seen, width, Some(x), as_it_is)?;
        let x = l.normalised(&module(names.mix_norm), &x)?;
        let inner = l.linear(&module(names.expand), &x, self.inner, None, Writer::gelu)?;
        let x = l.linear(&module(names.contract), &inner, width, Some(&x), as_it_is)?;
        l.normalised(&module(names.norm), &x)
    }

    /// Logits of each text, from its first token.
    fn classify(
        &self,
        l: &mut Layers<'_>,
        x: &Value,
        [texts, tokens]: [usize; 2],
    ) -> Result<Value> {
        l.b.node = self.names.pool.into();
        let first = l.b.pick_axis(x, 0, (0..texts).map(|text| text * tokens).collect())?;
        let pooled = self.names.pooled;
        let x = l.linear(self.names.pool, &first, self.width, None, |w, x| match pooled {
            Pooled::Tanh => w.un(Unary::Tanh, x),
            Pooled::Relu => w.relu(x),
        })?;
        l.linear("classifier", &x, self.classes, None, as_it_is)
    }
}
