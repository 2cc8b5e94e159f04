//! Operations of networks become launches of kernels/network.cu.
//!
//! In: an operation of [`reef_op`], and where its tensors lie. Out: the launches that compute it,
//! which keep their buffers. Invariant: every address that a kernel is given lies inside a
//! buffer, because [`operand`] checks each tensor once, and no launch is made of anything but a
//! `BoundOp`.

mod activation;
mod build;
mod convolution;
mod depthwise;
mod element;
mod map;
mod operand;
mod pack;
mod params;
mod pointwise;
mod pool;
mod program;
mod site;
mod tensor;
mod tiles;
