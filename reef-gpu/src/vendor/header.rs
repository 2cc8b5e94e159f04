//! The headers that kernels of users include.

/// `reef.h`, the same for both vendors.
///
/// It is a file of this package, a link to the one in `kernels/`, so that a package from a registry
/// is whole.
pub const REEF_H: &str = include_str!("../../include/reef.h");

/// What kernels of programs include in the place of `hip/hip_runtime.h`; it includes `reef.h`.
pub const HIP_FLAVOUR_H: &str = include_str!("../../include/hip_flavour.h");
