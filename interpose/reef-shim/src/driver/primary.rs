//! Primary contexts of devices: their handles, the references that the program has, and green
//! contexts, which have the memory of primary ones.

use super::calls;
use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Mutex, MutexGuard};

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

/// Green context: a reference to the primary context of its device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GreenContext {
    pub(crate) ordinal: i32,
    pub(crate) primary: usize,
    /// Its handle as a context.
    context: usize,
}

/// Green contexts by their handles, which are none of contexts.
static GREEN: Mutex<BTreeMap<usize, GreenContext>> = Mutex::new(BTreeMap::new());
/// Number of green contexts: without any, the current context takes no lock.
static GREEN_COUNT: AtomicUsize = AtomicUsize::new(0);

fn with_green<T>(change: impl FnOnce(&mut BTreeMap<usize, GreenContext>) -> T) -> T {
    let mut green: MutexGuard<'_, _> =
        GREEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let result = change(&mut green);
    GREEN_COUNT.store(green.len(), Relaxed);
    result
}

/// Notes a green context of a device. Returns the primary one, which it retains. `None`: the driver
/// doesn't say.
pub(crate) fn add_green(green: usize, ordinal: i32) -> Option<usize> {
    let (mut primary, mut context) = (0, 0);
    if calls::retain_primary(&mut primary, ordinal) != Some(0) {
        return None;
    }
    let _ = calls::release_primary(ordinal); // it was retained for its handle alone
    of(ordinal).into_iter().for_each(|of| of.handle.store(primary, Relaxed));
    let is_known = calls::context_of_green(&mut context, green) == Some(0);
    let context = if is_known { context } else { primary };
    put_green(green, GreenContext { ordinal, primary, context });
    Some(primary)
}

/// Notes a green context, or that it has not ended.
pub(crate) fn put_green(green: usize, of: GreenContext) {
    with_green(|all| all.insert(green, of));
}

/// Removes a green context that is about to end: afterwards another one may get its handle.
pub(crate) fn take_green(green: usize) -> Option<GreenContext> {
    with_green(|all| all.remove(&green))
}

/// Returns the context that has what is allocated now: while a green one is current, the primary
/// one.
pub(crate) fn owner() -> usize {
    let context = calls::context();
    if GREEN_COUNT.load(Relaxed) == 0 {
        return context;
    }
    with_green(|all| {
        let green = all.values().find(|green| green.context == context);
        green.map_or(context, |green| green.primary)
    })
}

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

pub(crate) fn remove_references(ordinal: i32) {
    of(ordinal).into_iter().for_each(|primary| primary.references.store(0, SeqCst));
}
