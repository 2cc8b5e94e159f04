//! Gives the library the driver's name, and exports the names that it doesn't play as functions
//! that say so.

use reef_cuda_abi::generate::{played, stubs, write};
use reef_cuda_abi::names;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/api");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1,-Bsymbolic");
    let played = played(Path::new("src/api"));
    let others = names().filter(|name| !played.contains(*name));
    write("stubs.rs", stubs(others, "reef_cuda_abi::codes::NOT_SUPPORTED"));
}
