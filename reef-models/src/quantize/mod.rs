//! Networks in numbers of 8 bits: ranges of their storages, and the layouts that follow from them.
//!
//! ```text
//! images ── ranges, on a device ──► Scales ◄──► a file
//!                                       └── plan, for a device ──► ImageModel
//! ```
//!
//! In: a network for images, and images that are like those that it will see. Out: [`Scales`],
//! and the same network with layouts of 8 bits where a device's kernels take them.
//!
//! Invariant: all tensors of a storage have one layout. Input and output of the network keep
//! theirs, and storages that residuals and pools tie together have one scale.

mod file;
pub(crate) mod plan;
pub(crate) mod probes;
pub(crate) mod scales;
mod storages;

pub use scales::Scales;
