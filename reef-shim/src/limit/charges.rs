//! What each allocation of this process was charged with, so that its end gives that back.

use super::device::Limited;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// What a handle is: handles of different kinds may be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// An address.
    Memory,
    Array,
    Mipmapped,
    /// Code, with its global variables.
    Module,
    Library,
    /// With what its threads' stacks take, unless it is the first one.
    Context,
}

/// Of one allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    pub(crate) device: &'static Limited,
    pub(crate) bytes: u64,
    /// The context that it ends with.
    pub(crate) context: usize,
}

static CHARGES: LazyLock<Mutex<HashMap<(Kind, usize), Charge>>> = LazyLock::new(Mutex::default);

fn charges() -> MutexGuard<'static, HashMap<(Kind, usize), Charge>> {
    CHARGES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Notes an allocation.
pub(crate) fn note(kind: Kind, handle: usize, charge: Charge) {
    if let Some(former) = charges().insert((kind, handle), charge) {
        former.device.give_back(former.bytes); // it ended in a way that nobody saw
    }
}

/// Takes an allocation out that is about to end: its handle may be another's as soon as it has.
pub(crate) fn take(kind: Kind, handle: usize) -> Option<Charge> {
    charges().remove(&(kind, handle))
}

/// Returns whether there is something of a kind on a device.
pub(crate) fn has(kind: Kind, ordinal: i32) -> bool {
    charges().iter().any(|((of, _), charge)| *of == kind && charge.device.ordinal == ordinal)
}

/// Gives back all that ended with a context.
pub(crate) fn end_context(context: usize) {
    let mut gone = Vec::new();
    charges().retain(|_, charge| {
        let stays = charge.context != context;
        if !stays {
            gone.push(*charge);
        }
        stays
    });
    gone.iter().for_each(|charge| charge.device.give_back(charge.bytes));
}
