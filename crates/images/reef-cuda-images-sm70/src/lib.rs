//! Kernels of REEF as machine code for compute capabilities 7.0 and 7.5 (Volta, Turing).
//!
//! `cargo xtask kernels` makes the files from `kernels/*.cu`. `reef-cuda` chooses a package by the
//! device, and unpacks what it loads.

/// Images by the names of source and build, such as `network-guarded`: each is a CUBIN, packed
/// with zlib.
pub static IMAGES: &[(&str, &[u8])] = &[
    ("builtin-guarded", include_bytes!("../sm_70/builtin-guarded-sm_70.z")),
    ("builtin-plain", include_bytes!("../sm_70/builtin-plain-sm_70.z")),
    ("builtin-turns", include_bytes!("../sm_70/builtin-turns-sm_70.z")),
    ("network-guarded", include_bytes!("../sm_70/network-guarded-sm_70.z")),
    ("network-plain", include_bytes!("../sm_70/network-plain-sm_70.z")),
    ("network-turns", include_bytes!("../sm_70/network-turns-sm_70.z")),
    ("quantized-guarded", include_bytes!("../sm_70/quantized-guarded-sm_70.z")),
    ("quantized-plain", include_bytes!("../sm_70/quantized-plain-sm_70.z")),
    ("tensor-guarded", include_bytes!("../sm_70/tensor-guarded-sm_70.z")),
    ("tensor-plain", include_bytes!("../sm_70/tensor-plain-sm_70.z")),
];
