//! The device code that ships with the backend, so that no user needs NVIDIA's SDK.
//!
//! `cargo xtask kernels` makes it from `kernels/*.cu`: for each source and build machine code for
//! the GPUs that REEF is measured on, and PTX for those that none of it fits, which the driver
//! compiles when it loads. `hopper` is for compute capability 9.0 alone. The files of each kind of
//! GPU are a package in `crates/images/`. They are packed with zlib, which makes them about a
//! fourth as long.

use crate::driver::BACKEND;
use crate::facts::Capability;
use reef_core::{Error, Result};
use reef_gpu::{Build, ShippedImages};
use reef_ptx::image::load_form;

/// Compute capabilities that the machine code is for, rising.
const CUBINS: [Capability; 3] =
    [Capability::new(7, 0), Capability::new(8, 6), Capability::new(9, 0)];
/// The least capability that the PTX can be compiled for.
const PTX: Capability = Capability::new(8, 0);
/// Source of one capability alone, by instructions that neither older nor newer devices have:
/// `kernels/hopper.cu`.
const OWN: (&str, Capability) = ("hopper", Capability::new(9, 0));

/// Code of this source for a device of this capability, as `cuModuleLoadData` takes it. Unpacks it.
///
/// # Errors
///
/// `Unsupported` if nothing fits the device, `NotFound` if no source has this name.
pub(crate) fn find(name: &str, build: Build, capability: Capability) -> Result<Vec<u8>> {
    reef_gpu::find_image(images(name, capability)?, name, build)
}

/// As [`find`], of the build whose blocks take turns; `None` if the source has none.
///
/// # Errors
///
/// Returns the errors of [`find`].
pub(crate) fn find_turns(name: &str, capability: Capability) -> Result<Option<Vec<u8>>> {
    reef_gpu::find_turns(images(name, capability)?, name)
}

/// Images of the package that has a device's code of this source.
fn images(name: &str, device: Capability) -> Result<ShippedImages> {
    let (own, only) = OWN;
    if name == own && device != only {
        return Err(unsupported_by(name, only, device));
    }
    choose(device).map(Choice::images).ok_or_else(|| unsupported(device))
}

/// An image as `cuModuleLoadData` takes it, which is told no length: a CUBIN or a fatbin that is
/// all there, or PTX, which ends with a NUL.
///
/// # Errors
///
/// `Invalid` if it is none of these, is cut off, or names what lies outside of it.
pub(crate) fn check(image: &[u8]) -> Result<Vec<u8>> {
    match load_form(image) {
        Ok(image) => Ok(image.into_owned()),
        Err(error) => Err(Error::invalid("image", error.to_string())),
    }
}

/// Image that fits a device best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// The index in `CUBINS`.
    Cubin(usize),
    Ptx,
}

impl Choice {
    fn images(self) -> ShippedImages {
        let cubins: [ShippedImages; CUBINS.len()] = [
            reef_cuda_images_sm70::IMAGES,
            reef_cuda_images_sm86::IMAGES,
            reef_cuda_images_sm90::IMAGES,
        ];
        match self {
            Self::Cubin(at) => cubins[at],
            Self::Ptx => reef_cuda_images_sm80::IMAGES,
        }
    }
}

/// Machine code runs on its own major capability, from its own minor one upwards.
fn choose(device: Capability) -> Option<Choice> {
    let fits = |code: &Capability| code.major == device.major && code.minor <= device.minor;
    match CUBINS.iter().rposition(fits) {
        Some(at) => Some(Choice::Cubin(at)),
        None => (device >= PTX).then_some(Choice::Ptx),
    }
}

fn unsupported_by(name: &str, only: Capability, device: Capability) -> Error {
    let what = format!("{name}: device code for compute capability {only} alone, got {device}");
    Error::Unsupported { backend: BACKEND, what }
}

