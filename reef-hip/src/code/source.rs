//! Kernels that users bring: HIP or CUDA C++ that includes `reef.h`, compiled for the device at
//! hand when it is opened, and kept on disk.

use crate::code::hiprtc::Hiprtc;
use crate::code::target::Target;
use crate::driver::Version;
use reef_core::Result;
use reef_gpu::cache::{Cache, Key, Program};
use reef_gpu::{Build, HIP_FLAVOUR_H, REEF_H};

/// Headers that `#include "reef.h"` and sources of programs find.
const HEADERS: [(&str, &str); 2] = [("reef.h", REEF_H), ("hip_flavour.h", HIP_FLAVOUR_H)];

/// Name of the source in the compiler's messages.
const NAME: &str = "kernel.hip";

/// Code of a user's source for this device, as `hipModuleLoadData` takes it. The compiler tells
/// nothing of its version, so the runtime's stands for it.
///
/// # Errors
///
/// `Invalid` with the compiler's messages; `NotFound` without hipRTC.
pub(crate) fn compile_user(
    source: &str,
    device: &Target,
    runtime: Version,
    build: Build,
) -> Result<Vec<u8>> {
    compile(source, device, runtime, build, &Cache::of_user())
}

fn compile(
    source: &str,
    device: &Target,
    runtime: Version,
    build: Build,
    cache: &Cache,
) -> Result<Vec<u8>> {
    let hiprtc = Hiprtc::get()?;
    let target = format!("--offload-arch={device}");
    let guard = if build == Build::Guarded { "-DREEF_GUARDED=1" } else { "-DREEF_GUARDED=0" };
    let options = ["-std=c++17", "-O3", guard, &target];
    let program = Program { name: NAME, source, headers: &HEADERS, options: &options };
    let key = Key::new(&format!("hiprtc {runtime}"), &program);
    cache.get_or_make(key, || hiprtc.compile(&program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::elf::CodeObject;
    use reef_core::Error;

    #[test]
    fn a_source_may_include_reef() {
        let source = "#include \"reef.h\"\n\
            extern \"C\" __global__ void mine(reef::Guard guard) { REEF_CLAIM(block, guard); }\n";
        let device = Target::parse("gfx906:sramecc+:xnack-").unwrap();
        let runtime = Version::from(50221153);
        for build in [Build::Plain, Build::Guarded] {
            match compile(source, &device, runtime, build, &Cache::none()) {
                Ok(code) => {
                    let code = CodeObject::parse(&code).unwrap();
                    code.check(&device, Version::from(70152801)).unwrap();
                    assert_eq!(code.kernels()[0].parameters(), [72], "the guard");
                }
                Err(Error::NotFound(text)) => return reef_conformance::skip(&text),
                Err(other) => panic!("{other}"),
            }
        }
    }
}
