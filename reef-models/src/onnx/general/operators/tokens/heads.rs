//! Queries, keys and values of several heads, which stand where the file has them.

use crate::onnx::fault::Result;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::View;

/// A tensor of batches, heads, tokens and the columns of a head, in this order or with heads as
/// columns of tokens.
#[derive(Debug, Clone)]
pub(in crate::onnx::general::operators) struct Heads {
    pub(in crate::onnx::general::operators) value: Value,
    /// Of batches, heads, tokens, columns.
    pub(in crate::onnx::general::operators) sizes: [usize; 4],
    /// Elements from one to the next.
    pub(in crate::onnx::general::operators) strides: [usize; 4],
}

impl Heads {
    /// `heads` has to be said for three dimensions, which have all heads of a token as one row.
    /// Elements are floats.
    pub(in crate::onnx::general::operators) fn of(
        value: &Value,
        heads: Option<i64>,
        name: &str,
    ) -> Result<Self> {
        let refused = || match heads {
            Some(heads) => format!("{} in {heads} heads", value.spec),
            None => format!("attribute {name} is missing for {}", value.spec),
        };
        let asked = heads.map(|heads| usize::try_from(heads).ok().filter(|&heads| heads > 0));
        if !value.element().is_float() {
            return Err(format!("heads of {}", value.spec));
        }
        match (value.dims(), asked) {
            (&[batch, heads, tokens, columns], None | Some(Some(_)))
                if asked.flatten().is_none_or(|asked| asked == heads) =>
            {
                let strides = [heads * tokens * columns, tokens * columns, columns, 1];
                Ok(Self { value: value.clone(), sizes: [batch, heads, tokens, columns], strides })
            }
            (&[batch, tokens, width], Some(Some(heads))) if width.is_multiple_of(heads) => {
                let columns = width / heads;
                let strides = [tokens * width, columns, width, 1];
                Ok(Self { value: value.clone(), sizes: [batch, heads, tokens, columns], strides })
            }
            _ => Err(refused()),
        }
    }

    /// Heads before tokens.
    pub(in crate::onnx::general::operators) fn by_head(
        &self,
        b: &mut Builder<'_>,
    ) -> Result<Value> {
        if self.value.rank() == 4 {
            return Ok(self.value.clone());
        }
        let view = View { dims: self.sizes.into(), strides: self.strides.into() };
        b.viewed(&self.value, &view)
    }

    /// Behind those of `past`, which has heads before tokens.
    pub(in crate::onnx::general::operators) fn behind(
        &self,
        b: &mut Builder<'_>,
        past: &Value,
    ) -> Result<Self> {
        let new = self.by_head(b)?;
        if past.rank() != 4 {
            return Err(format!("{} before {}", past.spec, new.spec));
        }
        let all = b.concat(&[past, &new], 2)?;
        Self::of(&all, None, "")
    }
}
