//! `libnvidia-ml.so.1` for programs with a limit of memory: NVIDIA's library, except for how much
//! memory a device has and what processes have of it.
//!
//! Every function is exported. Most are a jump into the real library (`slots`); some are `answers`,
//! which call it and put the limit (`limit`) in the place of more, and `nvmlErrorString`: the one
//! that answers with no code. Codes of errors are the real library's. Nothing happens when the
//! library is loaded, and without a limit it answers as the real one.
//!
//! x86-64 Linux alone: elsewhere the library is empty.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod answers;
mod limit;
mod real;
mod slots;
