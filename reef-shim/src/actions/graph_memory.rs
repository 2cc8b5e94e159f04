//! Graphs with memory of their own, which the driver takes when they are launched or uploaded.

use super::reserve::{make_room, refuse_on_panic};
use crate::driver::calls::{self, Stream};
use crate::driver::state::Inside;
use crate::graph_gates::memory;
use crate::limit::device::{self, LimitState, Limited};
use crate::limit::graphs::{self as needs, Need};
use crate::limit::pools::{Store, stores};
use crate::limit::refusal::OUT_OF_MEMORY;

/// Makes an executable graph at `to` by `real`, and notes what its nodes take.
pub(crate) fn instantiated(to: *const usize, graph: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(inside) = Inside::limited() else { return real() };
    let needs = memory::needs(graph);
    drop(inside);
    let code = real(); // has its own way in
    // SAFETY: null, or where the driver has just written.
    if let (0, Some(exec), false) = (code, unsafe { to.as_ref() }, needs.is_empty()) {
        needs::note(*exec, needs);
    }
    code
}

/// Destroys an executable graph. The driver keeps its memory for others, or for allocations that no
/// node has ended.
pub(crate) fn destroyed(exec: usize, real: impl FnOnce() -> u32) -> u32 {
    let code = real();
    if code == 0 {
        needs::forget(exec);
    }
    code
}

/// Launches or uploads a graph. What it may take is reserved before, and what it has taken the
/// driver says then.
pub(crate) fn backed(exec: usize, stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    let needs = needs::of(exec);
    if needs.is_empty() {
        return real();
    }
    let Some(inside) = Inside::limited() else { return real() };
    if calls::is_capturing(stream) {
        drop(inside);
        return real(); // a node, which takes nothing now
    }
    let mut reserved = Vec::new();
    let code = refuse_on_panic(|| reserve(&needs, &mut reserved));
    drop(inside);
    let code = if code == 0 { real() } else { code }; // has its own way in
    if code == 0 {
        needs::back(exec);
    }
    let _inside = Inside::limited();
    for (device, bytes) in reserved {
        calls::with_relaxed_capture(|| {
            stores().settle(device, Store::Graphs(device.ordinal), bytes)
        });
    }
    code
}

fn reserve(needs: &[Need], reserved: &mut Vec<(&'static Limited, u64)>) -> u32 {
    for Need { ordinal, bytes } in needs {
        match device::of(*ordinal) {
            LimitState::Unlimited => {}
            LimitState::Limited(device) if make_room(device, *bytes) => {
                reserved.push((device, *bytes))
            }
            LimitState::Limited(_) | LimitState::Broken => return OUT_OF_MEMORY,
        }
    }
    0
}

/// Has the driver give back the memory of graphs that don't run.
pub(crate) fn trim(ordinal: i32, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if let LimitState::Limited(device) = device::of(ordinal) {
        needs::unback(ordinal);
        calls::with_relaxed_capture(|| stores().settle(device, Store::Graphs(ordinal), 0));
    }
    code
}
