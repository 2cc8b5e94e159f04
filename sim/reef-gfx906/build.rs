//! Gives the library the name under which AMD's runtime looks for the driver interface.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libhsakmt.so.1");
}
