//! Memory that operations work on.

use crate::op::rounding::Rounded;
use reef_core::Device;

/// A storage: a buffer from a byte offset on.
#[derive(Debug)]
pub struct Storage<'a, D: Device> {
    /// The buffer.
    pub buffer: &'a D::Buffer,
    /// Start of the storage in it, in bytes; a multiple of 64.
    pub offset: usize,
}

/// Memory that a device needs in addition to an [`Op`](super::ops::Op)'s operands; its contents
/// don't outlive the op.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Scratch {
    /// Number of bytes at the start that are zero before its first launch; launches leave them
    /// zero.
    pub zeroed: usize,
    /// All bytes, those included.
    pub bytes: usize,
}

impl Scratch {
    /// Returns the scratch memory that serves both, one after the other.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { zeroed: self.zeroed.max(other.zeroed), bytes: self.bytes.max(other.bytes) }
    }
}

/// The memory that one [`Op`](super::ops::Op) works on.
#[derive(Debug)]
pub struct Operands<'a, D: Device> {
    /// Holds [`Op::input`](super::ops::Op::input).
    pub input: Storage<'a, D>,
    /// Holds [`Op::second`](super::ops::Op::second), if the op has one: a residual, shaped and laid
    /// out like the output, or a factor.
    pub residual: Option<Storage<'a, D>>,
    /// Holds [`Op::output`](super::ops::Op::output). Doesn't overlap the others.
    pub output: Storage<'a, D>,
    /// Result of [`Operators::pack`](super::operators::Operators::pack); `None` if
    /// [`Op::constants`](super::ops::Op::constants) are empty.
    pub constants: Option<&'a D::Buffer>,
    /// At least [`Operators::scratch`](super::operators::Operators::scratch), overlapping nothing;
    /// ops that run one after the other share it.
    pub scratch: Option<Storage<'a, D>>,
    /// Numbers that are rounded, as [`Operators::rounding`](super::operators::Operators::rounding)
    /// allows; what it doesn't allow is ignored.
    pub rounded: Rounded,
}

impl<'a, D: Device> Operands<'a, D> {
    /// Operands of an op without others, of which nothing is rounded.
    pub fn new(input: Storage<'a, D>, output: Storage<'a, D>) -> Self {
        let rounded = Rounded::default();
        Self { input, residual: None, output, constants: None, scratch: None, rounded }
    }
}

/// A matrix of singles among the inputs of a [`TensorOp`](crate::tensor::TensorOp), all of whose
/// outputs are sums of products with it. Operations with an equal `PackedInput` share the packed
/// form, whatever their other sizes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PackedInput {
    /// Index of the input.
    pub input: usize,
    /// Number of its values before it is packed.
    pub elements: usize,
    /// Number of outputs that it has factors for, and their distance in values.
    pub outputs: [usize; 2],
    /// Number of factors for each of them, and their distance in values.
    pub terms: [usize; 2],
    /// Bytes that it takes once it is packed.
    pub bytes: usize,
}

/// The memory that one [`TensorOp`](crate::tensor::TensorOp) works on.
#[derive(Debug)]
pub struct TensorOperands<'a, D: Device> {
    /// Inputs, in the operation's order.
    pub inputs: Vec<Storage<'a, D>>,
    /// Output. Doesn't overlap the others.
    pub output: Storage<'a, D>,
    /// The [packed input](super::operators::Operators::packed_input) was made by
    /// [`Operators::pack_input`](super::operators::Operators::pack_input). The
    /// [weights](crate::tensor::Eight::values) of [`Eight`](crate::tensor::Eight) were packed by
    /// [`Operators::pack`](super::operators::Operators::pack), for
    /// [its convolution](super::ops::Conv2d::of_eight) and with its
    /// [bias](crate::tensor::Eight::moved_bias), and are its second input.
    pub packed: bool,
    /// At least [`Operators::tensor_scratch`](super::operators::Operators::tensor_scratch),
    /// overlapping nothing; operations that run one after the other share it.
    pub scratch: Option<Storage<'a, D>>,
}
