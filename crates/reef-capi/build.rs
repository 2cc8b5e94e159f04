//! Gives the shared library the name that programs look for: `libreef.so.` and the first number of
//! its interface.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        // Threads of devices run in the library, so it stays, also when a program closes it.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libreef.so.0,-z,nodelete");
    }
}
