//! Memory of graphs, which the driver allocates when they are launched or uploaded.

use super::{execs, memory};
use crate::actions::reserve::{await_room, refuse_on_panic};
use crate::driver::calls::{self, Stream};
use crate::driver::state::Inside;
use crate::explain;
use crate::limit::device::{self, LimitState, Limited};
use crate::limit::pools::graphs::{self as needs, Launch, Need};
use crate::limit::pools::stores::{Store, stores, stream_key};
use reef_cuda_abi::codes::OUT_OF_MEMORY;
use reef_guest::limit::format_bytes;
use std::cell::Cell;
use std::sync::{Mutex, Once};
use std::time::Duration;

/// Longest wait for work to give memory back before a launch is refused.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(10);

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
    let mut reservation = Reservation::default();
    let code = match upload {
        Some(_) => refuse_on_panic(|| reservation.reserve(|| needs::whole(&needs))),
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
        reservation.launch = Some(begin(*exec, stream));
    }
    reservation.end(code == 0);
    code
}

/// Updates an executable graph with another one by `real`, and notes the memory that the nodes of
/// that one need.
pub(crate) fn updated(exec: usize, graph: usize, real: impl FnOnce() -> u32) -> u32 {
    let needs = Inside::limited().map(|_inside| memory::needs(graph));
    let code = real(); // enters by itself
    if let Some(needs) = needs.filter(|needs| code == 0 && !needs.each.is_empty()) {
        needs::note_updated(exec, needs);
    }
    code
}

