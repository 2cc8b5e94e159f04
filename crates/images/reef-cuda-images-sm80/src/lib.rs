//! Kernels of REEF as PTX for compute capabilities from 8.0 on, which the driver compiles.
//!
//! `cargo xtask kernels` makes the files from `kernels/*.cu`. `reef-cuda` chooses a package by the
//! device, and unpacks what it loads.

/// Images by the names of source and build, such as `network-guarded`: each is PTX that ends with a
/// NUL, packed with zlib.
pub static IMAGES: &[(&str, &[u8])] = &[
    ("builtin-guarded", include_bytes!("../compute_80/builtin-guarded-compute_80.z")),
    ("builtin-plain", include_bytes!("../compute_80/builtin-plain-compute_80.z")),
    ("builtin-turns", include_bytes!("../compute_80/builtin-turns-compute_80.z")),
    ("network-guarded", include_bytes!("../compute_80/network-guarded-compute_80.z")),
    ("network-plain", include_bytes!("../compute_80/network-plain-compute_80.z")),
    ("network-turns", include_bytes!("../compute_80/network-turns-compute_80.z")),
    ("quantized-guarded", include_bytes!("../compute_80/quantized-guarded-compute_80.z")),
    ("quantized-plain", include_bytes!("../compute_80/quantized-plain-compute_80.z")),
    ("tensor-guarded", include_bytes!("../compute_80/tensor-guarded-compute_80.z")),
    ("tensor-plain", include_bytes!("../compute_80/tensor-plain-compute_80.z")),
];
