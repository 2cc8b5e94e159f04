//! Ends of allocations in streams: they stay charged until the stream has reached them.

use super::lock::lock;
use super::quota::{Charge, Quota};
use crate::driver::Driver;
use reef_remote_calls::Call;
use std::mem;
use std::sync::Mutex;

/// Ends that streams have not reached, as far as is known.
#[derive(Debug, Default)]
pub(crate) struct Frees(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    ends: Vec<Pending>,
    /// A thread settles until no end is left that may be reached.
    has_thread: bool,
}

/// An end, and the event after it; zero: there is none, so it lasts until its context ends.
#[derive(Debug)]
struct Pending {
    event: usize,
    /// Zero: the stream is destroyed.
    stream: usize,
    charge: Charge,
}

impl Frees {
    /// Adds an end at the current point of a stream. Returns whether a thread must begin that
    /// settles until [`is_over`](Self::is_over): there is none.
    ///
    /// The lane's context is current, and is so again afterwards.
    pub(crate) fn add(&self, driver: &Driver, lane: usize, stream: usize, charge: Charge) -> bool {
        let event = record(driver, lane, stream);
        let mut state = lock(&self.0);
        state.ends.push(Pending { event, stream, charge });
        event != 0 && !mem::replace(&mut state.has_thread, true)
    }

    /// Returns whether no end is left that may be reached. The thread that settles ends by that.
    pub(crate) fn is_over(&self) -> bool {
        let mut state = lock(&self.0);
        let is_over = state.ends.iter().all(|pending| pending.event == 0);
        state.has_thread &= !is_over;
        is_over
    }

    /// Notes that no thread settles.
    pub(crate) fn no_thread(&self) {
        lock(&self.0).has_thread = false;
    }

    /// Releases what streams have reached.
    pub(crate) fn settle(&self, driver: &Driver, quota: &Quota) {
        let mut state = lock(&self.0);
        let reached = |pending: &mut Pending| {
            // SAFETY: an event of ours.
            pending.event != 0
                && unsafe { driver.of(Call::cuEventQuery).call([pending.event]) } == 0
        };
        for Pending { event, charge, .. } in state.ends.extract_if(.., reached) {
            // SAFETY: an event of ours, which has passed.
            unsafe { driver.of(Call::cuEventDestroy_v2).call([event]) };
            quota.end(charge);
        }
    }

    /// Takes the bytes of a new allocation from one of the same pool that ends in the same stream:
    /// the driver gives it that memory. Returns whether there is one.
    pub(crate) fn inherit(&self, stream: usize, pool: usize, bytes: u64) -> bool {
        let mut state = lock(&self.0);
        let is_known = stream != 0 && pool != 0;
        let fits = |Pending { stream: of, charge, .. }: &&mut Pending| {
            is_known && *of == stream && charge.pool == pool && charge.bytes >= bytes
        };
        let found = state.ends.iter_mut().find(fits);
        found.map(|pending| pending.charge.bytes -= bytes).is_some()
    }

    /// Gives back what an allocation that has failed took by [`inherit`](Self::inherit): the memory
    /// ends in the stream as before, which may have been destroyed, or has ended.
    pub(crate) fn give_back(&self, quota: &Quota, stream: usize, pool: usize, bytes: u64) {
        let mut state = lock(&self.0);
        let is_its = |pending: &&mut Pending| {
            [stream, 0].contains(&pending.stream) && pending.charge.pool == pool
        };
        match state.ends.iter_mut().rfind(is_its) {
            Some(pending) => pending.charge.bytes += bytes,
            None => quota.release(bytes),
        }
    }

    /// A stream is destroyed: no other memory comes from what ends in it.
    pub(crate) fn end_stream(&self, stream: usize) {
        for pending in lock(&self.0).ends.iter_mut().filter(|end| end.stream == stream) {
            pending.stream = 0;
        }
    }

    /// A context is about to end, and its events with it: nothing asks for these any more. What
    /// ends in its streams is released with it.
    pub(crate) fn begin_end(&self, driver: &Driver, context: u64) {
        let is_its = |pending: &&mut Pending| pending.charge.context == context;
        for pending in lock(&self.0).ends.iter_mut().filter(is_its) {
            let event = mem::take(&mut pending.event);
            if event != 0 {
                // SAFETY: an event of ours, which nothing names any more.
                unsafe { driver.of(Call::cuEventDestroy_v2).call([event]) };
            }
        }
    }

    /// Releases what ends with a context, whose events have ended.
    pub(crate) fn end_context(&self, context: u64, quota: &Quota) {
        let is_its = |pending: &mut Pending| pending.charge.context == context;
        for pending in lock(&self.0).ends.extract_if(.., is_its) {
            quota.end(pending.charge);
        }
    }
}

/// Records a new event of the stream's context. Zero: the driver has none.
fn record(driver: &Driver, lane: usize, stream: usize) -> usize {
    const WITHOUT_TIME: usize = 2; // CU_EVENT_DISABLE_TIMING
    let (mut context, mut event) = (lane, 0_usize);
    // SAFETY: a stream of the driver's, and a place for a handle.
    unsafe { driver.of(Call::cuStreamGetCtx).call([stream, &raw mut context as usize]) };
    driver.set_context(context);
    // SAFETY: a place for a handle.
    let made =
        unsafe { driver.of(Call::cuEventCreate).call([&raw mut event as usize, WITHOUT_TIME]) };
    // SAFETY: the event of above, and a stream of the driver's.
    if made == 0 && unsafe { driver.of(Call::cuEventRecord).call([event, stream]) } != 0 {
        // SAFETY: the event that was just made. It was not recorded, so nothing waits for it.
        unsafe { driver.of(Call::cuEventDestroy_v2).call([event]) };
        event = 0;
    }
    driver.set_context(lane);
    event
}
