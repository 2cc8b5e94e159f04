//! The vocabulary of neural networks: what one launch computes, in logical shapes.
//!
//! reef-models describes networks with these types and a backend turns each into launches of its
//! own kernels, so neither needs to see the other. Everything here is plain data.
//!
//! Shapes are logical (batch, channels, height, width). How a tensor lies in memory is the
//! backend's own business ([`Layout::Native`]) except for a network's inputs and outputs, which are
//! dense row-major `f32` ([`Layout::Nchw`]). A native tensor takes as many elements as its shape has.

use crate::backend::command::Launch;
use crate::backend::device::Device;
use crate::backend::error::Result;

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
        self.batch * self.channels * self.height * self.width
    }

    /// Elements of the storage that holds it.
    pub fn storage_elements(&self) -> usize {
        self.batch * self.of * self.height * self.width
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
    /// Rows and columns of windows that fit over `[height, width]`.
    pub fn over(&self, [height, width]: [usize; 2]) -> [usize; 2] {
        let fit = |n: usize, i: usize| {
            (n + 2 * self.padding[i]).saturating_sub(self.size[i]) / self.stride[i] + 1
        };
        [fit(height, 0), fit(width, 1)]
    }
}

/// `output = relu?(convolve(input, weights) + bias + residual?)`.
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

/// `output = input · weightsᵀ + bias`; weights are `[outputs][inputs]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Linear {
    /// What is read: `channels` inputs, one row and column.
    pub input: Tensor,
    /// What is written: `channels` outputs, one row and column.
    pub output: Tensor,
    /// Negative values become zero.
    pub relu: bool,
}

/// What becomes of each value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// `max(0, min(6, x))`, called ReLU6.
    Clamp,
    /// `max(0, min(1, x / 6 + 1/2))`, as torch defines it and ONNX does with alpha = 1/6.
    HardSigmoid,
    /// `x * hard_sigmoid(x)`.
    HardSwish,
}

impl Function {
    /// What becomes of `x`.
    #[inline]
    pub fn of(self, x: f64) -> f64 {
        match self {
            Self::Clamp => x.clamp(0.0, 6.0),
            Self::HardSigmoid => (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Self::HardSwish => x * Self::HardSigmoid.of(x),
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

    /// Lengths of the weights and the bias that it takes; 0 and 0 if it has none. Its shapes have been checked.
    pub fn constants(&self) -> [usize; 2] {
        match self {
            Self::Conv2d(op) => {
                let per_output =
                    op.input.channels / op.groups * op.window.size.iter().product::<usize>();
                [op.output.channels * per_output, op.output.channels]
            }
            Self::Pool2d(_) | Self::Activate(_) | Self::Multiply(_) => [0, 0],
            Self::ScaleShift(op) => [op.input.channels; 2],
            Self::Linear(op) => [op.input.channels * op.output.channels, op.output.channels],
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
}

/// A device that has kernels for neural networks.
pub trait Operators: Device {
    /// Brings weights and bias onto the device in whatever form its kernels want.
    ///
    /// One packed buffer serves any number of instances of the network.
    ///
    /// # Errors
    ///
    /// `Invalid` if the lengths are not [`Op::constants`]; `OutOfMemory`.
    fn pack(&self, op: &Op, weights: &[f32], bias: &[f32]) -> Result<Self::Buffer>;

    /// The memory that [`operator`](Self::operator) wants for `op` beside its operands.
    fn scratch(&self, _op: &Op) -> Scratch {
        Scratch::default()
    }

    /// The launches, in order, that compute `op` on these operands.
    ///
    /// The launches keep all buffers alive.
    ///
    /// # Errors
    ///
    /// `Invalid` if shapes contradict each other or a storage is too small; `Unsupported` names an
    /// op that the device has no kernel for.
    fn operator(&self, op: &Op, operands: &Operands<'_, Self>) -> Result<Vec<Launch<Self>>>;
}
