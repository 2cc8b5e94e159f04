//! A software gfx906 under AMD's own runtime.
//!
//! The library takes the place of `libhsakmt.so.1`, the one part of AMD's stack that talks to the kernel
//! driver. Everything above it is AMD's: argument packing, streams, code objects, error codes.
//! Only tests use this.

pub mod isa;
