//! The vocabulary of neural networks: what one launch computes, in logical shapes.
//!
//! reef-models describes networks with these types and a backend turns each into launches of its
//! own kernels, so neither needs to see the other. Everything here is plain data.
//!
//! Shapes are logical (batch, channels, height, width). How a tensor lies in memory is the
//! backend's own business ([`Layout::Native`]) except for a network's inputs and outputs, which are
//! dense row-major `f32` ([`Layout::Nchw`]). A native tensor takes as many elements as its shape has.
//!
//! Sizes come from files. [`Op::check`] is where they are bounded: after it, no sum or product that a backend
//! makes of them wraps. What is computed before saturates.

use crate::backend::command::Launch;
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::rounding::{Rounded, Rounding};
use crate::source::Program;
use crate::tensor::op::TensorOp;
use std::fmt;
use std::sync::Arc;

/// Most of each size of a tensor or a window.
pub const MAX_SIZE: usize = 1 << 28;
/// Most elements of a storage, and most weights of an op. In bytes, and padded by a backend, it doesn't wrap.
pub const MAX_ELEMENTS: usize = 1 << 40;

/// A product that stops at the largest number.
fn product(sizes: impl IntoIterator<Item = usize>) -> usize {
    sizes.into_iter().fold(1, usize::saturating_mul)
}

/// How a tensor lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Dense, row-major: batch, channel, row, column.
    Nchw,
    /// The backend's choice, the same for every native tensor of the device.
    Native,
}

/// A tensor, or some adjoining channels of a wider one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tensor {
    /// Images.
    pub batch: usize,
    /// Channels of this tensor.
    pub channels: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// How it lies in memory.
    pub layout: Layout,
    /// Its first channel within the storage; not 0 only where networks concatenate.
    pub first: usize,
    /// Channels of the whole storage, at least `first + channels`.
    pub of: usize,
}

impl Tensor {
    /// A tensor that fills its storage.
    pub fn new(layout: Layout, [batch, channels, height, width]: [usize; 4]) -> Self {
        Self { batch, channels, height, width, layout, first: 0, of: channels }
    }

    /// The same rows and columns, `channels` of `of` channels from `first` on.
    #[must_use]
    pub fn channels(self, first: usize, channels: usize, of: usize) -> Self {
        Self { first, channels, of, ..self }
    }

    /// Batch, channels, rows and columns.
    pub fn shape(&self) -> [usize; 4] {
        [self.batch, self.channels, self.height, self.width]
    }

    /// Elements of the tensor itself.
    pub fn elements(&self) -> usize {
        product(self.shape())
    }

    /// Elements of the storage that holds it.
    pub fn storage_elements(&self) -> usize {
        product([self.batch, self.of, self.height, self.width])
    }

    /// Checks that it has elements, lies inside its storage, and is no larger than anything can be.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub fn check(&self) -> Result<()> {
        let Self { batch, channels, height, width, first, of, .. } = *self;
        let shape = [batch, channels, height, width];
        if shape.contains(&0) {
            return Err(Error::invalid(format!("an empty tensor {shape:?}")));
        }
        let too_large = shape.into_iter().chain([of]).any(|size| size > MAX_SIZE);
        if too_large || self.storage_elements() > MAX_ELEMENTS {
            return Err(Error::invalid(format!("a tensor {shape:?} in {of} channels: too large")));
        }
        if first > of - channels.min(of) || channels > of {
            return Err(Error::invalid(format!("{channels} channels from {first} on, of {of}")));
        }
        Ok(())
    }
}

/// A window that slides over rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    /// Rows and columns of the window.
    pub size: [usize; 2],
    /// Steps between windows.
    pub stride: [usize; 2],
    /// Zeros (for maxima: nothing) added on each side.
    pub padding: [usize; 2],
}

impl Window {
    /// Rows and columns of windows that fit over `[height, width]`; one if it is smaller than the window, none
    /// if windows don't move.
    pub fn over(&self, [height, width]: [usize; 2]) -> [usize; 2] {
        let fit = |n: usize, i: usize| {
            let padded = n.saturating_add(self.padding[i].saturating_mul(2));
            let steps = padded.saturating_sub(self.size[i]).checked_div(self.stride[i]);
            steps.map_or(0, |steps| steps.saturating_add(1))
        };
        [fit(height, 0), fit(width, 1)]
    }

