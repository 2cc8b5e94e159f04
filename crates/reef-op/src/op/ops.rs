//! Operations of networks for images.

use super::function::Function;
use super::quantized::{Format, Quantized};
use super::tensor::{Layout, MAX_ELEMENTS, Tensor, Window, product};
use crate::tensor::kinds::eight::Eight;
use reef_core::{Error, Result};

/// `output = function?(relu?(convolve(input, weights) + bias + residual?))`.
///
/// Weights are `[output channels][input channels / groups][rows][columns]`, bias has one value per
/// output channel; batch normalisation is folded into both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Conv2d {
    /// Input tensor.
    pub input: Tensor,
    /// Output tensor.
    pub output: Tensor,
    /// The window.
    pub window: Window,
    /// Channels are convolved within this many groups.
    pub groups: usize,
    /// A tensor like the output, of the same layout, is added before `relu`.
    pub residual: bool,
    /// Negative values become zero.
    pub relu: bool,
    /// Function of each value in the end.
    pub function: Option<Function>,
}

impl Conv2d {
    /// A convolution of all channels alone.
    pub fn new(input: Tensor, output: Tensor, window: Window) -> Self {
        let (groups, residual, relu, function) = (1, false, false, None);
        Self { input, output, window, groups, residual, relu, function }
    }

    /// Returns the convolution of images that an operation of tensors is, but for its zero points:
    /// those are in the [bias](Eight::moved_bias). `None` if a scale is not a positive normal
    /// number.
    pub fn of_eight(eight: &Eight) -> Option<Self> {
        let [batch, channels, height, width] = eight.shape;
        let [outputs, down, right] = eight.over;
        let numbers =
            |side: usize| Quantized::new(Format::Int8, eight.scales[side]).map(Layout::Quantized);
        let input = Tensor::new(numbers(0)?, [batch, channels, height, width]);
        let output = Tensor::new(numbers(1)?, [batch, outputs, down, right]);
        let window = Window { size: eight.size, stride: eight.stride, padding: eight.padding };
        Some(Self { relu: eight.relu, ..Self::new(input, output, window) })
    }

    fn check_groups(&self) -> Result<()> {
        let channels = [self.input.channels, self.output.channels];
        if self.groups == 0 || channels.iter().any(|n| !n.is_multiple_of(self.groups)) {
            let [inputs, outputs] = channels;
            return Err(Error::invalid(
                "groups",
                format!("must divide {inputs} and {outputs} channels, got {}", self.groups),
            ));
        }
        Ok(())
    }
}

/// Result of a pooling window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PoolKind {
    /// The largest value.
    Max,
    /// The mean; padding counts as zeros, as torch's `count_include_pad` does.
    Average,
}

/// Maximum or mean over a window, channel by channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pool2d {
    /// Maximum or mean.
    pub kind: PoolKind,
    /// Input tensor.
    pub input: Tensor,
    /// Output tensor.
    pub output: Tensor,
    /// The window; the whole image for a global pool.
    pub window: Window,
}

impl Pool2d {
    /// A pool has no constants that could bring one scale to another.
    fn check_numbers(&self) -> Result<()> {
        let [input, output] = [self.input.layout, self.output.layout].map(Layout::quantized);
        if input != output {
            return Err(Error::invalid(
                "numbers of 8 bits",
                format!("must be the pool's input, {input:?}, got {output:?}"),
            ));
        }
        Ok(())
    }
}

/// `output[c] = relu?(input[c] * weights[c] + bias[c])`: a batch normalisation that can't be
/// folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ScaleShift {
    /// Input tensor.
    pub input: Tensor,
    /// Output tensor.
    pub output: Tensor,
    /// Negative values become zero.
    pub relu: bool,
}

