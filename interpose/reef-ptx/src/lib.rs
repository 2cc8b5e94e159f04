//! Device code of CUDA programs: its kernels, whether they may be stopped or run again, and
//! variants that can be stopped.
//!
//! In go the bytes of a file or of a driver's load call ([`Image`]). Out come PTX texts, their
//! kernels ([`kernels`]), a [`Verdict`] with reasons for each, and its [`Variant`] as text.
//!
//! There is no driver here, no global state and no thread. What is not understood is refused with
//! a reason. A variant differs from its kernel by inserted text alone.

#![forbid(unsafe_code)]

mod error;
mod flow;
pub mod image;
mod kernel;
pub mod text;
pub mod variant;
pub mod verdict;

#[cfg(any(test, feature = "interpret"))]
#[doc(hidden)]
pub mod interpret;

pub use error::Error;
pub use image::Image;
pub use kernel::{Kernel, kernels};
pub use text::Module;
pub use variant::Variant;
pub use verdict::Verdict;