    /// Checks that it has an area, moves, and is no larger than anything can be.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub fn check(&self) -> Result<()> {
        let moves = self.size.into_iter().chain(self.stride);
        let bounded = moves.clone().chain(self.padding).all(|size| size <= MAX_SIZE);
        if !bounded || moves.clone().any(|size| size == 0) {
            return Err(Error::invalid(format!("{self:?}")));
        }
        Ok(())
    }
}

/// `output = function?(relu?(convolve(input, weights) + bias + residual?))`.
///
/// Weights are `[output channels][input channels / groups][rows][columns]`, bias has one value per
/// output channel; batch normalisation is folded into both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Conv2d {
    /// What is read.
    pub input: Tensor,
    /// What is written.
    pub output: Tensor,
    /// The window.
    pub window: Window,
    /// Channels are convolved within this many groups.
    pub groups: usize,
    /// A tensor like the output is added before `relu`.
    pub residual: bool,
    /// Negative values become zero.
    pub relu: bool,
    /// What becomes of each value in the end.
    pub function: Option<Function>,
}

impl Conv2d {
    fn check_groups(&self) -> Result<()> {
        let channels = [self.input.channels, self.output.channels];
        if self.groups == 0 || channels.iter().any(|n| !n.is_multiple_of(self.groups)) {
            let [inputs, outputs] = channels;
            let text = format!("{inputs} and {outputs} channels in {} groups", self.groups);
            return Err(Error::invalid(text));
        }
        Ok(())
    }
}

/// What a pooling window gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// The largest value.
    Max,
    /// The mean; padding counts as zeros, as torch's `count_include_pad` does.
    Average,
}

/// Maximum or mean over a window, channel by channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pool2d {
    /// Maximum or mean.
    pub kind: PoolKind,
    /// What is read.
    pub input: Tensor,
    /// What is written.
    pub output: Tensor,
    /// The window; the whole picture for a global pool.
    pub window: Window,
}

/// `output[c] = relu?(input[c] * weights[c] + bias[c])`: a batch normalisation that can't be folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScaleShift {
    /// What is read.
    pub input: Tensor,
    /// What is written.
    pub output: Tensor,
    /// Negative values become zero.
    pub relu: bool,
}

/// `output = function?(relu?(input · weightsᵀ + bias))`; weights are `[outputs][inputs]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Linear {
    /// What is read: `channels` inputs, one row and column.
    pub input: Tensor,
    /// What is written: `channels` outputs, one row and column.
    pub output: Tensor,
    /// Negative values become zero.
    pub relu: bool,
    /// What becomes of each value in the end.
    pub function: Option<Function>,
}

/// Two numbers, the first at most the second. Infinite ones bound nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Bits of the numbers, which are equal where the numbers are.
    low: u32,
    high: u32,
}

impl Bounds {
    /// Those of ReLU6: 0 and 6.
    pub const RELU6: Self = Self { low: 0f32.to_bits(), high: 6f32.to_bits() };

    /// These two; `None` unless `low <= high`.
    pub fn new(low: f32, high: f32) -> Option<Self> {
        let bits = |bound: f32| (bound + 0.0).to_bits(); // one zero instead of two
        (low <= high).then(|| Self { low: bits(low), high: bits(high) })
    }

    /// The least value.
    pub fn low(self) -> f32 {
        f32::from_bits(self.low)
    }

    /// The largest value.
    pub fn high(self) -> f32 {
        f32::from_bits(self.high)
    }
}

impl fmt::Debug for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.low(), self.high())
    }
}

/// What becomes of each value. What is not a number stays none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// `min(high, max(low, x))`, exactly.
    Clamp(Bounds),
    /// `max(0, min(1, x / 6 + 1/2))`, as torch defines it and ONNX does with alpha = 1/6.
    HardSigmoid,
    /// `x * hard_sigmoid(x)`.
    HardSwish,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `x * sigmoid(x)`, which torch calls SiLU.
    Swish,
}

