//! Device code: its builds, its packing, and the headers that kernels of users include.

/// Which of the two builds of each kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// Runs to its end once started, at no cost. Serves real-time work.
    Plain,
    /// Stops when told to and says which blocks have run.
    Guarded,
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

/// What kernels of programs include in the place of `hip/hip_runtime.h`; it includes `reef.h`.
pub const HIP_FLAVOUR_H: &str = include_str!("../../include/hip_flavour.h");