/// `output = function?(relu?(input · weightsᵀ + bias))`; weights are `[outputs][inputs]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Linear {
    /// Input tensor: `channels` inputs, one row and column.
    pub input: Tensor,
    /// Output tensor: `channels` outputs, one row and column.
    pub output: Tensor,
    /// Negative values become zero.
    pub relu: bool,
    /// Function of each value in the end.
    pub function: Option<Function>,
}

/// `output = function(input)`, value by value: an activation that no other op takes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Activate {
    /// Input tensor.
    pub input: Tensor,
    /// Output tensor.
    pub output: Tensor,
    /// Function of each value.
    pub function: Function,
}

/// `output = input * factor`, value by value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Multiply {
    /// Input tensor.
    pub input: Tensor,
    /// As large as the input, or one value for each channel of each image (one row and column). Its
    /// storage is where a residual would be, in
    /// [`Operands::residual`](super::operands::Operands::residual).
    pub factor: Tensor,
    /// Output tensor.
    pub output: Tensor,
}

/// Operation of one step of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Op {
    /// A convolution.
    Conv2d(Conv2d),
    /// Pooling.
    Pool2d(Pool2d),
    /// A channel-wise affine map.
    ScaleShift(ScaleShift),
    /// A fully connected layer.
    Linear(Linear),
    /// A function of each value.
    Activate(Activate),
    /// A product of two tensors.
    Multiply(Multiply),
}

impl Op {
    /// Returns the input tensor; a residual or factor is not included.
    pub fn input(&self) -> &Tensor {
        match self {
            Self::Conv2d(op) => &op.input,
            Self::Pool2d(op) => &op.input,
            Self::ScaleShift(op) => &op.input,
            Self::Linear(op) => &op.input,
            Self::Activate(op) => &op.input,
            Self::Multiply(op) => &op.input,
        }
    }

    /// Output tensor.
    pub fn output(&self) -> &Tensor {
        match self {
            Self::Conv2d(op) => &op.output,
            Self::Pool2d(op) => &op.output,
            Self::ScaleShift(op) => &op.output,
            Self::Linear(op) => &op.output,
            Self::Activate(op) => &op.output,
            Self::Multiply(op) => &op.output,
        }
    }

    /// Returns the second input, if there is one: a residual or a factor.
    pub fn second(&self) -> Option<&Tensor> {
        match self {
            Self::Conv2d(op) => op.residual.then_some(&op.output),
            Self::Multiply(op) => Some(&op.factor),
            _ => None,
        }
    }

    /// Returns whether one of its tensors has numbers of 8 bits.
    pub fn is_quantized(&self) -> bool {
        let tensors = [Some(self.input()), Some(self.output()), self.second()];
        tensors.into_iter().flatten().any(|tensor| tensor.layout.quantized().is_some())
    }

    /// Returns whether it takes weights and a bias, whatever its shapes are.
    pub fn has_constants(&self) -> bool {
        matches!(self, Self::Conv2d(_) | Self::ScaleShift(_) | Self::Linear(_))
    }

    /// The window that slides over the input, if one does.
    fn window(&self) -> Option<&Window> {
        match self {
            Self::Conv2d(op) => Some(&op.window),
            Self::Pool2d(op) => Some(&op.window),
            _ => None,
        }
    }

    /// Checks each of its sizes, and that groups divide channels. Backends do so first; they check
    /// themselves whether the shapes fit each other and their storages, in numbers that can't wrap
    /// any more.
    ///
    /// # Errors
    ///
    /// `Invalid` names the fault.
    pub fn check(&self) -> Result<()> {
        let tensors = [Some(self.input()), Some(self.output()), self.second()];
        tensors.into_iter().flatten().try_for_each(Tensor::check)?;
        self.window().map_or(Ok(()), Window::check)?;
        if let Self::Conv2d(op) = self {
            op.check_groups()?;
        }
        if let Self::Pool2d(op) = self {
            op.check_numbers()?;
        }
        let [weights, _] = self.constants();
        if weights > MAX_ELEMENTS {
            return Err(Error::invalid(
                "weights",
                format!("must be at most {MAX_ELEMENTS}, got {weights}"),
            ));
        }
        Ok(())
    }

