//! `reef check`: which kernels of a file can be stopped, and which may run again.
//!
//! In comes a program, a library, a fatbin, a CUBIN or PTX; out goes a row for each kernel with
//! PTX, and the reasons. Nothing is executed and no driver is needed, but for a program with
//! `--exec`.

mod again;
mod names;
mod report;
pub(crate) mod run;
mod verdicts;
