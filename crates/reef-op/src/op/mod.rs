//! Operations of networks for images, and the trait of a device with kernels for networks.
//!
//! In: shapes, from readers of networks. Out: an [`Op`] for each launch, and what a device needs to
//! compute it ([`Operators`]). Invariant: after [`Op::check`] no sum or product that a backend
//! makes of sizes wraps.

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
