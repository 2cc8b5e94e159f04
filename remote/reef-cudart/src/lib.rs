//! `libcudart.so.12` and `libcudart.so.13`: the CUDA runtime on functions of the driver.
//!
//! ```text
//! program ──▶ calls ──▶ driver (libcuda.so.1: the vendor's, or that of a remote device)
//!               └─ state: kernels and variables that the program has registered, threads, contexts
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `calls` | the runtime's functions |
//! | `state` | what is known: registered code, contexts |
//! | `thread` | the device and the last error of a thread |
//! | `driver` | the driver's functions, found at the first use |
//! | `refused` | functions that are not there, each of which says its name |
//!
//! *In*: calls of a program that was linked with `-cudart shared`. *Out*: calls of the driver.
//! *Invariant*: no driver is called before the program's first use of the device, so that a process
//! may fork before. A context that the program has made current stays current. Nothing is written
//! to the program's output.
//!
//! One library serves both releases: each name has a symbol version for either. Where a name means
//! another function since CUDA 13, the version decides. A look-up by `dlsym` finds that of 13.
//!
//! x86-64 Linux alone: elsewhere the library is empty.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod calls;
mod codes;
mod driver;
mod refused;
mod state;
mod thread;
mod types;

// Each exported name jumps to the function that stands for it, or to the one that refuses.
core::arch::global_asm!(include_str!(concat!(env!("OUT_DIR"), "/exports.s")));
