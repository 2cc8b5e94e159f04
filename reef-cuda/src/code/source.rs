//! Kernels that users bring: CUDA C++ that includes `reef.h`, compiled for the device at hand when
//! it is opened, and kept on disk.

use crate::code::nvrtc::{Nvrtc, Program, Target, options};
use crate::driver::BACKEND;
use reef_core::{Error, Result};
use reef_gpu::cache::{self, Cache, Key};
use reef_gpu::{Build, HIP_FLAVOUR_H, REEF_H};

/// What `#include "reef.h"` finds, and what sources of programs include.
const HEADERS: [(&str, &str); 2] = [("reef.h", REEF_H), ("hip_flavour.h", HIP_FLAVOUR_H)];

/// How the compiler's messages name the source.
const NAME: &str = "kernel.cu";

/// Code of a user's source for a device of this capability, as `cuModuleLoadData` takes it.
///
/// # Errors
///
/// `Invalid` with the compiler's messages; `NotFound` without NVRTC; `Unsupported` if it is too new
/// or too old for the device.
pub(crate) fn compile_user(source: &str, capability: (u32, u32), build: Build) -> Result<Vec<u8>> {
    compile(source, capability, build, &Cache::of_user())
}

fn compile(source: &str, capability: (u32, u32), build: Build, cache: &Cache) -> Result<Vec<u8>> {
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
fn target(archs: &[u32], (major, minor): (u32, u32)) -> Option<Target> {
    let device = major * 10 + minor;
    if archs.contains(&device) {
        return Some(Target::Cubin(device));
    }
    archs.iter().copied().filter(|arch| *arch < device).max().map(Target::Ptx)
}

#[cold]
fn unsupported(nvrtc: &Nvrtc, (major, minor): (u32, u32)) -> Error {
    let (of_major, of_minor) = nvrtc.version();
    let what = format!("NVRTC {of_major}.{of_minor} has no code for capability {major}.{minor}");
    Error::Unsupported { backend: BACKEND, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_newer_than_the_compiler_gets_ptx() {
        let archs = [50, 70, 75, 86, 90];
        assert_eq!(target(&archs, (8, 6)), Some(Target::Cubin(86)));
        assert_eq!(target(&archs, (8, 9)), Some(Target::Ptx(86)));
        assert_eq!(target(&archs, (12, 0)), Some(Target::Ptx(90)));
        assert_eq!(target(&archs, (3, 5)), None);
    }

    #[test]
    fn a_source_may_include_reef() {
        let source = "#include \"reef.h\"\nextern \"C\" __global__ void mine() {}\n";
        for build in [Build::Plain, Build::Guarded] {
            match compile(source, (9, 0), build, &Cache::none()) {
                Ok(code) => assert_eq!(code[..4], *b"\x7fELF"),
                Err(Error::NotFound(text)) => return eprintln!("skipped: {text}"),
                Err(other) => panic!("{other}"),
            }
        }
    }
}
