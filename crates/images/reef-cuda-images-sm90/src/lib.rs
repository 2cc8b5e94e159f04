//! Kernels of REEF as machine code for compute capability 9.0 (Hopper).
//!
//! `cargo xtask kernels` makes the files from `kernels/*.cu`. `reef-cuda` chooses a package by the
//! device, and unpacks what it loads.

/// Images by the names of source and build, such as `network-guarded`: each is a CUBIN, packed
/// with zlib.
///
/// `hopper` has instructions that neither older nor newer devices have (sm_90a).
pub static IMAGES: &[(&str, &[u8])] = &[
    ("builtin-guarded", include_bytes!("../sm_90/builtin-guarded-sm_90.z")),
    ("builtin-plain", include_bytes!("../sm_90/builtin-plain-sm_90.z")),
    ("builtin-turns", include_bytes!("../sm_90/builtin-turns-sm_90.z")),
    ("hopper-guarded", include_bytes!("../sm_90a/hopper-guarded-sm_90a.z")),
    ("hopper-plain", include_bytes!("../sm_90a/hopper-plain-sm_90a.z")),
    ("hopper-turns", include_bytes!("../sm_90a/hopper-turns-sm_90a.z")),
    ("network-guarded", include_bytes!("../sm_90/network-guarded-sm_90.z")),
    ("network-plain", include_bytes!("../sm_90/network-plain-sm_90.z")),
    ("network-turns", include_bytes!("../sm_90/network-turns-sm_90.z")),
    ("quantized-guarded", include_bytes!("../sm_90/quantized-guarded-sm_90.z")),
    ("quantized-plain", include_bytes!("../sm_90/quantized-plain-sm_90.z")),
    ("tensor-guarded", include_bytes!("../sm_90/tensor-guarded-sm_90.z")),
    ("tensor-plain", include_bytes!("../sm_90/tensor-plain-sm_90.z")),
];
