//! Images for NVIDIA's GPUs, with NVIDIA's compilers of a fixed version.
//!
//! ```text
//! source ─NVRTC→ PTX ─ptxas→ CUBIN, resources ─zlib→ reef-cuda/images/NAME-BUILD-TARGET.z
//! ```

mod compile;
pub(crate) mod make;
mod resources;
mod table;
mod target;
mod toolchain;
