//! Folds batch normalisations into the layer before them.
//!
//! In inference `norm(y) = (y - mean) * gain / sqrt(variance + epsilon) + bias`, so a convolution
//! followed by it is a convolution with other weights and a bias. All in `f64`, rounded once.

use super::tensor::{Constants, Norm, Source, TensorSpec};
use crate::errors::error::Result;
use reef_op::Op;

/// Weights and bias as operations take them.
pub type Folded = (Vec<f32>, Vec<f32>);

impl Constants {
    /// The weights and bias of `op`, of the lengths that [`Op::constants`] says.
    ///
    /// # Errors
    ///
    /// Returns the errors of `source`.
    pub fn fold(&self, op: &Op, source: &impl Source) -> Result<Folded> {
        let [_, channels] = op.constants();
        let tensors = self.tensors(op);
        match self {
            Self::None => Ok((Vec::new(), Vec::new())),
            Self::Conv { norm: None, .. } => Ok((first(&tensors, source)?, vec![0.0; channels])),
            Self::Conv { norm: Some(norm), .. } => {
                let affine = norm.affine(channels, source)?;
                Ok((scaled(first(&tensors, source)?, &affine), shifts(&affine)))
            }
            Self::Norm(norm) => {
                let affine = norm.affine(channels, source)?;
                Ok((affine.iter().map(|&(scale, _)| scale as f32).collect(), shifts(&affine)))
            }
            Self::Biased { .. } => Ok((first(&tensors, source)?, first(&tensors[1..], source)?)),
        }
    }
}

impl Norm {
    /// Factor and summand of each channel.
    fn affine(&self, channels: usize, source: &impl Source) -> Result<Vec<(f64, f64)>> {
        let [gain, bias, mean, variance] =
            self.tensors(channels).map(|tensor| source.tensor(&tensor));
        let (gain, bias, mean, variance) = (gain?, bias?, mean?, variance?);
        let channel = |c: usize| {
            let scale = f64::from(gain[c]) / (f64::from(variance[c]) + self.epsilon).sqrt();
            (scale, f64::from(bias[c]) - f64::from(mean[c]) * scale)
        };
        Ok((0..channels).map(channel).collect())
    }
}

fn first(tensors: &[TensorSpec], source: &impl Source) -> Result<Vec<f32>> {
    source.tensor(&tensors[0])
}

fn scaled(mut weights: Vec<f32>, affine: &[(f64, f64)]) -> Vec<f32> {
    let per_output = weights.len() / affine.len();
    for (row, &(scale, _)) in weights.chunks_exact_mut(per_output).zip(affine) {
        row.iter_mut().for_each(|weight| *weight = (f64::from(*weight) * scale) as f32);
    }
    weights
}

fn shifts(affine: &[(f64, f64)]) -> Vec<f32> {
    affine.iter().map(|&(_, shift)| shift as f32).collect()
}
