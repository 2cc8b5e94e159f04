//! Memory of the session's window, which the client divides into allocations.

use super::caller::{Caller, CallingThread};
use crate::reader::Reader;
use crate::state::lock::lock;
use crate::state::shared::{Request, Shared};
use reef_cuda_abi::codes::{INVALID_CONTEXT, NOT_SUPPORTED, OUT_OF_MEMORY};
use reef_remote_calls::{Call, FreeLeased, Kind, Lease};
use reef_wire::{Hot, Result};

/// Maps memory for the lane's context. The result is its first address and its bytes.
///
/// # Errors
///
/// `Protocol` for a body that cannot be.
pub(crate) fn lease(caller: &Caller, lane: CallingThread, body: &[u8]) -> Result<(u32, Vec<u8>)> {
    let lease = Lease::split(body)?.0;
    let (least, wished) = (lease.least.get(), lease.wished.get());
    let shared = &caller.shared;
    let mapped = device(shared, lane).and_then(|device| {
        let mut window = lock(&shared.window);
        let window = window.as_mut().ok_or(NOT_SUPPORTED)?;
        let mut map = |bytes| Ok((window.lease(&shared.driver, device, bytes)?, bytes));
        match map(wished.max(least)) {
            Err(OUT_OF_MEMORY) if wished > least => map(least),
            other => other,
        }
    });
    Ok(match mapped {
        Ok((at, bytes)) => (0, [at.to_le_bytes(), bytes.to_le_bytes()].concat()),
        Err(code) => (code, Vec::new()),
    })
}

/// The lane's context and its device.
fn device(shared: &Shared, lane: CallingThread) -> Result<(u64, i32), u32> {
    let mut device = 0_i32;
    if lane.handle == 0 {
        return Err(INVALID_CONTEXT);
    }
    // SAFETY: a place for a number.
    match unsafe { shared.driver.functions.context_device.call([&raw mut device as usize]) } {
        0 => Ok((lane.context, device)),
        code => Err(code),
    }
}

/// Waits as a free does, and ends leases, on a waiter.
///
/// # Errors
///
/// `Protocol` for a body that cannot be.
pub(crate) fn free(
    caller: &Caller,
    lane: CallingThread,
    request: Request,
    body: &[u8],
) -> Result<()> {
    let (free, rest) = FreeLeased::split(body)?;
    let (context, mut rest) = (free.context.get(), Reader(rest));
    let mut ends = Vec::new();
    while !rest.0.is_empty() {
        ends.push(rest.word()?);
    }
    caller.shared.wait_with(lane.handle, vec![context], move |shared| {
        let code = wait(shared, lane, context);
        if let (0, Some(window)) = (code, &mut *lock(&shared.window)) {
            ends.into_iter().for_each(|at| window.unmap(&shared.driver, at));
        }
        shared.answer(request, code, &[]);
    });
    Ok(())
}

/// Waits for what a free of the driver's waits for: by a free of a small allocation that is made
/// for it. The context that the allocation was of may be another one than the lane's.
fn wait(shared: &Shared, lane: CallingThread, context: u64) -> u32 {
    let driver = &shared.driver;
    let of = lock(&shared.handles).get(Kind::Context, context).unwrap_or(lane.handle);
    let mut at = 0_usize;
    driver.set_context(of);
    // SAFETY: a place for an address.
    let code = unsafe { driver.of(Call::cuMemAlloc_v2).call([&raw mut at as usize, 1]) };
    driver.set_context(lane.handle);
    // SAFETY: the allocation of a moment ago, or numbers alone.
    unsafe {
        match code {
            0 => driver.of(Call::cuMemFree_v2).call([at]),
            OUT_OF_MEMORY => driver.of(Call::cuCtxSynchronize).call([]),
            code => code,
        }
    }
}
