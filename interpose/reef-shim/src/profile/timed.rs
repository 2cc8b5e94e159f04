//! Timed calls.

use super::active::{ActiveProfile, active};
use super::finish::has_writer;
use crate::driver::state::is_profiled;
use reef_guest::page::Time;
use reef_guest::profile::{Api, Call, ThreadProfile};
use std::cell::Cell;
use std::time::Duration;

/// Interval at which a call that must be written polls for room, and maximum number of polls.
const ROOM_INTERVAL: Duration = Duration::from_micros(200);
const MAX_ROUNDS: u32 = 5_000;

/// Profile of this thread, which it gives back when it ends.
struct ThreadSlot(Cell<Option<&'static ThreadProfile>>);

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(ThreadProfile::give_back);
    }
}

thread_local! {
    static THREAD_SLOT: ThreadSlot = const { ThreadSlot(Cell::new(None)) };
}

/// Makes a call, and records its host time. `amount`: bytes, or threads of a kernel; `what` and
/// `stream`: the driver's handles.
#[inline]
pub(crate) fn timed(
    api: Api,
    amount: u64,
    what: usize,
    stream: usize,
    call: impl FnOnce() -> u32,
) -> u32 {
    let start = if is_profiled() { now() } else { 0 };
    // One call site, so that the call is inlined into the hook. With two it isn't, which costs 11
    // ns..
    let code = call();
    if start != 0 {
        end(api, amount, what, stream, start);
    }
    code
}

#[cold]
fn now() -> u64 {
    Time::now().0
}

#[cold]
fn end(api: Api, amount: u64, what: usize, stream: usize, start: u64) {
    let nanos = now().saturating_sub(start);
    note(&Call { api, start, nanos, amount, what: what as u64, stream: stream as u64 });
}

/// Times the initialization of the driver. Opening the driver, which came before, decides whether
/// there is a profile.
pub(crate) fn timed_init(call: impl FnOnce() -> u32) -> u32 {
    timed(Api::Init, 0, 0, 0, call)
}

fn note(call: &Call) {
    let Some(active) = active() else { return };
    let part =
        THREAD_SLOT.try_with(|slot| slot.0.get().or_else(|| take(slot, active))).ok().flatten();
    let Some(part) = part else { return active.recorder.lose() };
    part.note(call);
    if active.sent.has(call.api) {
        send(active, part, call);
    }
}

#[cold]
fn take(slot: &ThreadSlot, active: &'static ActiveProfile) -> Option<&'static ThreadProfile> {
    // SAFETY: asks for a number.
    let part = active.recorder.thread_profile(unsafe { libc::gettid() }.unsigned_abs());
    slot.0.set(part);
    part
}

/// Sends a call to the writer thread. A line of a file waits for room while that thread runs. A
/// span that finds no room is dropped, and the trace has the number of dropped spans.
fn send(active: &ActiveProfile, part: &ThreadProfile, call: &Call) {
    let mut is_sent = part.send(call);
    for _ in 0..MAX_ROUNDS {
        if is_sent || !active.lined.has(call.api) || !has_writer() {
            break;
        }
        std::thread::sleep(ROOM_INTERVAL);
        is_sent = part.send(call);
    }
    if !is_sent {
        part.miss();
    }
}
