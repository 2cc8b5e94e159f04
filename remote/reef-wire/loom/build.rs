//! Sets `cfg(loom)` for this crate alone, so that no flags are needed to run the models.

fn main() {
    println!("cargo::rustc-cfg=loom");
    println!("cargo::rerun-if-changed=build.rs");
}
