//! The device code that ships with the crate, so that nobody needs AMD's SDK.
//!
//! `cargo xtask kernels` makes the files from `kernels/*.cu`: for each source and build a code object of
//! version 4, which every runtime from HIP 5.2 on loads, for the processor that REEF is meant for, with any
//! setting of its memory. They are packed with zlib.

use crate::driver::BACKEND;
use crate::target::Target;
use reef_core::{Error, Result};
use reef_gpu::Build;

/// What the code objects are for.
const PROCESSOR: &str = "gfx906";

struct Source {
    /// Of its file, without the ending.
    name: &'static str,
    /// Packed.
    plain: &'static [u8],
    guarded: &'static [u8],
}

/// One for each `kernels/*.cu`.
const SOURCES: &[Source] = &[];

/// Code of this source for a device of this target, as `hipModuleLoadData` takes it. Unpacks it.
///
/// # Errors
///
/// `Unsupported` if nothing fits the device, `NotFound` if no source has this name.
pub(crate) fn find(name: &str, build: Build, device: &Target) -> Result<Vec<u8>> {
    let source = SOURCES
        .iter()
        .find(|source| source.name == name)
        .ok_or_else(|| Error::NotFound(format!("no device code {name:?}")))?;
    if device.processor != PROCESSOR {
        let what = format!("{} (have device code for {PROCESSOR})", device.processor);
        return Err(Error::Unsupported { backend: BACKEND, what });
    }
    Ok(unpack(match build {
        Build::Plain => source.plain,
        Build::Guarded => source.guarded,
    }))
}

fn unpack(packed: &[u8]) -> Vec<u8> {
    miniz_oxide::inflate::decompress_to_vec_zlib(packed).expect("a test unpacks each image")
}
