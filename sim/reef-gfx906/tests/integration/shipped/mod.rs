//! The code for gfx906 that ships with reef-hip does what its sources say, and stops when it is
//! told to.

mod builtin;
mod convolution;
mod depthwise;
mod guard;
mod layers;
mod params;

use crate::common::Kernel;
use std::path::Path;

/// A kernel of kernels/`source`.cu.
fn shipped(source: &str, build: &str, name: &str) -> Kernel {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reef-hip/images");
    let packed =
        std::fs::read(images.join(format!("{source}-{build}-gfx906.z"))).expect("is there");
    let code = miniz_oxide::inflate::decompress_to_vec_zlib(&packed).expect("is whole");
    Kernel::load(&code, name)
}
