//! Operations of neural networks: the vocabulary that networks and devices share.
//!
//! reef-models describes networks with these types, and a backend turns each operation into
//! launches of its own kernels. So neither needs to see the other.
//!
//! * [`Op`] is an operation of a network for images: what its launches compute.
//! * [`tensor`] has the operations of all other networks, and defines each by plain loops.
//! * [`program`] is a network that brings its kernels as source.
//! * [`Operators`] is a device with kernels for these.
//! * [`rounding`] tells which numbers are rounded once, where they are written.
//!
//! Operations are plain data, which the feature `serde` brings to other processes. Queues,
//! preemption and schedulers are in [`reef_core`].
//!
//! Shapes of an [`Op`] are batch, channels, height, width. How a tensor lies in memory is the
//! backend's own business ([`Layout::Native`]) except for a network's inputs and outputs, which are
//! dense row-major `f32` ([`Layout::Nchw`]). A native tensor takes as many elements as its shape
//! has. Between them tensors may have numbers of 8 bits ([`Layout::Quantized`]).
//!
//! Sizes come from files. [`Op::check`] bounds them: after it, no sum or product that a backend
//! makes of them wraps. Values computed before saturate.
//!
//! ```
//! use reef_op::tensor::{Array, Binary, Domain, Element, Formula, Kind, Map, Spec, Term, TensorOp};
//!
//! let terms = vec![Term::Input(0), Term::Input(1), Term::Binary(Binary::Add, 0, 1)];
//! let spec = |dims: &[usize]| Spec { element: Element::F32, dims: dims.to_vec() };
//! let add = TensorOp {
//!     kind: Kind::Map(Map { formula: Formula(terms), domain: Domain::F32 }),
//!     inputs: vec![spec(&[2, 2]), spec(&[2])],
//!     output: spec(&[2, 2]),
//! };
//! let (a, b) = (Array::F32(vec![1.0, 2.0, 3.0, 4.0]), Array::F32(vec![10.0, 20.0]));
//! let sums = add.compute(&[a.values(), b.values()], 0..4, &|| false)?;
//! assert_eq!(sums, Some(Array::F32(vec![11.0, 22.0, 13.0, 24.0])));
//! # Ok::<(), reef_core::Error>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

mod op;
pub mod program;
pub mod tensor;

pub use op::rounding;
pub use op::{
    Activate, Bounds, Conv2d, Format, Function, Layout, Linear, MAX_ELEMENTS, MAX_SIZE, Multiply,
    Op, Operands, Operators, PackedInput, Pool2d, PoolKind, Quantization, Quantized, ScaleShift,
    Scratch, Storage, Tensor, TensorOperands, Window,
};
