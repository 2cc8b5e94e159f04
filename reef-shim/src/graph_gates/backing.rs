//! Memory of graphs, which the driver allocates when they are launched or uploaded.

use super::{execs, memory};
use crate::actions::reserve::{make_room, refuse_on_panic};
use crate::driver::calls::{self, Stream};
use crate::driver::state::Inside;
use crate::limit::device::{self, LimitState, Limited};
use crate::limit::graphs::{self as needs, Need};
use crate::limit::pools::{Store, stores};
use crate::limit::refusal::OUT_OF_MEMORY;

/// Makes an executable graph at `to` by `real`, and notes the memory that its nodes need.
pub(crate) fn instantiated(to: *const usize, graph: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(inside) = Inside::limited() else { return real() };
    let needs = memory::needs(graph);
    drop(inside);
    let code = real(); // enters by itself
    // SAFETY: null, or where the driver has just written.
    if let (0, Some(exec), false) = (code, unsafe { to.as_ref() }, needs.is_empty()) {
        needs::note(*exec, needs);
    }
    code
}

/// Destroys an executable graph. The driver keeps its memory for other graphs, or for allocations
/// that no node has freed.
pub(crate) fn destroyed(exec: usize, real: impl FnOnce() -> u32) -> u32 {
    let code = real();
    if code == 0 {
        needs::forget(exec);
    }
    code
}

/// Launches or uploads a graph. The memory that it needs is reserved before. Afterwards the driver
/// says how much it has allocated.
pub(crate) fn backed(exec: usize, stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    if let Some(code) = execs::broken(exec) {
        return code;
    }
    let needs = needs::of(exec);
    if needs.is_empty() {
        return real();
    }
    let Some(inside) = Inside::limited() else { return real() };
    if calls::is_capturing(stream) {
        drop(inside);
        return real(); // a node, which allocates nothing now
    }
    let mut reserved = Vec::new();
    let code = refuse_on_panic(|| reserve(&needs, &mut reserved));
    drop(inside);
    let code = if code == 0 { real() } else { code }; // enters by itself
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

/// Has the driver free the memory of graphs that don't run.
pub(crate) fn trim(ordinal: i32, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if let LimitState::Limited(device) = device::of(ordinal) {
        needs::unback(ordinal);
        calls::with_relaxed_capture(|| stores().settle(device, Store::Graphs(ordinal), 0));
    }
    code
}
