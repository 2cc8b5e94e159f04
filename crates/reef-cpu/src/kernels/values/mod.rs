//! Functions of values: of one at a time, and of a vector's.
//!
//! In and out: values in registers or in rows. Invariant: a vector of a function has the bits
//! of single values unless the function says how far it is off; and what is not a number stays
//! none.

pub(super) mod function;
pub(super) mod functions;
#[cfg(target_arch = "x86_64")]
pub(super) mod lanes;
#[cfg(target_arch = "x86_64")]
pub(super) mod register_epilogue;
pub(super) mod scalar;
#[cfg(target_arch = "x86_64")]
pub(super) mod sigmoid;
pub(super) mod simd;
