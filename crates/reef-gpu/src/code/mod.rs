//! Code on the device and its kernels.
//!
//! In: images and sources. Out: kernels, which keep their code loaded. Invariant: a kernel that
//! queues may stop has a guarded build whose first parameter is the guard.

pub(crate) mod builtin;
pub(crate) mod guard;
pub(crate) mod kernel;
pub(crate) mod loaded;
pub(crate) mod module;
