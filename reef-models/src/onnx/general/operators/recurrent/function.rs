//! Activations that a node names.

use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::elements::activations;
use crate::tensors::expressions::Writer;
use reef_op::tensor::{Binary, Unary};

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Function {
    Relu,
    Tanh,
    Sigmoid,
    Softsign,
    Softplus,
    /// `alpha * x + beta`.
    Affine(f64, f64),
    LeakyRelu(f64),
    ThresholdedRelu(f64),
    /// `alpha * tanh(beta * x)`.
    ScaledTanh(f64, f64),
    HardSigmoid(f64, f64),
    Elu(f64),
}

/// The functions that a node names for all directions, or the usual ones for each direction.
pub(super) fn functions(
    call: &Call<'_>,
    usual: &[Function],
    directions: usize,
) -> Result<Vec<Function>> {
    let mut alpha = call.floats("activation_alpha")?.unwrap_or_default().iter().copied();
    let mut beta = call.floats("activation_beta")?.unwrap_or_default().iter().copied();
    let wanted = directions * usual.len();
    let Some(names) = call.texts("activations")? else { return Ok(usual.repeat(directions)) };
    if names.len() != wanted {
        return Err(format!("must have {wanted} activations, got {}", names.len()));
    }
    names.iter().map(|name| Function::of(name, [&mut alpha, &mut beta])).collect()
}

impl Function {
    /// Takes parameters from those that are left, the usual ones of the operator of this name if
    /// none are.
    fn of(name: &str, [alpha, beta]: [&mut dyn Iterator<Item = f32>; 2]) -> Result<Self> {
        let missing = || format!("activation {name} without activation_alpha or activation_beta");
        let mut alpha = |usual: Option<f64>| alpha.next().map(f64::from).or(usual);
        let mut beta = |usual: Option<f64>| beta.next().map(f64::from).or(usual);
        Ok(match name.to_ascii_lowercase().as_str() {
            "relu" => Self::Relu,
            "tanh" => Self::Tanh,
            "sigmoid" => Self::Sigmoid,
            "softsign" => Self::Softsign,
            "softplus" => Self::Softplus,
            "affine" => {
                Self::Affine(alpha(None).ok_or_else(missing)?, beta(None).ok_or_else(missing)?)
            }
            "scaledtanh" => {
                Self::ScaledTanh(alpha(None).ok_or_else(missing)?, beta(None).ok_or_else(missing)?)
            }
            "leakyrelu" => Self::LeakyRelu(alpha(Some(0.01)).ok_or_else(missing)?),
            "thresholdedrelu" => Self::ThresholdedRelu(alpha(Some(1.0)).ok_or_else(missing)?),
            "elu" => Self::Elu(alpha(Some(1.0)).ok_or_else(missing)?),
            "hardsigmoid" => Self::HardSigmoid(
                alpha(Some(0.2)).ok_or_else(missing)?,
                beta(Some(0.5)).ok_or_else(missing)?,
            ),
            _ => return Err(format!("activation {name:?} is not supported")),
        })
    }

    /// Appends the terms of the function of a term.
    pub(super) fn write(self, w: &mut Writer, x: usize) -> usize {
        match self {
            Self::Relu => w.relu(x),
            Self::Tanh => w.un(Unary::Tanh, x),
            Self::Sigmoid => w.sigmoid(x),
            Self::Softsign => activations::softsign(w, x),
            Self::Softplus => activations::softplus(w, x),
            Self::Affine(alpha, beta) => {
                let (scaled, beta) = (activations::slope(w, x, alpha), w.real(beta));
                w.add(scaled, beta)
            }
            Self::ScaledTanh(alpha, beta) => {
                let scaled = activations::slope(w, x, beta);
                let tangent = w.un(Unary::Tanh, scaled);
                activations::slope(w, tangent, alpha)
            }
            Self::LeakyRelu(alpha) => {
                activations::negative(w, x, |w| activations::slope(w, x, alpha))
            }
            Self::ThresholdedRelu(alpha) => {
                let (alpha, zero) = (w.real(alpha), w.real(0.0));
                let below = w.bin(Binary::Less, x, alpha);
                w.select(below, zero, x)
            }
            Self::HardSigmoid(alpha, beta) => w.hard_sigmoid(x, alpha, beta),
            Self::Elu(alpha) => {
                activations::negative(w, x, |w| activations::power(w, x, alpha, 1.0))
            }
        }
    }
}