impl Function {
    /// What becomes of `x`.
    #[inline]
    pub fn of(self, x: f64) -> f64 {
        match self {
            Self::Clamp(bounds) => x.clamp(bounds.low().into(), bounds.high().into()),
            Self::HardSigmoid => (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Self::HardSwish => x * Self::HardSigmoid.of(x),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Swish => x * Self::Sigmoid.of(x),
        }
    }

    /// What `x * function(x)` is, if there is a name for it.
    pub fn gating(self) -> Option<Self> {
        match self {
            Self::HardSigmoid => Some(Self::HardSwish),
            Self::Sigmoid => Some(Self::Swish),
            _ => None,
        }
    }
}

/// `output = function(input)`, value by value: an activation that no other op takes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Activate {
    /// What is read.
    pub input: Tensor,
    /// What is written.
    pub output: Tensor,
    /// What becomes of each value.
    pub function: Function,
}

/// `output = input * factor`, value by value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Multiply {
    /// What is read.
    pub input: Tensor,
    /// As large as the input, or one value for each channel of each image (one row and column).
    /// Its storage is where a residual would be, in [`Operands::residual`].
    pub factor: Tensor,
    /// What is written.
    pub output: Tensor,
}

/// What one step of a network computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// What is read, residual and factor aside.
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

    /// What is written.
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

    /// What is read beside the input, if anything: a residual or a factor.
    pub fn second(&self) -> Option<&Tensor> {
        match self {
            Self::Conv2d(op) => op.residual.then_some(&op.output),
            Self::Multiply(op) => Some(&op.factor),
            _ => None,
        }
    }

    /// Whether it takes weights and a bias, whatever its shapes are.
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

    /// Checks its sizes, each by itself, and that groups divide channels. Backends do so first; whether the shapes
    /// fit each other, and their storages, they check themselves, in numbers that can't wrap any more.
    ///
    /// # Errors
    ///
    /// `Invalid` says what is wrong.
    pub fn check(&self) -> Result<()> {
        let tensors = [Some(self.input()), Some(self.output()), self.second()];
        tensors.into_iter().flatten().try_for_each(Tensor::check)?;
        self.window().map_or(Ok(()), Window::check)?;
        if let Self::Conv2d(op) = self {
            op.check_groups()?;
        }
        let [weights, _] = self.constants();
        if weights > MAX_ELEMENTS {
            return Err(Error::invalid(format!("more than {MAX_ELEMENTS} weights")));
        }
        Ok(())
    }

    /// The function that each value of the output goes through in the end, and this operation without it.
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

/// A storage: a buffer from a byte offset on.
#[derive(Debug)]
pub struct Storage<'a, D: Device> {
    /// The buffer.
    pub buffer: &'a D::Buffer,
    /// Where the storage starts in it, in bytes; a multiple of 64.
    pub offset: usize,
}

/// Memory that a device wants beside an [`Op`]'s operands; what it holds doesn't outlive the op.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scratch {
    /// How many bytes at the start are zero before its first launch; launches leave them zero.
    pub zeroed: usize,
    /// All bytes, those included.
    pub bytes: usize,
}

impl Scratch {
    /// What serves both, one after the other.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { zeroed: self.zeroed.max(other.zeroed), bytes: self.bytes.max(other.bytes) }
    }
}

/// The memory that one [`Op`] works on.
#[derive(Debug)]
pub struct Operands<'a, D: Device> {
    /// Holds [`Op::input`].
    pub input: Storage<'a, D>,
    /// Holds [`Op::second`], if the op has one: a residual, shaped and laid out like the output, or a factor.
    pub residual: Option<Storage<'a, D>>,
    /// Holds [`Op::output`]. Doesn't overlap the others.
    pub output: Storage<'a, D>,
    /// What [`Operators::pack`] made; `None` if [`Op::constants`] are empty.
    pub constants: Option<&'a D::Buffer>,
    /// At least [`Operators::scratch`], overlapping nothing; ops that run one after the other share it.
    pub scratch: Option<Storage<'a, D>>,
    /// What is rounded, as [`Operators::rounding`] allows; what it doesn't allow is ignored.
    pub rounded: Rounded,
}

/// A device that has kernels for neural networks.
pub trait Operators: Device {
    /// Brings weights and bias onto the device in whatever form its kernels want.
    ///
    /// One packed buffer serves any number of instances of the network, for any batch, rows and columns that have as many
    /// weights.
    ///
    /// # Errors
    ///
    /// `Invalid` if the lengths are not [`Op::constants`]; `OutOfMemory`.
    fn pack(&self, op: &Op, weights: &[f32], bias: &[f32]) -> Result<Self::Buffer>;

