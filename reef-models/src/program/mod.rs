//! Networks that bring their kernels as source, as REEF publishes them.
//!
//! In: a schedule (`NAME.json`), sources in HIP C++ (`NAME.cu`), and weights (`NAME.param`) or
//! none. Out: a [`ProgramModel`](model::ProgramModel), the text of a
//! [`Program`](reef_op::program::Program) for its caller to trust, and on a device a
//! [`Network`](crate::Network).
//!
//! Invariants: a kernel is called with as many pointers as it has parameters, in one geometry; what
//! it writes is read from its text where that tells, else from its name. Guards are put into a
//! source only if it is proved that its blocks may be stopped ([`proof`]); all others stay as they
//! are, for queues that stop nothing midway.

mod exchange;
pub(crate) mod folder;
mod guard;
mod kernels;
pub(crate) mod model;
pub(crate) mod network;
mod proof;
mod source;
mod token;
mod uses;

pub use folder::is_program;