/// Puts another graph into a node of an executable graph by `real`, and notes the memory that the
/// nodes of that one need.
pub(crate) fn child_updated(
    exec: usize,
    node: usize,
    child: usize,
    real: impl FnOnce() -> u32,
) -> u32 {
    let needs = Inside::limited()
        .map(|_inside| (memory::needs_of_child(node), memory::needs(child)))
        .filter(|(_, after)| !after.each.is_empty());
    let code = real(); // enters by itself
    if let Some((before, after)) = needs.filter(|_| code == 0) {
        needs::note_child(exec, node, &before, &after);
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

/// Launches or uploads a graph by `launch`, which gets the driver's call, `real`, and may wait
/// before it makes that. The memory that the graph may need is reserved before. If it has lost its
/// memory in the wait, all is done once more. Afterwards the driver says how much it has allocated.
pub(crate) fn backed(
    exec: usize,
    stream: Stream,
    real: impl Fn() -> u32,
    launch: impl Fn(&dyn Fn() -> u32) -> u32,
) -> u32 {
    if let Some(code) = execs::broken(exec) {
        return code;
    }
    if !needs::has_memory(exec) {
        return launch(&real);
    }
    let is_lost = Cell::new(false);
    let code = with_reservation(exec, stream, |reservation| {
        launch(&|| {
            is_lost.set(reservation.is_short());
            if is_lost.get() { OUT_OF_MEMORY } else { real() }
        })
    });
    if is_lost.get() { with_reservation(exec, stream, |_| launch(&real)) } else { code }
}

/// Launches a graph by `launch`, with room for the memory that it may need.
fn with_reservation(exec: usize, stream: Stream, launch: impl FnOnce(&Reservation) -> u32) -> u32 {
    let mut reservation = Reservation::default();
    let Some(inside) = Inside::limited() else { return launch(&reservation) };
    let code = refuse_on_panic(|| {
        if calls::is_capturing(stream) {
            // A node, which allocates nothing now, unless another thread ends the capture before
            // the driver's call.
            reservation.reserve(|| needs::all(exec))
        } else {
            reservation.begin(exec, stream)
        }
    });
    drop(inside);
    let code = if code == 0 { launch(&reservation) } else { code }; // enters by itself
    let _inside = Inside::limited();
    reservation.end(code == 0);
    code
}

/// Adds the last refused launch of a graph to the report.
#[cold]
fn explain_refusal(device: &Limited, bytes: u64) {
    static LAST: Mutex<String> = Mutex::new(String::new());
    static ONCE: Once = Once::new();
    let last = || LAST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (ordinal, account, of_graphs) =
        (device.ordinal, device.account(), stores().graph_bytes(device));
    let [bytes, used, of_graphs, of_contexts] =
        [bytes, account.used(), of_graphs, account.overhead()].map(format_bytes);
    let shares = if needs::are_shared() { "share memory" } else { "have memory of their own" };
    *last() = format!(
        "  device {ordinal}: the last refused graph needed {bytes}; {used} were used, {of_graphs} of it by graphs and {of_contexts} by contexts; graphs of a stream {shares}\n"
    );
    ONCE.call_once(|| explain::add(move || last().clone()));
}

/// Bytes that are reserved for memory of graphs.
#[derive(Debug, Default)]
struct Reservation {
    reserved: Vec<(&'static Limited, u64)>,
    launch: Option<Launch>,
}

fn begin(exec: usize, stream: Stream) -> Launch {
    let key = calls::with_relaxed_capture(|| stream_key(stream));
    let launch = needs::begin(exec, key);
    stores().note_stream(key, stream); // after `needs::begin`, as `settle_if_idle` demands
    launch
}

/// Returns the bytes among needs that are a device's.
fn on(needs: &[Need], ordinal: i32) -> u64 {
    needs.iter().filter(|need| need.ordinal == ordinal).map(|need| need.bytes).sum()
}

impl Reservation {
    /// Reserves what a launch may need.
    fn begin(&mut self, exec: usize, stream: Stream) -> u32 {
        let launch = begin(exec, stream);
        self.launch = Some(launch);
        self.reserve(|| needs::needed(&launch))
    }

    /// Reserves bytes. If there is no room, other work gets some time to end, because only then
    /// can the driver free its memory. What is freed may be memory that the launch was going to
    /// share, so it may need more afterwards.
    fn reserve(&mut self, needs: impl Fn() -> Vec<Need>) -> u32 {
        for Need { ordinal, bytes } in needs() {
            let device = match device::of(ordinal) {
                LimitState::Unlimited => continue,
                LimitState::Limited(device) => device,
                LimitState::Broken => return OUT_OF_MEMORY,
            };
            let mut reserved = bytes;
            let mut try_reserve = || {
                reserved = on(&needs(), ordinal);
                reserved == 0 || device.try_reserve(reserved)
            };
            if !try_reserve() && !await_room(device, LAUNCH_TIMEOUT, try_reserve) {
                // The memory of dead processes makes room.
                reserved = on(&needs(), ordinal);
                if !device.reserve(reserved) {
                    explain_refusal(device, reserved);
                    return OUT_OF_MEMORY;
                }
            }
            self.reserved.push((device, reserved));
        }
        0
    }

    /// Returns whether the launch may need more by now than is reserved for it.
    fn is_short(&self) -> bool {
        let needs = self.launch.map(|launch| needs::needed(&launch)).unwrap_or_default();
        let is_limited = |need: &&Need| matches!(device::of(need.ordinal), LimitState::Limited(_));
        needs.iter().filter(is_limited).any(|need| need.bytes > self.reserved_on(need.ordinal))
    }

    fn reserved_on(&self, ordinal: i32) -> u64 {
        let its = self.reserved.iter().filter(|(device, _)| device.ordinal == ordinal);
        its.map(|(_, bytes)| *bytes).sum()
    }

    /// Corrects the charges to what the driver has allocated: the bytes on each device.
    fn settle(&mut self) -> Vec<Need> {
        let settle = |(device, bytes): (&'static Limited, u64)| {
            let store = Store::Graphs(device.ordinal);
            let growth = calls::with_relaxed_capture(|| stores().settle(device, store, bytes));
            needs::note_unreserved(growth.unreserved);
            Need { ordinal: device.ordinal, bytes: growth.bytes }
        };
        std::mem::take(&mut self.reserved).into_iter().map(settle).collect()
    }

    fn end(mut self, is_launched: bool) {
        let grown = self.settle();
        let Some(launch) = self.launch else { return };
        let mut had_memory = needs::devices(&launch);
        had_memory.retain(|ordinal| grown.iter().all(|settled| settled.ordinal != *ordinal));
        needs::end(launch, is_launched.then_some(&grown[..]));
        had_memory.into_iter().for_each(settle_if_idle);
    }
}

/// Corrects the charge of a device's graphs after a launch that had its memory. A trim or another
/// launch may have taken that during the driver's call, and then it has got as much again.
/// Bytes of open launches are reserved and would count twice, so the end of a later one corrects
/// the charge then. Each launch is open before it takes the lock of the stores, so none can begin
/// to take memory meanwhile.
fn settle_if_idle(ordinal: i32) {
    let LimitState::Limited(device) = device::of(ordinal) else { return };
    calls::with_relaxed_capture(|| {
        let mut stores = stores();
        if !needs::are_any_open() {
            stores.settle(device, Store::Graphs(ordinal), 0);
        }
    });
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