fn unsupported(device: Capability) -> Error {
    let have = CUBINS.map(|capability| capability.to_string()).join(", ");
    let what = format!(
        "compute capability {device} (have device code for {have}, and for any from {PTX} on)"
    );
    Error::Unsupported { backend: BACKEND, what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_gpu::unpack;
    use std::path::PathBuf;

    /// `EM_CUDA`.
    const CUDA: u16 = 190;

    #[test]
    fn a_device_gets_the_best_code_that_fits() {
        let rows = [
            ((7, 0), Some(Choice::Cubin(0))),
            ((7, 5), Some(Choice::Cubin(0))),
            ((8, 0), Some(Choice::Ptx)), // code for 8.6 doesn't run on 8.0
            ((8, 6), Some(Choice::Cubin(1))),
            ((8, 9), Some(Choice::Cubin(1))),
            ((9, 0), Some(Choice::Cubin(2))),
            ((10, 0), Some(Choice::Ptx)),
            ((12, 1), Some(Choice::Ptx)),
            ((6, 1), None),
        ];
        for ((major, minor), choice) in rows {
            let capability = Capability::new(major, minor);
            assert_eq!(choose(capability), choice, "{capability}");
        }
    }

    #[test]
    fn each_image_is_what_its_name_says() {
        for (at, capability) in CUBINS.iter().enumerate() {
            for (name, packed) in Choice::Cubin(at).images() {
                let elf = unpack(packed);
                assert_eq!(elf[..4], *b"\x7fELF", "{name}");
                assert_eq!(u16::from_le_bytes([elf[18], elf[19]]), CUDA, "{name}");
                let arch = u32::from(elf[48]);
                assert_eq!(arch, capability.number(), "{name}: the ELF flags hold the arch");
                assert_eq!(check(&elf), Ok(elf), "{name}");
            }
        }
        for (name, packed) in Choice::Ptx.images() {
            let image = unpack(packed);
            assert_eq!(check(&image), Ok(image.clone()), "{name}");
            let ptx = String::from_utf8(image).expect("PTX is text");
            assert!(ptx.contains(".target sm_80") && ptx.ends_with('\0'), "{name}");
        }
    }

    #[test]
    fn packages_have_the_same_sources_and_builds() {
        let names = |choice: Choice| {
            let all = choice.images().iter().map(|(name, _)| *name);
            all.filter(|name| !name.starts_with(OWN.0)).collect::<Vec<_>>()
        };
        for (at, capability) in CUBINS.iter().enumerate() {
            assert_eq!(names(Choice::Cubin(at)), names(Choice::Ptx), "{capability}");
        }
    }

    #[test]
    fn every_file_is_used() {
        let packages = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/images");
        let mut folders = vec![PathBuf::from(packages)];
        let mut count = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                count += usize::from(path.extension().is_some_and(|ending| ending == "z"));
                if path.is_dir() {
                    folders.push(path);
                }
            }
        }
        let cubins = (0..CUBINS.len()).map(Choice::Cubin);
        let all = cubins.chain([Choice::Ptx]).map(|choice| choice.images().len());
        assert_eq!(count, all.sum::<usize>());
    }

    #[test]
    fn own_image_is_for_its_capability_alone() {
        let (name, only) = OWN;
        for build in [Build::Plain, Build::Guarded] {
            let elf = find(name, build, only).unwrap();
            assert_eq!(u32::from(elf[48]), only.number(), "the ELF flags hold the arch");
            assert_eq!(check(&elf), Ok(elf));
        }
        assert!(find_turns(name, only).unwrap().is_some());
        for (major, minor) in [(7, 0), (8, 0), (8, 6), (8, 9), (9, 1), (10, 0), (12, 1)] {
            let other = Capability::new(major, minor);
            let error = find(name, Build::Plain, other).unwrap_err();
            assert_eq!(find_turns(name, other).unwrap_err(), error);
            let want = format!(
                "cuda: unsupported: hopper: device code for compute capability 9.0 alone, got {other}"
            );
            assert_eq!(error.to_string(), want);
        }
    }

    #[test]
    fn an_old_device_is_told_what_there_is() {
        let error = find("builtin", Build::Plain, Capability::new(6, 1)).unwrap_err().to_string();
        assert_eq!(
            error,
            "cuda: unsupported: compute capability 6.1 (have device code for 7.0, 8.6, 9.0, and for \
             any from 8.0 on)"
        );
    }

    #[test]
    fn unknown_source_is_an_error_with_its_name() {
        let capability = Capability::new(9, 0);
        let error = find("nothing", Build::Plain, capability).unwrap_err();
        assert_eq!(error, Error::NotFound("no device code \"nothing\"".into()));
        assert_eq!(find_turns("nothing", capability).unwrap_err(), error);
    }

    #[test]
    fn source_without_turns_has_no_such_image() {
        for capability in [(7, 0), (8, 0), (9, 0)].map(|(a, b)| Capability::new(a, b)) {
            assert!(find_turns("builtin", capability).unwrap().is_some());
            assert_eq!(find_turns("tensor", capability), Ok(None));
        }
    }

    #[test]
    fn file_that_is_not_an_image_is_refused() {
        for image in [b"".as_slice(), b"GIF89a", b"\x7fEL", b"//", b".v", b"\xff\xfe"] {
            let error = check(image).unwrap_err().to_string();
            assert_eq!(error, "image: this is neither a CUBIN nor a fatbin nor PTX");
        }
    }

    /// All kinds of images that there are: what ships, and what a tool of NVIDIA's has packed.
    fn images() -> Vec<Vec<u8>> {
        let builtin =
            |major, minor| find("builtin", Build::Plain, Capability::new(major, minor)).unwrap();
        let shipped = [builtin(7, 0), builtin(9, 0), builtin(8, 0)];
        let fatbin = include_bytes!("../../../interpose/reef-ptx/tests/bump.fatbin").to_vec();
        shipped.into_iter().chain([fatbin, fatbin_of(&builtin(8, 6))]).collect()
    }

    /// A fatbin with one entry of machine code that is not compressed.
    fn fatbin_of(elf: &[u8]) -> Vec<u8> {
        let mut entry = [0; 64];
        entry[..8].copy_from_slice(&[2, 0, 1, 1, 64, 0, 0, 0]);
        entry[8..16].copy_from_slice(&(elf.len() as u64).to_le_bytes());
        let size = (entry.len() + elf.len()) as u64;
        let magic = 0xba55_ed50_u32.to_le_bytes();
        [&magic, &[1, 0, 16, 0], &size.to_le_bytes()[..], &entry, elf].concat()
    }

    #[test]
    fn image_that_is_cut_off_anywhere_is_refused() {
        for image in images().iter().filter(|image| !image.starts_with(b"//")) {
            check(image).unwrap();
            let step = (image.len() / 997).max(1);
            for length in (0..image.len()).step_by(step).chain([image.len() - 1]) {
                let checked = check(&image[..length]);
                assert!(matches!(checked, Err(Error::Invalid(_))), "{length} of {}", image.len());
            }
        }
    }

    proptest::proptest! {
        /// An image that passes reads nothing outside: the checks ran over it, and nothing
        /// panicked.
        #[test]
        fn garbled_images_are_refused_or_whole(
            which in 0..5usize,
            changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), 0..=255u8, 0..4u8), 1..12),
            cut in proptest::prelude::any::<proptest::sample::Index>(),
        ) {
            let mut image = images().swap_remove(which);
            for (at, value, kind) in changes {
                // Headers stand in the first bytes and, of a CUBIN, at the end.
                let near = at.index(256.min(image.len()));
                let at = match kind {
                    0 => near,
                    1 => image.len() - 1 - near,
                    _ => at.index(image.len()),
                };
                image[at] = value;
            }
            let _ = check(&image);
            let _ = check(&image[..cut.index(image.len())]);
        }
    }
}
