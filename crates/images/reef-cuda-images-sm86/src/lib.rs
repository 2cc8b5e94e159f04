//! Kernels of REEF as machine code for compute capabilities 8.6 to 8.9 (Ampere, Ada Lovelace).
//!
//! `cargo xtask kernels` makes the files from `kernels/*.cu`. `reef-cuda` chooses a package by the
//! device, and unpacks what it loads.

/// Images by the names of source and build, such as `network-guarded`: each is a CUBIN, packed
/// with zlib.
pub static IMAGES: &[(&str, &[u8])] = &[
    ("builtin-guarded", include_bytes!("../sm_86/builtin-guarded-sm_86.z")),
    ("builtin-plain", include_bytes!("../sm_86/builtin-plain-sm_86.z")),
    ("builtin-turns", include_bytes!("../sm_86/builtin-turns-sm_86.z")),
    ("network-guarded", include_bytes!("../sm_86/network-guarded-sm_86.z")),
    ("network-plain", include_bytes!("../sm_86/network-plain-sm_86.z")),
    ("network-turns", include_bytes!("../sm_86/network-turns-sm_86.z")),
    ("quantized-guarded", include_bytes!("../sm_86/quantized-guarded-sm_86.z")),
    ("quantized-plain", include_bytes!("../sm_86/quantized-plain-sm_86.z")),
    ("tensor-guarded", include_bytes!("../sm_86/tensor-guarded-sm_86.z")),
    ("tensor-plain", include_bytes!("../sm_86/tensor-plain-sm_86.z")),
];
