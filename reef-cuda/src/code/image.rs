//! The device code that ships with the crate, so that no user needs NVIDIA's SDK.
//!
//! `cargo xtask kernels` makes the files from `kernels/*.cu`: for each source and build machine
//! code for the GPUs that REEF is measured on, and PTX for those that none of it fits, which the
//! driver compiles when it loads. `hopper` is for compute capability 9.0 alone. They are packed
//! with zlib, which makes them about a fourth as long.

use crate::driver::BACKEND;
use crate::facts::Capability;
use reef_core::{Error, Result};
use reef_gpu::{Build, ShippedSource, unpack};
use reef_ptx::image::load_form;

/// Compute capabilities that the machine code is for, rising.
const CUBINS: [Capability; 3] =
    [Capability::new(7, 0), Capability::new(8, 6), Capability::new(9, 0)];
/// The least capability that the PTX can be compiled for.
const PTX: Capability = Capability::new(8, 0);

/// The files of one build, packed.
struct Images {
    /// Machine code, in the order of `CUBINS`.
    cubins: [&'static [u8]; CUBINS.len()],
    ptx: &'static [u8],
}

macro_rules! packed {
    ($name:literal, $build:literal, $target:literal) => {
        include_bytes!(concat!("../../images/", $name, "-", $build, "-", $target, ".z"))
    };
}

macro_rules! images {
    ($name:literal, $build:literal) => {
        Images {
            cubins: [
                packed!($name, $build, "sm_70"),
                packed!($name, $build, "sm_86"),
                packed!($name, $build, "sm_90"),
            ],
            ptx: packed!($name, $build, "compute_80"),
        }
    };
}

macro_rules! source {
    ($name:literal, $turns:expr) => {
        ShippedSource {
            name: $name,
            plain: images!($name, "plain"),
            guarded: images!($name, "guarded"),
            turns: $turns,
        }
    };
}

/// Sources of one capability alone, by instructions that neither older nor newer devices have:
/// `kernels/hopper.cu`.
const OWN: (Capability, ShippedSource<&[u8]>) = (
    Capability::new(9, 0),
    ShippedSource {
        name: "hopper",
        plain: packed!("hopper", "plain", "sm_90a"),
        guarded: packed!("hopper", "guarded", "sm_90a"),
        turns: Some(packed!("hopper", "turns", "sm_90a")),
    },
);

/// One for each other `kernels/*.cu`.
const SOURCES: &[ShippedSource<Images>] = &[
    source!("builtin", Some(images!("builtin", "turns"))),
    source!("network", Some(images!("network", "turns"))),
    source!("quantized", None),
    source!("tensor", None),
];

/// Code of this source for a device of this capability, as `cuModuleLoadData` takes it. Unpacks it.
///
/// # Errors
///
/// `Unsupported` if nothing fits the device, `NotFound` if no source has this name.
pub(crate) fn find(name: &str, build: Build, capability: Capability) -> Result<Vec<u8>> {
    match own(name, capability)? {
        Some(source) => Ok(unpack(source.build(build))),
        None => ShippedSource::find(SOURCES, name)?.build(build).find(capability),
    }
}

/// The source that a device of this capability alone has, if this is its name.
fn own(name: &str, device: Capability) -> Result<Option<&'static ShippedSource<&'static [u8]>>> {
    let (only, source) = &OWN;
    if source.name != name {
        return Ok(None);
    }
    let fits = *only == device;
    fits.then_some(Some(source)).ok_or_else(|| unsupported_by(name, *only, device))
}

/// As [`find`], of the build whose blocks take turns; `None` if the source has none.
///
/// # Errors
///
/// As [`find`].
pub(crate) fn find_turns(name: &str, capability: Capability) -> Result<Option<Vec<u8>>> {
    if let Some(source) = own(name, capability)? {
        return Ok(source.turns.map(unpack));
    }
    let turns = ShippedSource::find(SOURCES, name)?.turns.as_ref();
    turns.map(|images| images.find(capability)).transpose()
}

impl Images {
    fn find(&self, capability: Capability) -> Result<Vec<u8>> {
        match choose(capability) {
            Some(Choice::Cubin(at)) => Ok(unpack(self.cubins[at])),
            Some(Choice::Ptx) => Ok(unpack(self.ptx)),
            None => Err(unsupported(capability)),
        }
    }
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
        Err(error) => Err(Error::Invalid(format!("{BACKEND}: {error}"))),
    }
}

/// Image that fits a device best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// The index in `CUBINS`.
    Cubin(usize),
    Ptx,
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
        for images in SOURCES
            .iter()
            .flat_map(|source| [Some(&source.plain), Some(&source.guarded), source.turns.as_ref()])
            .flatten()
        {
            for (capability, packed) in CUBINS.iter().zip(images.cubins) {
                let elf = unpack(packed);
                assert_eq!(elf[..4], *b"\x7fELF");
                assert_eq!(u16::from_le_bytes([elf[18], elf[19]]), CUDA);
                assert_eq!(u32::from(elf[48]), capability.number(), "the ELF flags hold the arch");
            }
            let packed = images.cubins.into_iter().chain([images.ptx]);
            packed.for_each(|packed| assert_eq!(check(&unpack(packed)), Ok(unpack(packed))));
            let ptx = String::from_utf8(unpack(images.ptx)).expect("PTX is text");
            assert!(ptx.contains(".target sm_80") && ptx.ends_with('\0'));
        }
    }

    #[test]
    fn every_file_is_used() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/images");
        let files = std::fs::read_dir(folder).unwrap();
        let packed = files
            .filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == "z"));
        let turns = SOURCES.iter().filter(|source| source.turns.is_some()).count();
        let own = 2 + usize::from(OWN.1.turns.is_some());
        assert_eq!(packed.count(), (SOURCES.len() * 2 + turns) * (CUBINS.len() + 1) + own);
    }

    #[test]
    fn own_image_is_for_its_capability_alone() {
        let (only, name) = (OWN.0, OWN.1.name);
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
        let error = find("nothing", Build::Plain, Capability::new(9, 0)).unwrap_err();
        assert_eq!(error, Error::NotFound("no device code \"nothing\"".into()));
    }

    #[test]
    fn file_that_is_not_an_image_is_refused() {
        for image in [b"".as_slice(), b"GIF89a", b"\x7fEL", b"//", b".v", b"\xff\xfe"] {
            let error = check(image).unwrap_err().to_string();
            assert_eq!(error, "cuda: this is neither a CUBIN nor a fatbin nor PTX");
        }
    }

    /// All kinds of images that there are: what ships, and what a tool of NVIDIA's has packed.
    fn images() -> Vec<Vec<u8>> {
        let Images { cubins, ptx } = SOURCES[0].plain;
        let shipped = [cubins[0], cubins[2], ptx].map(unpack);
        let fatbin = include_bytes!("../../../interpose/reef-ptx/tests/bump.fatbin").to_vec();
        shipped.into_iter().chain([fatbin, fatbin_of(&unpack(cubins[1]))]).collect()
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
