//! Contexts: their stack is the thread's own, and is kept here.

use super::export::{check, give, plain};
use super::table::table;
use crate::refused::refuse;
use crate::session::session;
use crate::state::leases::Leases;
use crate::state::lock::lock;
use crate::state::thread::contexts;
use crate::state::thread::in_thread;
use reef_cuda_abi::codes::*;
use reef_remote_calls::{Call, TableCall};
use reef_wire::little_endian::{U16, U32};
use reef_wire::{Hot, hot_bytes};
use std::collections::BTreeMap;
use std::sync::Mutex;

plain! {
    cuCtxCreate_v2(context: *mut u64, flags: u32, device: i32) = create;
    cuCtxCreate_v3(context: *mut u64, params: usize, count: i32, flags: u32, device: i32) = create_with;
    cuCtxCreate_v4(context: *mut u64, params: usize, flags: u32, device: i32) = create_with_params;
    cuCtxDestroy_v2(context: u64) = destroy;
    cuCtxAttach(context: *mut u64, flags: u32) = attach;
    cuCtxDetach(context: u64) = detach;
    cuCtxPushCurrent_v2(context: u64) = push;
    cuCtxPopCurrent_v2(context: *mut u64) = pop;
    cuCtxSetCurrent(context: u64) = set;
    cuCtxGetCurrent(context: *mut u64) = current;
    cuCtxGetDevice(device: *mut i32) = device;
    cuDevicePrimaryCtxRetain(context: *mut u64, device: i32) = retain;
    cuDevicePrimaryCtxRelease(device: i32) = release;
    cuDevicePrimaryCtxRelease_v2(device: i32) = release;
    cuDevicePrimaryCtxReset(device: i32) = reset;
    cuDevicePrimaryCtxReset_v2(device: i32) = reset;
}

unsafe fn create(context: *mut u64, flags: u32, device: i32) -> Result<(), u32> {
    let args = [context as usize, flags as usize, device as usize];
    // SAFETY: cuCtxCreate demands that `context` is null or may be written. The other arguments are
    // numbers.
    unsafe { table(Call::cuCtxCreate_v2, false, &args) }?;
    // SAFETY: the call has written there.
    let new = unsafe { context.read() };
    contexts().insert(new, device);
    in_thread(|thread| thread.stack.borrow_mut().push(new))
}

unsafe fn create_with(
    context: *mut u64,
    params: usize,
    count: i32,
    flags: u32,
    device: i32,
) -> Result<(), u32> {
    if params != 0 && count != 0 {
        return Err(refuse(c"cuCtxCreate_v3 with a share of the device"));
    }
    // SAFETY: cuCtxCreate_v3 demands that `context` is null or may be written. `params` is not
    // read.
    unsafe { create(context, flags, device) }
}

/// `CUctxCreateParams`. After the number there is padding, which a program needn't write.
#[repr(C)]
struct CreateParams {
    shares: usize,
    count: i32,
    graphics: usize,
}

unsafe fn create_with_params(
    context: *mut u64,
    params: usize,
    flags: u32,
    device: i32,
) -> Result<(), u32> {
    // SAFETY: cuCtxCreate_v4 demands a `CUctxCreateParams` at `params`.
    let params = unsafe { (params as *const CreateParams).as_ref() };
    if params.is_some_and(|given| (given.shares, given.count, given.graphics) != (0, 0, 0)) {
        return Err(refuse(c"cuCtxCreate_v4 with parameters"));
    }
    // SAFETY: cuCtxCreate_v4 demands that `context` is null or may be written.
    unsafe { create(context, flags, device) }
}

fn destroy(context: u64) -> Result<(), u32> {
    if !contexts().contains_key(&context) {
        return Err(INVALID_CONTEXT);
    }
    // SAFETY: no addresses.
    unsafe { table(Call::cuCtxDestroy_v2, false, &[context as usize]) }?;
    contexts().remove(&context);
    Leases::end_context(context);
    lock(&ATTACHED).retain(|known| *known != context);
    in_thread(|thread| {
        if thread.context() == context {
            thread.stack.borrow_mut().pop();
        }
    })
}

