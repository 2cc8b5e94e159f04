//! Programs that use the runtime, of our compiler and of the vendor's.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod programs;
#[path = "../support/mod.rs"]
mod support;
mod vendor;
