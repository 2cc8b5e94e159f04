//! The vocabulary of neural networks: the operation of one launch, in logical shapes.
//!
//! reef-models describes networks with these types and a backend turns each into launches of its
//! own kernels, so neither needs to see the other. Everything here is plain data.
//!
//! Shapes are logical (batch, channels, height, width). How a tensor lies in memory is the
//! backend's own business ([`Layout::Native`]) except for a network's inputs and outputs, which are
//! dense row-major `f32` ([`Layout::Nchw`]). A native tensor takes as many elements as its shape
//! has. Between them tensors may have numbers of 8 bits ([`Layout::Quantized`]).
//!
//! Sizes come from files. [`Op::check`] bounds them: after it, no sum or product that a backend
//! makes of them wraps. Values computed before saturate.
//!
//! In: shapes, from readers of networks. Out: an [`Op`] for each launch, and what a device needs to
//! compute it ([`Operators`]).

mod function;
pub(crate) mod operands;
pub(crate) mod operators;
mod ops;
pub(crate) mod quantized;
pub mod rounding;
pub(crate) mod source;
mod tensor;

pub use function::{Bounds, Function};
pub use operands::{Operands, PackedInput, Scratch, Storage, TensorOperands};
pub use operators::Operators;
pub use ops::{Activate, Conv2d, Linear, Multiply, Op, Pool2d, PoolKind, ScaleShift};
pub use quantized::{Format, Quantization, Quantized};
pub use tensor::{Layout, MAX_ELEMENTS, MAX_SIZE, Tensor, Window};
