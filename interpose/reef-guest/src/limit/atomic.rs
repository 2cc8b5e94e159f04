//! Atomics of this protocol, which loom replaces in its models.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