    /// The memory that [`operator`](Self::operator) wants for `op` beside operands of which these are `rounded`.
    fn scratch(&self, _op: &Op, _rounded: Rounded) -> Scratch {
        Scratch::default()
    }

    /// What this device's kernels for `op` do about rounding. A device that says nothing doesn't round.
    fn rounding(&self, _op: &Op) -> Rounding {
        Rounding::default()
    }

    /// The launches, in order, that compute `op` on these operands.
    ///
    /// The launches keep all buffers alive. Run them on one queue at a time, and don't copy or write their operands
    /// meanwhile: what comes out of that is unspecified, though memory stays sound.
    ///
    /// # Errors
    ///
    /// `Invalid` if shapes contradict each other, a storage is too small, or the output overlaps what is read;
    /// `Unsupported` names an op that the device has no kernel for.
    fn operator(&self, op: &Op, operands: &Operands<'_, Self>) -> Result<Vec<Launch<Self>>>;

    /// The memory that [`tensor_operator`](Self::tensor_operator) wants for `op` beside its operands.
    fn tensor_scratch(&self, _op: &TensorOp) -> Scratch {
        Scratch::default()
    }

    /// The launches, in order, that compute an operation on tensors of any rank and type.
    ///
    /// What holds for those of [`operator`](Self::operator) holds for these. A device that says nothing has none.
    ///
    /// # Errors
    ///
    /// As [`operator`](Self::operator).
    fn tensor_operator(
        &self,
        op: &Arc<TensorOp>,
        operands: &TensorOperands<'_, Self>,
    ) -> Result<Vec<Launch<Self>>> {
        let (name, kind) = (self.info().name, op.name());
        let what = format!("{name} has no kernel for {kind} of {} tensors", operands.inputs.len());
        Err(Error::Unsupported { backend: "device", what })
    }

    /// How many of `ops`, from the first on, are best run as one by [`tensor_group`](Self::tensor_group). None of them reads
    /// what another writes. A device that says nothing runs each by itself.
    fn grouped(&self, _ops: &[&TensorOp]) -> usize {
        1
    }

    /// The launches, in order, that compute several operations, none of whose outputs overlaps what another reads or
    /// writes.
    ///
    /// # Errors
    ///
    /// As [`tensor_operator`](Self::tensor_operator).
    fn tensor_group(
        &self,
        ops: &[(&Arc<TensorOp>, TensorOperands<'_, Self>)],
    ) -> Result<Vec<Launch<Self>>> {
        let each = ops.iter().map(|(op, operands)| self.tensor_operator(op, operands));
        Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// The input of `op` that this device's kernels want in a form of their own, if its values never change. A device
    /// that says nothing takes all inputs as they are.
    fn packed_input(&self, _op: &TensorOp) -> Option<PackedInput> {
        None
    }

    /// Brings the values of an input onto the device in the form that kernels want which gave `packed`.
    ///
    /// # Errors
    ///
    /// `Invalid` if there are not as many values; `OutOfMemory`.
    fn pack_input(&self, packed: &PackedInput, _values: &[f32]) -> Result<Self::Buffer> {
        Err(Error::invalid(format!("{} packs no {packed:?}", self.info().name)))
    }

    /// Whether [`tensor_operator`](Self::tensor_operator) has this operation, which is made of several that the device
    /// has in any case: attention, a sum with the formula behind it, a formula of rows. A device that says nothing gets
    /// those instead.
    fn has_joined(&self, _op: &TensorOp) -> bool {
        false
    }

    /// Whether this device's kernel for `op` rounds the values of an input to halves before anything else, with its
    /// [packed input](Self::packed_input) packed: stored as halves that input gives the same outputs, bit by bit.
    fn rounds_to_halves(&self, _op: &TensorOp, _input: usize) -> bool {
        false
    }

    /// Whether it has a kernel made for `op`, some of whose inputs or whose output are halves where they were singles, with
    /// its packed input packed. A device that says nothing has none.
    fn takes_halves(&self, _op: &TensorOp) -> bool {
        false
    }

    /// The kernel of each call of a program, compiled for this device and loaded: a kernel that several calls have
    /// is loaded once. A device that says nothing runs none.
    ///
    /// Must give, for each call, the kernel that it names, from the file that it names.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the device runs no source of GPUs, `Invalid` with the compiler's messages, `NotFound` without
    /// a compiler or for a kernel that is not in the source.
    fn program_kernels(&self, _program: &Program) -> Result<Vec<Self::Kernel>> {
        let what = format!("{}: kernels that come as source run on GPUs alone", self.info().name);
        Err(Error::Unsupported { backend: Self::NAME, what })
    }
}

/// A matrix of singles among the inputs of a [`TensorOp`], all of whose outputs are sums of products with it. What is
/// packed is the same for all operations of which this says the same, whatever their other sizes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedInput {
    /// Which input it is.
    pub input: usize,
    /// How many values it has before it is packed.
    pub elements: usize,
    /// For how many outputs it has factors, and how many values apart these are.
    pub outputs: [usize; 2],
    /// How many factors for each of them, and how many values apart these are.
    pub terms: [usize; 2],
    /// Bytes that it takes once it is packed.
    pub bytes: usize,
}

/// The memory that one [`TensorOp`] works on.
#[derive(Debug)]
pub struct TensorOperands<'a, D: Device> {
    /// What is read, in the operation's order.
    pub inputs: Vec<Storage<'a, D>>,
    /// What is written. Doesn't overlap the others.
    pub output: Storage<'a, D>,
    /// Whether the [packed input](Operators::packed_input) is what [`Operators::pack_input`] made.
    pub packed: bool,
    /// At least [`Operators::tensor_scratch`], overlapping nothing; operations that run one after the other share it.
    pub scratch: Option<Storage<'a, D>>,
}

#[cfg(test)]
mod tests {
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
        fn what_is_checked_does_not_wrap(t in tensor(), w in window(), groups in size()) {
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
            let op = Op::Conv2d(Conv2d {
                input: t, output: t, window: w, groups, residual: false, relu: false, function: None,
            });
            if op.check().is_ok() {
                let [weights, bias] = op.constants();
                let want = exact([channels, channels / groups, w.size[0], w.size[1]]);
                prop_assert_eq!([weights as u128, bias as u128], [want.unwrap(), channels as u128]);
                prop_assert!(weights <= MAX_ELEMENTS);
            }
        }
    }

    #[test]
    fn sensible_shapes_pass_and_others_say_why() {
        let good = Tensor::new(Layout::Native, [2, 8, 6, 6]);
        assert_eq!(good.check(), Ok(()));
        assert_eq!(good.channels(4, 4, 8).check(), Ok(()));
        let said = |tensor: Tensor| tensor.check().unwrap_err().to_string();
        assert_eq!(said(good.channels(4, 8, 9)), "8 channels from 4 on, of 9");
        assert_eq!(said(good.channels(0, 0, 8)), "an empty tensor [2, 0, 6, 6]");
        let wraps = Tensor { of: 1 << 62, ..good };
        assert_eq!(
            said(wraps),
            format!("a tensor [2, 8, 6, 6] in {} channels: too large", wraps.of)
        );
    }

    #[test]
    fn bounds_are_in_order_and_equal_where_their_numbers_are() {
        assert_eq!(Bounds::new(0.0, 6.0), Some(Bounds::RELU6));
        assert_eq!(Bounds::new(-0.0, 6.0), Some(Bounds::RELU6));
        assert_eq!(format!("{:?}", Bounds::new(-1.5, f32::INFINITY).unwrap()), "-1.5 to inf");
        let inverted_or_none = [(1.0, 0.0), (f32::NAN, 1.0), (0.0, f32::NAN)];
        assert!(inverted_or_none.iter().all(|&(low, high)| Bounds::new(low, high).is_none()));
    }

    #[test]
    fn functions_keep_what_is_not_a_number() {
        use Function::{Clamp, HardSigmoid, HardSwish, Sigmoid, Swish};
        for function in [Clamp(Bounds::RELU6), HardSigmoid, HardSwish, Sigmoid, Swish] {
            assert!(function.of(f64::NAN).is_nan(), "{function:?}");
        }
    }

    #[test]
    fn a_gated_value_has_the_name_of_what_it_is() {
        for gate in [Function::HardSigmoid, Function::Sigmoid] {
            let gated = gate.gating().unwrap();
            for x in [-8.0, -1.5, 0.0, 0.25, 7.0] {
                assert_eq!(gated.of(x), x * gate.of(x), "{gated:?} of {x}");
            }
        }
    }
}
