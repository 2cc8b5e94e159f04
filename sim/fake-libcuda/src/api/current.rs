//! The context that is current in a thread.

use crate::engine::context::{Context, Kind, primary};
use crate::engine::world::World;
use reef_cuda_abi::codes::{CONTEXT_IS_DESTROYED, INVALID_CONTEXT};
use std::cell::Cell;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The thread's context.
pub(crate) fn current(world: &mut World) -> Result<Context, u32> {
    let handle = handle();
    if handle == 0 {
        return Err(INVALID_CONTEXT);
    }
    let context = world.contexts.get(&handle).copied();
    world.misuses += u64::from(context.is_none());
    context.ok_or(CONTEXT_IS_DESTROYED)
}

/// The handle of the thread's context; 0 if there is none.
pub(crate) fn handle() -> usize {
    CURRENT.get()
}

/// The handle of the context that has what the thread's has: of a green one the primary one.
pub(crate) fn owner(world: &World) -> usize {
    match world.contexts.get(&handle()) {
        Some(Context { kind: Kind::Green(_), device, .. }) => primary(*device),
        _ => handle(),
    }
}

pub(crate) fn set(handle: usize) {
    CURRENT.set(handle);
}
