//! Gives the library the name that programs of REEF's CUDA port are linked with.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        // Streams wait for words in the library, so it stays.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcudareef.so,-z,nodelete");
    }
}
