//! Copies between host and device.

use super::caller::{Caller, CallingThread};
use crate::state::shared::Request;
use crate::state::shared::Shared;
use crate::state::staging::Block;
use reef_cuda_abi::codes::{INVALID_CONTEXT, INVALID_VALUE, NOT_READY, NOT_SUPPORTED};
use reef_remote_calls::{Call, Kind, MAX_PIECE_LEN, ToDevice, ToHost};
use reef_wire::{Hot, Result};
use std::time::{Duration, Instant};

/// Time for which the executor checks whether a copy has ended before a waiter does.
const SPIN: Duration = Duration::from_micros(20);

/// Begins a copy to the device. A client that waits is answered when it has ended.
pub(crate) fn to_device(
    caller: &mut Caller,
    lane: CallingThread,
    request: Request,
    copy: &ToDevice,
    bytes: &[u8],
) {
    let shared = caller.shared.clone();
    if !shared.has(copy.to.get(), bytes.len() as u64) {
        return shared.answer(request, INVALID_VALUE, &[]);
    }
    let begun = begin(caller, lane, copy.stream.get(), bytes.len(), |block, stream| {
        block.bytes()[..bytes.len()].copy_from_slice(bytes);
        let to = copy.to.get() as usize;
        // SAFETY: pinned memory of this length, which stays until the event behind the copy, and
        // memory of the program's on the device.
        unsafe {
            shared.driver.functions.to_device.call([to, block.address(), bytes.len(), stream])
        }
    });
    match begun {
        Err(code) => shared.answer(request, code, &[]),
        Ok(block) if request.wants_reply => finish(caller, lane, request, block, 0),
        Ok(block) => shared.staging.give_later(block),
    }
}

/// Copies from the device, and answers with the bytes.
///
/// # Errors
///
/// `Protocol` for a body that cannot be.
pub(crate) fn to_host(
    caller: &mut Caller,
    lane: CallingThread,
    request: Request,
    body: &[u8],
) -> Result<()> {
    let (copy, _) = ToHost::split(body)?;
    let shared = caller.shared.clone();
    let len = copy.bytes.get() as usize;
    if len > MAX_PIECE_LEN || !shared.has(copy.from.get(), len as u64) {
        shared.answer(request, INVALID_VALUE, &[]);
        return Ok(());
    }
    let begun = begin(caller, lane, copy.stream.get(), len, |block, stream| {
        let from = copy.from.get() as usize;
        // SAFETY: pinned memory of `len` bytes, which stays until the event behind the copy.
        // `shared.has` has checked the program's memory on the device.
        unsafe { shared.driver.functions.to_host.call([block.address(), from, len, stream]) }
    });
    match begun {
        Err(code) => shared.answer(request, code, &[]),
        Ok(block) => finish(caller, lane, request, block, len),
    }
    Ok(())
}

/// Begins a copy by way of a block, with the block's event behind it.
fn begin(
    caller: &mut Caller,
    lane: CallingThread,
    stream: u64,
    len: usize,
    copy: impl FnOnce(&mut Block, usize) -> u32,
) -> Result<Block, u32> {
    if lane.handle == 0 {
        return Err(INVALID_CONTEXT); // its blocks have ended with it, or are about to
    }
    let stream = caller.resolve(lane, Kind::Stream, stream)?;
    let shared = &caller.shared;
    let mut status = 0_u32;
    let asks = shared.driver.of(Call::cuStreamIsCapturing);
    // SAFETY: a stream of the driver's, and a place for a number.
    let code = unsafe { asks.call([stream, &raw mut status as usize]) };
    if code == 0 && status != 0 {
        return Err(NOT_SUPPORTED); // the graph would copy from memory of this process
    }
    let mut block = shared.staging.take(&shared.driver, lane.context, len)?;
    let code = match copy(&mut block, stream) {
        0 => {
            // SAFETY: an event and a stream of the driver's.
            unsafe { shared.driver.of(Call::cuEventRecord).call([block.event, stream]) }
        }
        code => code,
    };
    match code {
        0 => Ok(block),
        code => {
            shared.staging.give(block);
            Err(code)
        }
    }
}

/// Answers when the block's event has passed.
fn finish(caller: &Caller, lane: CallingThread, request: Request, block: Block, len: usize) {
    let shared = &caller.shared;
    let (query, begin) = (shared.driver.of(Call::cuEventQuery), Instant::now());
    loop {
        // SAFETY: an event of the driver's.
        match unsafe { query.call([block.event]) } {
            NOT_READY if caller.is_idle() && begin.elapsed() < SPIN => {}
            NOT_READY => break,
            code => return answer(shared, request, block, len, code),
        }
    }
    shared.wait_for(lane.handle, move |shared| {
        // SAFETY: an event of the driver's, which `block` owns until `answer` gives the block back.
        let code = unsafe { shared.driver.of(Call::cuEventSynchronize).call([block.event]) };
        answer(shared, request, block, len, code);
    });
}

fn answer(shared: &Shared, request: Request, mut block: Block, len: usize, code: u32) {
    let len = if code == 0 { len } else { 0 };
    shared.answer(request, code, &block.bytes()[..len]);
    shared.staging.give(block);
}
