//! Images for NVIDIA's GPUs, with NVIDIA's compilers of a fixed version.
//!
//! ```text
//! source ─NVRTC→ PTX ─ptxas→ CUBIN ─zlib→ crates/images/PACKAGE/TARGET/NAME-BUILD-TARGET.z
//!                      └─messages→ crates/images/resources.txt
//! ```

mod compile;
pub(crate) mod make;
mod resources;
mod table;
mod target;
mod toolchain;
