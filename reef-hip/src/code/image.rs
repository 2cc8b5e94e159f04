//! The device code that ships with the crate, so that no user needs AMD's SDK.
//!
//! `cargo xtask kernels` makes the files from `kernels/*.cu`: for each source and build a code
//! object of version 4, which every runtime from HIP 5.2 on loads, for the processor that REEF is
//! meant for, with any setting of its memory. They are packed with zlib.

use crate::code::target::Target;
use crate::driver::BACKEND;
use reef_core::{Error, Result};
use reef_gpu::{Build, ShippedImages};

/// Processor that the code objects are for.
const PROCESSOR: &str = "gfx906";

macro_rules! packed {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../images/", $name, "-gfx906.z")))
    };
}

/// Builds of each `kernels/*.cu` that is for all GPUs.
const IMAGES: ShippedImages = &[
    packed!("builtin-guarded"),
    packed!("builtin-plain"),
    packed!("builtin-turns"),
    packed!("network-guarded"),
    packed!("network-plain"),
    packed!("tensor-guarded"),
    packed!("tensor-plain"),
];

/// Code of this source for a device of this target, as `hipModuleLoadData` takes it. Unpacks it.
///
/// # Errors
///
/// `Unsupported` if nothing fits the device, `NotFound` if no source has this name.
pub(crate) fn find(name: &str, build: Build, device: &Target) -> Result<Vec<u8>> {
    reef_gpu::find_image(images(device)?, name, build)
}

/// As [`find`], of the build whose blocks take turns; `None` if the source has none.
///
/// # Errors
///
/// Returns the errors of [`find`].
pub(crate) fn find_turns(name: &str, device: &Target) -> Result<Option<Vec<u8>>> {
    reef_gpu::find_turns(images(device)?, name)
}

fn images(device: &Target) -> Result<ShippedImages> {
    if device.processor != PROCESSOR {
        let what = format!("{} (have device code for {PROCESSOR})", device.processor);
        return Err(Error::Unsupported { backend: BACKEND, what });
    }
    Ok(IMAGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::elf::CodeObject;
    use crate::driver::Version;

    const SOURCES: [&str; 3] = ["builtin", "network", "tensor"];

    fn mi50() -> Target {
        Target::parse("gfx906:sramecc+:xnack-").unwrap()
    }

    #[test]
    fn each_image_loads_with_the_oldest_runtime() {
        for source in SOURCES {
            for build in [Build::Plain, Build::Guarded] {
                let image = find(source, build, &mi50()).unwrap();
                let code = CodeObject::parse(&image).unwrap();
                assert_eq!(code.check(&mi50(), Version::from(50221153)), Ok(()));
                assert!(!code.kernels().is_empty(), "{source} says what its kernels take");
            }
        }
    }

    #[test]
    fn both_builds_of_a_source_have_the_same_kernels() {
        for source in SOURCES {
            let [plain, guarded] = [Build::Plain, Build::Guarded].map(|build| {
                let image = find(source, build, &mi50()).unwrap();
                let kernels = CodeObject::parse(&image).unwrap().kernels();
                let mut all: Vec<_> =
                    kernels.iter().map(|k| (k.name.clone(), k.parameters())).collect();
                all.sort();
                all
            });
            assert_eq!(plain, guarded, "{source}");
        }
    }

    #[test]
    fn every_file_is_used() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/images");
        let files = std::fs::read_dir(folder).unwrap();
        let packed = files
            .filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == "z"));
        assert_eq!(packed.count(), IMAGES.len());
    }

    #[test]
    fn source_without_turns_has_no_such_image() {
        assert!(find_turns("builtin", &mi50()).unwrap().is_some());
        assert_eq!(find_turns("network", &mi50()), Ok(None));
        let error = find_turns("nothing", &mi50()).unwrap_err();
        assert_eq!(error, Error::NotFound("no device code \"nothing\"".into()));
    }

    #[test]
    fn another_device_is_told_what_there_is() {
        let other = Target::parse("gfx90a:xnack-").unwrap();
        let error = find("builtin", Build::Plain, &other).unwrap_err().to_string();
        assert_eq!(error, "hip: unsupported: gfx90a (have device code for gfx906)");
        let error = find("nothing", Build::Plain, &mi50()).unwrap_err();
        assert_eq!(error, Error::NotFound("no device code \"nothing\"".into()));
    }
}
