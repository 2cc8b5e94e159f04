//! The library on the fake driver, each program in a process of its own, and its tables. The other
//! test files are programs of their own, because they are guests themselves.

#![allow(clippy::disallowed_methods)] // of files that the tests have written

#[path = "../common/mod.rs"]
mod common;
mod ends;
mod fake;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod image;
/// Sizes, for the files of the library that [`pools`] has.
#[allow(dead_code)] // the library uses more of them
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../../src/limit"]
mod limit {
    pub(crate) mod sizes;
}
mod loader;
mod pools;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod rerun;
mod treatments;
