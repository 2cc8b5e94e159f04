//! Attention: each token's mean of what all tokens of its text say, weighed by how well they answer
//! its question.
//!
//! Heads are columns of the same matrices, so nothing is moved: products take them where they are.

use crate::tensors::axes::Result;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Domain, Element, View};

/// Numbers of texts, of tokens, of heads and of a head's columns.
#[derive(Debug, Clone, Copy)]
pub(in crate::zoo) struct Heads {
    pub(in crate::zoo) texts: usize,
    pub(in crate::zoo) tokens: usize,
    pub(in crate::zoo) heads: usize,
    pub(in crate::zoo) columns: usize,
}

/// Bias of scores: 0 where `mask` isn't 0, and elsewhere a number so low that nothing is left of
/// the score.
pub(in crate::zoo) fn bias_of(b: &mut Builder<'_>, mask: &Value) -> Result<Value> {
    let (texts, tokens) = (mask.dims()[0], mask.dims()[1]);
    let mask = b.reshape(mask, vec![texts, 1, 1, tokens])?;
    b.map_in(Domain::F64, Element::F32, &[&mask], |w| {
        let (mask, nothing, least) = (w.input(0), w.real(0.0), w.real(f32::MIN));
        w.select(mask, nothing, least)
    })
}

impl Heads {
    /// Of queries, keys and values, a row for each token of each text. `bias` is added to scores.
    pub(in crate::zoo) fn attend(
        self,
        b: &mut Builder<'_>,
        [queries, keys, values]: [&Value; 3],
        bias: Option<&Value>,
    ) -> Result<Value> {
        let scores = self.scores(b, queries, keys)?;
        let scale = 1.0 / (self.columns as f64).sqrt();
        let inputs: Vec<&Value> = [&scores].into_iter().chain(bias).collect();
        let scores = b.map(Element::F32, &inputs, |w| {
            let (score, scale) = (w.input(0), w.real(scale));
            let scaled = w.mul(score, scale);
            match bias {
                Some(_) => {
                    let bias = w.input(1);
                    w.add(scaled, bias)
                }
                None => scaled,
            }
        })?;
        let shares = b.softmax(&scores, &[3], false)?;
        let seen = self.means(b, &shares, values)?;
        b.reshape(&seen, vec![self.texts * self.tokens, self.width()])
    }

    /// Columns of all heads.
    fn width(self) -> usize {
        self.heads * self.columns
    }

    /// For each text and head: queries times keys.
    fn scores(self, b: &mut Builder<'_>, queries: &Value, keys: &Value) -> Result<Value> {
        let Self { texts, tokens, heads, columns } = self;
        let (width, dims) = (self.width(), vec![texts, heads, tokens, tokens]);
        let kept = [[tokens * width, columns, width, 0], [tokens * width, columns, 0, width]];
        let kept = kept.map(|strides| View { dims: dims.clone(), strides: strides.into() });
        let summed = [1, 1].map(|stride| View { dims: vec![columns], strides: vec![stride] });
        b.contract([queries, keys], kept, summed, dims, Element::F32)
    }

    /// For each token and head: shares times values.
    fn means(self, b: &mut Builder<'_>, shares: &Value, values: &Value) -> Result<Value> {
        let Self { texts, tokens, heads, columns } = self;
        let (width, dims) = (self.width(), vec![texts, tokens, heads, columns]);
        let square = tokens * tokens;
        let kept = [[heads * square, tokens, square, 0], [tokens * width, 0, columns, 1]];
        let kept = kept.map(|strides| View { dims: dims.clone(), strides: strides.into() });
        let summed = [1, width].map(|stride| View { dims: vec![tokens], strides: vec![stride] });
        b.contract([shares, values], kept, summed, dims, Element::F32)
    }
}
