//! `libnvidia-ml.so.1` for programs with a limit of memory: NVIDIA's library, except for the memory
//! of a device and of its processes.
//!
//! Every function is exported. Most are a jump into the real library (`slots`). The `answers` call
//! it and replace memory above the limit (`limit`) by the limit. `nvmlErrorString` is the only one
//! that doesn't return a code. Codes of errors are the real library's. Nothing happens when the
//! library is loaded, and without a limit it answers as the real one.
//!
//! x86-64 Linux alone: elsewhere the library is empty.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod answers;
mod limit;
mod real;
mod slots;
