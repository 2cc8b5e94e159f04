//! Kernels that users bring: CUDA C++ that includes `reef.h`, compiled for the device at hand when
//! it is opened, and kept on disk.

use crate::code::nvrtc::{Nvrtc, Program, Target, options};
use crate::driver::BACKEND;
use crate::facts::Capability;
use reef_core::{Error, Result};
use reef_gpu::cache::{self, Cache, Key};
use reef_gpu::{Build, HIP_FLAVOUR_H, REEF_H};

/// Headers that `#include "reef.h"` and sources of programs find.
const HEADERS: [(&str, &str); 2] = [("reef.h", REEF_H), ("hip_flavour.h", HIP_FLAVOUR_H)];

/// Name of the source in the compiler's messages.
const NAME: &str = "kernel.cu";

/// Code of a user's source for a device of this capability, as `cuModuleLoadData` takes it.
///
/// # Errors
///
/// `Invalid` with the compiler's messages; `NotFound` without NVRTC; `Unsupported` if it is too new
/// or too old for the device.
pub(crate) fn compile_user(source: &str, capability: Capability, build: Build) -> Result<Vec<u8>> {
    compile(source, capability, build, &Cache::of_user())
}

fn compile(source: &str, capability: Capability, build: Build, cache: &Cache) -> Result<Vec<u8>> {
    let nvrtc = Nvrtc::get()?;
    let target = target(nvrtc.archs(), capability).ok_or_else(|| unsupported(nvrtc, capability))?;
    let options = options(build == Build::Guarded);
    let program = Program { name: NAME, source, headers: &HEADERS, options: &options, target };
    let (major, minor) = nvrtc.version();
    let compiler = format!("nvrtc {major}.{minor} {target}");
    let parts = cache::Program { name: NAME, source, headers: &HEADERS, options: &options };
    cache.get_or_make(Key::new(&compiler, &parts), || nvrtc.compile(&program))
}

/// Machine code where the compiler has this very GPU: it needs no driver as new as the compiler,
/// which PTX would. For a GPU that is newer than the compiler, the newest PTX.
fn target(archs: &[u32], capability: Capability) -> Option<Target> {
    let device = capability.number();
    if archs.contains(&device) {
        return Some(Target::Cubin(device));
    }
    archs.iter().copied().filter(|arch| *arch < device).max().map(Target::Ptx)
}

#[cold]
fn unsupported(nvrtc: &Nvrtc, capability: Capability) -> Error {
    let (major, minor) = nvrtc.version();
    let what = format!("NVRTC {major}.{minor} has no code for capability {capability}");
    Error::Unsupported { backend: BACKEND, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_newer_than_the_compiler_gets_ptx() {
        let archs = [50, 70, 75, 86, 90];
        assert_eq!(target(&archs, Capability::new(8, 6)), Some(Target::Cubin(86)));
        assert_eq!(target(&archs, Capability::new(8, 9)), Some(Target::Ptx(86)));
        assert_eq!(target(&archs, Capability::new(12, 0)), Some(Target::Ptx(90)));
        assert_eq!(target(&archs, Capability::new(3, 5)), None);
    }

    #[test]
    fn a_source_may_include_reef() {
        let source = "#include \"reef.h\"\nextern \"C\" __global__ void mine() {}\n";
        for build in [Build::Plain, Build::Guarded] {
            match compile(source, Capability::new(9, 0), build, &Cache::none()) {
                Ok(code) => assert_eq!(code[..4], *b"\x7fELF"),
                Err(Error::NotFound(text)) => return reef_conformance::skip(&text),
                Err(other) => panic!("{other}"),
            }
        }
    }
}
