//! Gives the library the driver's name, and exports the names that it doesn't play as functions
//! that say so.

include!("../../interpose/reef-shim/generate.rs");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../interpose/reef-shim/generate.rs");
    println!("cargo::rerun-if-changed=src/api");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1,-Bsymbolic");
    let (names, played) =
        (driver_names("../../interpose/reef-shim/names.txt"), played(Path::new("src/api")));
    let others = names.iter().filter(|name| !played.contains(*name));
    write("stubs.rs", stubs(others, "crate::api::code::NOT_SUPPORTED"));
}
