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

/// A source of device code that ships with a backend, as the images of its builds.
#[derive(Debug)]
pub struct ShippedSource<I> {
    /// Name of its file, without the ending.
    pub name: &'static str,
    /// Images of the plain build.
    pub plain: I,
    /// Images of the guarded build.
    pub guarded: I,
    /// Images of the guarded build whose blocks take turns, if there is one.
    pub turns: Option<I>,
}

impl<I> ShippedSource<I> {
    /// Finds the source of this name.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none.
    pub fn find<'a>(sources: &'a [Self], name: &str) -> Result<&'a Self> {
        let source = sources.iter().find(|source| source.name == name);
        source.ok_or_else(|| Error::NotFound(format!("no device code {name:?}")))
    }

    /// Images of a build.
    pub fn build(&self, build: Build) -> &I {
        match build {
            Build::Plain => &self.plain,
            Build::Guarded => &self.guarded,
        }
    }
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
