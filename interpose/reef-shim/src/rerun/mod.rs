//! Runs kernels of the program again, to see whether they may: `reef check --exec`.
//!
//! *In*: launches of kernels. *Out*: the same launches, and a file with a line for each kernel.
//! *Invariant*: after a checked launch the memory of its parameters is what it left the first time.
//!
//! 1. The device is idle, and the memory of the launch's parameters is copied to the host
//!    (`memory`).
//! 2. The kernel runs: *once*. It runs on the first copy again: another result is noise, such as
//!    that of atomic sums of floats.
//! 3. It runs on its own result: *twice*. Another result than once: it is not idempotent.
//! 4. It runs on the first copy by a part of its blocks, then as a whole. Another result: it is not
//!    idempotent after a part.
//!
//! A few launches of each grid are checked (`findings`). What differs is a counter-example; no
//! difference proves nothing for other inputs and grids.
//!
//! Nothing of this is done without `REEF_RERUN=FILE`.

pub(crate) mod check;
mod findings;
mod memory;
mod report;
