//! Memory that operations work on.

use crate::backend::device::Device;
use crate::op::rounding::Rounded;

/// A storage: a buffer from a byte offset on.
#[derive(Debug)]
pub struct Storage<'a, D: Device> {
    /// The buffer.
    pub buffer: &'a D::Buffer,
    /// Where the storage starts in it, in bytes; a multiple of 64.
    pub offset: usize,
}

/// Memory that a device wants beside an [`Op`](super::ops::Op)'s operands; what it holds doesn't
/// outlive the op.
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
    /// What [`Operators::pack`](super::operators::Operators::pack) made; `None` if
    /// [`Op::constants`](super::ops::Op::constants) are empty.
    pub constants: Option<&'a D::Buffer>,
    /// At least [`Operators::scratch`](super::operators::Operators::scratch), overlapping nothing;
    /// ops that run one after the other share it.
    pub scratch: Option<Storage<'a, D>>,
    /// What is rounded, as [`Operators::rounding`](super::operators::Operators::rounding) allows;
    /// what it doesn't allow is ignored.
    pub rounded: Rounded,
}

/// A matrix of singles among the inputs of a [`TensorOp`](crate::tensor::TensorOp), all of whose
/// outputs are sums of products with it. What is packed is the same for all operations of which
/// this says the same, whatever their other sizes are.
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

/// The memory that one [`TensorOp`](crate::tensor::TensorOp) works on.
#[derive(Debug)]
pub struct TensorOperands<'a, D: Device> {
    /// What is read, in the operation's order.
    pub inputs: Vec<Storage<'a, D>>,
    /// What is written. Doesn't overlap the others.
    pub output: Storage<'a, D>,
    /// Whether the [packed input](super::operators::Operators::packed_input) is what
    /// [`Operators::pack_input`](super::operators::Operators::pack_input) made.
    pub packed: bool,
    /// At least [`Operators::tensor_scratch`](super::operators::Operators::tensor_scratch),
    /// overlapping nothing; operations that run one after the other share it.
    pub scratch: Option<Storage<'a, D>>,
}