    /// The function that each value of the output goes through in the end, and this operation
    /// without it.
    pub fn without_function(mut self) -> (Self, Option<Function>) {
        let function = match &mut self {
            Self::Conv2d(op) => op.function.take(),
            Self::Linear(op) => op.function.take(),
            _ => None,
        };
        (self, function)
    }

    /// Lengths of the weights and the bias that it takes; 0 and 0 if it has none.
    pub fn constants(&self) -> [usize; 2] {
        match self {
            Self::Conv2d(op) => {
                let inputs = op.input.channels.checked_div(op.groups).unwrap_or(0);
                let [rows, columns] = op.window.size;
                [product([op.output.channels, inputs, rows, columns]), op.output.channels]
            }
            Self::Pool2d(_) | Self::Activate(_) | Self::Multiply(_) => [0, 0],
            Self::ScaleShift(op) => [op.input.channels; 2],
            Self::Linear(op) => {
                [product([op.input.channels, op.output.channels]), op.output.channels]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tensor::{Layout, MAX_SIZE};
    use super::*;
    use proptest::prelude::*;

    /// Small numbers, numbers at the limits, and numbers whose products wrap.
    fn size() -> impl Strategy<Value = usize> {
        let at_limits = [0, 1, 2, 3, 7, 64, 1 << 20, MAX_SIZE - 1, MAX_SIZE, MAX_SIZE + 1];
        let wrapping = [1 << 31, 1 << 32, 1 << 61, 1 << 62, 1 << 63, usize::MAX - 1, usize::MAX];
        prop_oneof![3 => prop::sample::select(at_limits.to_vec()), 1 => prop::sample::select(wrapping.to_vec())]
    }

    fn tensor() -> impl Strategy<Value = Tensor> {
        (size(), size(), size(), size(), size(), size()).prop_map(
            |(batch, channels, height, width, first, of)| Tensor {
                batch,
                channels,
                height,
                width,
                layout: Layout::Native,
                first,
                of,
            },
        )
    }

    fn window() -> impl Strategy<Value = Window> {
        let pair = || [size(), size()];
        (pair(), pair(), pair()).prop_map(|(size, stride, padding)| Window {
            size,
            stride,
            padding,
        })
    }

    fn exact(sizes: impl IntoIterator<Item = usize>) -> Option<u128> {
        sizes.into_iter().try_fold(1u128, |product, size| product.checked_mul(size as u128))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

        #[test]
        fn checked_sizes_do_not_wrap(t in tensor(), w in window(), groups in size()) {
            let Tensor { batch, channels, height, width, first, of, .. } = t;
            let elements = exact([batch, of, height, width]);
            let saturated = elements.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
            if ![batch, of, height, width].contains(&0) {
                prop_assert_eq!(t.storage_elements(), saturated);
            }
            if t.check().is_ok() {
                prop_assert!(elements.unwrap() <= MAX_ELEMENTS as u128);
                prop_assert!(first.checked_add(channels).unwrap() <= of && t.elements() > 0);
            }
            let counts = w.over([height, width]);
            if w.check().is_ok() && height.max(width) <= MAX_SIZE {
                for (i, n) in [height, width].into_iter().enumerate() {
                    let padded = n + 2 * w.padding[i];
                    prop_assert_eq!(counts[i], padded.saturating_sub(w.size[i]) / w.stride[i] + 1);
                }
            }
            let op = Op::Conv2d(Conv2d { groups, ..Conv2d::new(t, t, w) });
            if op.check().is_ok() {
                let [weights, bias] = op.constants();
                let want = exact([channels, channels / groups, w.size[0], w.size[1]]);
                prop_assert_eq!([weights as u128, bias as u128], [want.unwrap(), channels as u128]);
                prop_assert!(weights <= MAX_ELEMENTS);
            }
        }
    }
}
