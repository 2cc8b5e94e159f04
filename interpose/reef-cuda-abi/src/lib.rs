//! The CUDA driver's interface as data, for libraries that stand in its place or call it.
//!
//! - **In**: headers of CUDA 11.8 to 13.5, from which `tools/interpose/names.py` makes the names.
//! - **Out**: names of functions, symbols by version, result codes, layouts of structs, and the
//!   texts that build programs write.
//! - **Invariant**: numbers and layouts are those of cuda.h. Nothing here calls the driver, and
//!   which functions a crate calls stands in its own table.

pub mod codes;
pub mod generate;
pub mod layouts;
pub mod memory_types;
mod tables;

pub use tables::{NAMES, PTSZ_SUFFIXES, VERSIONS, names, symbol};
