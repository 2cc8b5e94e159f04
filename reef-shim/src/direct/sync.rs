//! Waiting, and the ends of streams and contexts.

use super::quietly::quietly;
use crate::bind::state::Inside;
use crate::guest::capture;
use crate::guest::contexts;
use crate::guest::entries;
use crate::guest::streams::{STREAMS, key};
use crate::own::calls::{self, Stream};

/// Waits for a stream: all that it was given before has ended then.
pub(crate) fn stream(stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    let known = quietly(|| {
        let slot = STREAMS.find(key(context_for(stream), stream))?;
        let state = STREAMS.get(slot)?;
        Some((state, state.issued()))
    });
    let code = real();
    if let (0, Some((state, issued))) = (code, known) {
        state.synced(issued);
        quietly(|| {
            entries::any(Some(calls::context())).map(|(_, context)| context.device.waited())
        });
    }
    code
}

/// The context that a stream's key needs.
fn context_for(stream: Stream) -> usize {
    if stream.is_default() { calls::context() } else { 0 }
}

/// Waits for a context; zero is the current one. What other threads launch meanwhile is left out by looking at the guest's
/// launches.
pub(crate) fn context(of: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    let known = quietly(|| {
        let (_, context) = entries::any(Some(if of == 0 { calls::context() } else { of }))?;
        let device = context.device;
        let is_of_use = device.is_real_time() || device.meter.is_some();
        is_of_use.then(|| (device, device.launches()))
    });
    let code = real();
    if let (0, Some((device, launches))) = (code, known)
        && device.launches() == launches
    {
        let its = STREAMS.iter().filter(|(slot, ..)| device.owns(*slot));
        its.for_each(|(_, _, state)| state.synced(state.issued()));
        quietly(|| device.waited());
    }
    code
}

/// Destroys a stream: its handle may come back as another's.
pub(crate) fn destroy_stream(stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    if !stream.is_default() {
        STREAMS.free(key(0, stream));
        capture::settle();
    }
    real()
}

/// Ends a context, or all of a device: with its gate open, because it waits for all work.
pub(crate) fn end_context(name: Option<usize>, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    let ending = entries::any(name).map(|(_, context)| context.device);
    contexts::forget(name);
    capture::settle();
    ending.inspect(|device| device.page.holders.override_all());
    let code = real();
    if let (0, Some(device)) = (code, ending) {
        // Its default streams have no other end, and would count as work for ever.
        let its = STREAMS.iter().filter(|(slot, ..)| device.owns(*slot));
        its.for_each(|(_, _, state)| state.synced(state.issued()));
    }
    ending.inspect(|device| device.page.holders.heed());
    code
}
