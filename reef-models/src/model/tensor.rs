//! The tensors that a network's constants are made of, under the names that torchvision gives them.

use crate::errors::error::Result;
use reef_op::Op;
use serde::{Deserialize, Serialize};

/// Use of a tensor. It decides how a made-up one is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Weights of a convolution or a linear layer, or rows of a table.
    Weight {
        /// Values that each output is the sum of; of a table it is one.
        fan_in: usize,
    },
    /// Factors of a normalisation.
    Gain,
    /// Factors of the batch normalisation that ends a residual branch.
    BranchGain,
    /// Summands of a linear layer or a normalisation.
    Bias,
    /// Running means of a batch normalisation.
    Mean,
    /// Running variances of a batch normalisation.
    Variance,
}

/// A tensor that a network needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorSpec {
    /// Its name in torchvision's `state_dict`: `layer1.0.conv1.weight`.
    pub name: String,
    /// Number of values.
    pub elements: usize,
    /// Use of its values.
    pub kind: Kind,
}

/// Something that has tensors: made up from a seed, or read from a file.
pub trait Source {
    /// The values of `tensor`, row-major as torch keeps them.
    ///
    /// # Errors
    ///
    /// `MissingTensor`, or `Length` if it is of another size.
    fn tensor(&self, tensor: &TensorSpec) -> Result<Vec<f32>>;
}

/// A batch normalisation, in inference a factor and a summand for each channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Norm {
    /// torchvision's name of the module: `layer1.0.bn1`.
    pub name: String,
    /// Added to the variance.
    pub epsilon: f64,
    /// True if its output is added to a residual.
    pub ends_branch: bool,
}

/// Tensors of a layer's weights and bias.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Constants {
    /// It has none.
    None,
    /// A convolution without bias; a normalisation that follows it is folded in.
    Conv {
        /// torchvision's name of the module.
        name: String,
        /// The normalisation.
        norm: Option<Norm>,
    },
    /// A normalisation that can't be folded.
    Norm(Norm),
    /// Weights and bias as they stand: a fully connected layer, or whatever an import has folded.
    Biased {
        /// torchvision's name of the module.
        name: String,
    },
}

impl Constants {
    /// The tensors that `op` takes from these constants.
    pub fn tensors(&self, op: &Op) -> Vec<TensorSpec> {
        let [weights, channels] = op.constants();
        match self {
            Self::None => Vec::new(),
            Self::Conv { name, norm } => {
                let norm = norm.iter().flat_map(|norm| norm.tensors(channels));
                [weight(name, weights, channels)].into_iter().chain(norm).collect()
            }
            Self::Norm(norm) => norm.tensors(channels).into(),
            Self::Biased { name } => {
                vec![weight(name, weights, channels), spec(name, "bias", channels, Kind::Bias)]
            }
        }
    }

    /// Values of [these](Self::tensors) that are parameters: all but running means and variances.
    /// No name is made for that.
    pub(crate) fn parameters(&self, op: &Op) -> usize {
        let [weights, channels] = op.constants();
        match self {
            Self::None => 0,
            Self::Conv { norm: None, .. } => weights,
            Self::Conv { norm: Some(_), .. } => weights + 2 * channels,
            Self::Norm(_) => 2 * channels,
            Self::Biased { .. } => weights + channels,
        }
    }
}

impl Norm {
    /// Factor, summand, mean and variance.
    pub(crate) fn tensors(&self, channels: usize) -> [TensorSpec; 4] {
        let gain = if self.ends_branch { Kind::BranchGain } else { Kind::Gain };
        [
            spec(&self.name, "weight", channels, gain),
            spec(&self.name, "bias", channels, Kind::Bias),
            spec(&self.name, "running_mean", channels, Kind::Mean),
            spec(&self.name, "running_var", channels, Kind::Variance),
        ]
    }
}

fn weight(module: &str, elements: usize, outputs: usize) -> TensorSpec {
    spec(module, "weight", elements, Kind::Weight { fan_in: elements / outputs })
}

fn spec(module: &str, tensor: &str, elements: usize, kind: Kind) -> TensorSpec {
    TensorSpec { name: format!("{module}.{tensor}"), elements, kind }
}
