//! Device code: its builds, its packing, and the headers that kernels of users include.

use reef_core::{Error, Result};

/// One of the two builds of each kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// Runs to its end once started, at no cost. Serves real-time work.
    Plain,
    /// Stops when told to and says which blocks have run.
    Guarded,
}

/// Images that ship for one kind of GPU, packed with zlib, by the names of source and build:
/// `network-plain`, `network-guarded` and, where blocks of the guarded build take turns,
/// `network-turns`.
pub type ShippedImages = &'static [(&'static str, &'static [u8])];

/// The build that each source has.
const PLAIN: &str = "plain";

/// Finds a source's image of this build, and unpacks it.
///
/// # Errors
///
/// `NotFound` if no source has this name.
///
/// # Panics
///
/// As [`unpack`].
pub fn find_image(images: ShippedImages, source: &str, build: Build) -> Result<Vec<u8>> {
    let build = match build {
        Build::Plain => PLAIN,
        Build::Guarded => "guarded",
    };
    find(images, source, build).map(unpack).ok_or_else(|| no_source(source))
}

/// Finds a source's image of the build whose blocks take turns, and unpacks it; `None` if the
/// source has no such build.
///
/// # Errors
///
/// `NotFound` if no source has this name.
///
/// # Panics
///
/// As [`unpack`].
pub fn find_turns(images: ShippedImages, source: &str) -> Result<Option<Vec<u8>>> {
    match find(images, source, "turns") {
        None if find(images, source, PLAIN).is_none() => Err(no_source(source)),
        packed => Ok(packed.map(unpack)),
    }
}

fn find(images: ShippedImages, source: &str, build: &str) -> Option<&'static [u8]> {
    let wanted = format!("{source}-{build}");
    images.iter().find(|(name, _)| *name == wanted).map(|(_, packed)| *packed)
}

fn no_source(name: &str) -> Error {
    Error::NotFound(format!("no device code {name:?}"))
}

/// Unpacks device code that ships with a backend, packed with zlib.
///
/// # Panics
///
/// If it isn't whole: backends test that each file of theirs is.
pub fn unpack(packed: &[u8]) -> Vec<u8> {
    miniz_oxide::inflate::decompress_to_vec_zlib(packed).expect("a test unpacks each image")
}

/// `reef.h`, the same for both vendors.
///
/// It is a file of this package, a link to the one in `kernels/`, so that a package from a registry
/// is whole.
pub const REEF_H: &str = include_str!("../../include/reef.h");

/// Header that kernels of programs include instead of `hip/hip_runtime.h`; it includes `reef.h`.
pub const HIP_FLAVOUR_H: &str = include_str!("../../include/hip_flavour.h");