/// Contexts that were attached to, once for each time.
static ATTACHED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

unsafe fn attach(context: *mut u64, flags: u32) -> Result<(), u32> {
    let current = in_thread(|thread| thread.context())?;
    check_known(current)?;
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    // SAFETY: cuCtxAttach demands that `context` is null or may be written; `give` refuses null.
    unsafe { give(context, current) }?;
    lock(&ATTACHED).push(current);
    Ok(())
}

/// Ends one attachment, or the context if it has none.
fn detach(context: u64) -> Result<(), u32> {
    if in_thread(|thread| thread.context())? != context {
        return Err(INVALID_CONTEXT);
    }
    let mut attached = lock(&ATTACHED);
    match attached.iter().position(|known| *known == context) {
        Some(at) => {
            attached.swap_remove(at);
            Ok(())
        }
        None => {
            drop(attached);
            destroy(context)
        }
    }
}

fn check_known(context: u64) -> Result<u64, u32> {
    session()?;
    let is_known = contexts().contains_key(&context);
    if is_known { Ok(context) } else { Err(INVALID_CONTEXT) }
}

fn push(context: u64) -> Result<(), u32> {
    let context = check_known(context)?;
    in_thread(|thread| thread.stack.borrow_mut().push(context))
}

unsafe fn pop(context: *mut u64) -> Result<(), u32> {
    let last = in_thread(|thread| thread.stack.borrow_mut().pop())?.ok_or(INVALID_CONTEXT)?;
    if !context.is_null() {
        // SAFETY: not null, and cuCtxPopCurrent demands that `context` may be written.
        unsafe { context.write(last) };
    }
    Ok(())
}

fn set(context: u64) -> Result<(), u32> {
    let context = if context == 0 { 0 } else { check_known(context)? };
    in_thread(|thread| thread.set_context(context))
}

unsafe fn current(context: *mut u64) -> Result<(), u32> {
    session()?;
    // SAFETY: cuCtxGetCurrent demands that `context` is null or may be written; `give` refuses
    // null.
    unsafe { give(context, in_thread(|thread| thread.context())?) }
}

unsafe fn device(device: *mut i32) -> Result<(), u32> {
    session()?;
    let context = in_thread(|thread| thread.context())?;
    let of = contexts().get(&context).copied().ok_or(INVALID_CONTEXT)?;
    // SAFETY: cuCtxGetDevice demands that `device` is null or may be written; `give` refuses null.
    unsafe { give(device, of) }
}

/// Primary contexts that were retained, by their devices.
static PRIMARIES: Mutex<BTreeMap<i32, u64>> = Mutex::new(BTreeMap::new());

unsafe fn retain(context: *mut u64, device: i32) -> Result<(), u32> {
    let args = [context as usize, device as usize];
    // SAFETY: cuDevicePrimaryCtxRetain demands that `context` is null or may be written. The device
    // is a number.
    unsafe { table(Call::cuDevicePrimaryCtxRetain, false, &args) }?;
    // SAFETY: the call has written there.
    let context = unsafe { context.read() };
    contexts().insert(context, device);
    lock(&PRIMARIES).insert(device, context);
    Ok(())
}

fn release(device: i32) -> Result<(), u32> {
    end_primary(Call::cuDevicePrimaryCtxRelease_v2, device)
}

fn reset(device: i32) -> Result<(), u32> {
    end_primary(Call::cuDevicePrimaryCtxReset_v2, device)
}

/// Makes a call that may end a primary context. The reply is 1 if it has: its memory ended as well.
fn end_primary(call: Call, device: i32) -> Result<(), u32> {
    let head =
        TableCall { call: U16::new(call as u16), reserved: U16::new(0), reserved2: U32::new(0) };
    let word = u64::from(device as u32).to_le_bytes();
    let (code, reply) = session()?.call(TableCall::OP, &[hot_bytes(&head), &word])?;
    check(code)?;
    if reply.first() == Some(&1) {
        let context = lock(&PRIMARIES).get(&device).copied();
        context.into_iter().for_each(Leases::end_context);
    }
    Ok(())
}
