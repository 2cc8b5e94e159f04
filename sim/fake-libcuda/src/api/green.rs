//! Green contexts: views of a primary context, which they retain.

use super::context::number_of;
use super::export::{give, plain};
use crate::engine::context::{Kind, primary};
use crate::engine::world::{Stream, World, world};
use reef_cuda_abi::codes::*;

plain! {
    cuGreenCtxCreate(context: *mut usize, resources: usize, device: i32, flags: u32) = create;
    cuGreenCtxDestroy(context: usize) = destroy;
    cuCtxFromGreenCtx(to: *mut usize, context: usize) = convert;
    cuGreenCtxStreamCreate(stream: *mut usize, context: usize, flags: u32, priority: i32) = create_stream;
}

/// The handle of the context that a green one is for calls that want a context.
fn of(world: &World, green: usize) -> Option<usize> {
    let is_it = |kind: Kind| kind == Kind::Green(green);
    world.contexts.iter().find(|(_, context)| is_it(context.kind)).map(|(handle, _)| *handle)
}

unsafe fn create(context: *mut usize, _resources: usize, device: i32, _flags: u32) -> u32 {
    let device = match number_of(device) {
        Ok(device) => device,
        Err(code) => return code,
    };
    let mut world = world();
    world.retain(device);
    let green = world.handle() + 8;
    world.create_context(device, Kind::Green(green));
    // SAFETY: cuGreenCtxCreate demands that `context` may be written; null is left out.
    unsafe { give(context, green) };
    SUCCESS
}

/// Ends a green context without a wait: its streams run what they have, and take nothing more.
unsafe fn destroy(context: usize) -> u32 {
    let mut world = world();
    let Some(handle) = of(&world, context) else { return INVALID_CONTEXT };
    let device = world.contexts[&handle].device;
    world.end_context(handle).into_iter().for_each(|id| world.detach(id));
    let over = world.release(primary(device));
    drop(world);
    super::context::finish(over)
}

unsafe fn convert(to: *mut usize, context: usize) -> u32 {
    let Some(handle) = of(&world(), context) else { return INVALID_CONTEXT };
    // SAFETY: cuCtxFromGreenCtx demands that `to` may be written; null is left out.
    unsafe { give(to, handle) };
    SUCCESS
}

unsafe fn create_stream(stream: *mut usize, context: usize, _flags: u32, _priority: i32) -> u32 {
    let mut world = world();
    let Some(handle) = of(&world, context) else { return INVALID_CONTEXT };
    let context = world.contexts[&handle].id;
    let handle = world.add_stream(Stream { context, ..Stream::default() });
    // SAFETY: cuGreenCtxStreamCreate demands that `stream` may be written; null is left out.
    unsafe { give(stream, handle) };
    SUCCESS
}
