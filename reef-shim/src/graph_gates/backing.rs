//! Memory of graphs, which the driver allocates when they are launched or uploaded.

use super::{execs, memory};
use crate::actions::pools::FREE_TIMEOUT;
use crate::actions::reserve::{find_room, make_room, refuse_on_panic};
use crate::driver::calls::{self, Stream};
use crate::driver::state::Inside;
use crate::limit::device::{self, LimitState, Limited};
use crate::limit::pending;
use crate::limit::pools::graphs::{self as needs, Launch, Need};
use crate::limit::pools::stores::{Store, stores, stream_key};
use crate::limit::refusal::OUT_OF_MEMORY;
use std::time::Duration;

/// Makes an executable graph at `to` by `real`, and notes the memory that its nodes need. A stream:
/// the driver uploads it there at once.
pub(crate) fn instantiated(
    to: *const usize,
    graph: usize,
    upload: Option<Stream>,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(inside) = Inside::limited() else { return real() };
    let needs = memory::needs(graph);
    if needs.each.is_empty() {
        drop(inside);
        return real(); // enters by itself
    }
    let mut room = Room::default();
    let code = match upload {
        Some(stream) => refuse_on_panic(|| room.reserve(&needs.each, stream)),
        None => 0,
    };
    drop(inside);
    let code = if code == 0 { real() } else { code };
    let _inside = Inside::limited();
    // SAFETY: null, or where the driver has just written.
    let exec = unsafe { to.as_ref() }.filter(|_| code == 0);
    if let Some(exec) = exec {
        needs::note(*exec, needs);
    }
    if let (Some(stream), Some(exec)) = (upload, exec) {
        let key = calls::with_relaxed_capture(|| stream_key(stream));
        room.launch = Some(needs::begin(*exec, key).0);
    }
    room.end(code == 0);
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

/// Launches or uploads a graph. The memory that it may need is reserved before. Afterwards the
/// driver says how much it has allocated.
pub(crate) fn backed(exec: usize, stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    if let Some(code) = execs::broken(exec) {
        return code;
    }
    if !needs::has_memory(exec) {
        return real();
    }
    let Some(inside) = Inside::limited() else { return real() };
    if calls::is_capturing(stream) {
        drop(inside);
        return real(); // a node, which allocates nothing now
    }
    let mut room = Room::default();
    let code = refuse_on_panic(|| room.begin(exec, stream));
    drop(inside);
    let code = if code == 0 { real() } else { code }; // enters by itself
    let _inside = Inside::limited();
    room.end(code == 0);
    code
}

/// Room that is reserved for memory of graphs.
#[derive(Debug, Default)]
struct Room {
    reserved: Vec<(&'static Limited, u64)>,
    launch: Option<Launch>,
}

impl Room {
    /// Reserves what a launch may need.
    fn begin(&mut self, exec: usize, stream: Stream) -> u32 {
        let key = calls::with_relaxed_capture(|| stream_key(stream));
        let (launch, needs) = needs::begin(exec, key);
        self.launch = Some(launch);
        self.reserve(&needs, stream)
    }

    /// Reserves bytes. If there is no room, graphs that run before in the stream get some time to
    /// end, because only then can the driver free their memory.
    fn reserve(&mut self, needs: &[Need], stream: Stream) -> u32 {
        for Need { ordinal, bytes } in needs {
            let device = match device::of(*ordinal) {
                LimitState::Unlimited => continue,
                LimitState::Limited(device) => device,
                LimitState::Broken => return OUT_OF_MEMORY,
            };
            if *bytes > 0 && !device.try_reserve(*bytes) {
                calls::with_relaxed_capture(|| {
                    let streams = [(stream, calls::stream_context(stream))];
                    find_room(device, Duration::ZERO);
                    device.has_room(*bytes) || pending::wait(&streams, FREE_TIMEOUT)[0]
                });
                if !make_room(device, *bytes) {
                    return OUT_OF_MEMORY;
                }
            }
            self.reserved.push((device, *bytes));
        }
        0
    }

    /// Corrects the charges to what the driver has allocated: the bytes on each device.
    fn settle(&mut self) -> Vec<Need> {
        let settle = |(device, bytes): (&'static Limited, u64)| {
            let store = Store::Graphs(device.ordinal);
            let growth = calls::with_relaxed_capture(|| stores().settle(device, store, bytes));
            if growth.unreserved > 0 {
                needs::note_unreserved();
            }
            Need { ordinal: device.ordinal, bytes: growth.bytes }
        };
        std::mem::take(&mut self.reserved).into_iter().map(settle).collect()
    }

    fn end(mut self, is_launched: bool) {
        let grown = self.settle();
        self.launch
            .into_iter()
            .for_each(|launch| needs::end(launch, is_launched.then_some(&grown[..])));
    }
}

/// Has the driver free the memory of graphs that don't run.
pub(crate) fn trim(ordinal: i32, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    if let LimitState::Limited(device) = device::of(ordinal) {
        calls::with_relaxed_capture(|| stores().settle(device, Store::Graphs(ordinal), 0));
    }
    code
}
