//! Primary contexts of devices: their handles, and the references that the program has.

use super::calls;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};

/// Primary context of a device, as far as the program retained it.
#[derive(Debug)]
struct Primary {
    handle: AtomicUsize,
    /// References that were seen. The driver may have others, of libraries that call it otherwise.
    references: AtomicUsize,
}

static PRIMARY: [Primary; 16] =
    [const { Primary { handle: AtomicUsize::new(0), references: AtomicUsize::new(0) } }; 16];

fn of(ordinal: i32) -> Option<&'static Primary> {
    PRIMARY.get(usize::try_from(ordinal).ok()?)
}

/// Returns the handle of a device's primary context. `None`: the program wasn't seen to retain it.
pub(crate) fn handle(ordinal: i32) -> Option<usize> {
    of(ordinal).map(|primary| primary.handle.load(Relaxed)).filter(|handle| *handle != 0)
}

/// Returns whether anything retains it, as far as the driver says.
pub(crate) fn is_active(ordinal: i32) -> bool {
    let (mut flags, mut is_active) = (0, 1);
    calls::primary_state(ordinal, &mut flags, &mut is_active) != Some(0) || is_active != 0
}

/// Notes a reference.
pub(crate) fn add_reference(ordinal: i32, handle: usize) {
    if let Some(primary) = of(ordinal) {
        primary.handle.store(handle, Relaxed);
        primary.references.fetch_add(1, SeqCst);
    }
}

/// Notes that a reference is released. Returns whether others are left for certain.
pub(crate) fn remove_reference(ordinal: i32) -> bool {
    let less = |references: usize| references.checked_sub(1);
    let before = of(ordinal).map(|primary| primary.references.fetch_update(SeqCst, SeqCst, less));
    matches!(before, Some(Ok(2..)))
}

/// Notes that no reference is left.
pub(crate) fn remove_references(ordinal: i32) {
    of(ordinal).into_iter().for_each(|primary| primary.references.store(0, SeqCst));
}
