//! Messages are noted before their calls: some make objects that last.

use super::caller::{Caller, CallingThread};
use crate::state::lock::lock;
use crate::state::log::Logged;
use crate::state::queue::Head;
use crate::state::shared::Note;
use crate::state::uses::{Effect, Uses};
use reef_remote_calls::{Call, Kind};
use std::sync::atomic::Ordering;

/// Notes a message before its call. Returns whether it has to be settled.
pub(crate) fn note(caller: &mut Caller, lane: CallingThread, head: &Head, body: &[u8]) -> bool {
    let is_capturing = caller.shared.is_capturing.load(Ordering::Relaxed);
    if !is_capturing && !may_last(head.op, body) {
        return false;
    }
    let Some(uses) = Uses::of(head.op, body, lane.context) else { return false };
    let is_capture = matches!(uses.effect, Effect::BeginsCapture | Effect::EndsCapture);
    if uses.effect == Effect::Works && !is_capturing {
        return false;
    }
    let stream = match uses.stream {
        Some(id) if is_capturing || is_capture => caller.resolve(lane, Kind::Stream, id).ok(),
        _ => None,
    };
    let capture = stream.and_then(|stream| caller.shared.capture_of(stream));
    let (op, body) = (head.op, body.to_vec());
    let message = Logged { lane: head.lane, context: lane.context, op, body };
    let graph = match uses.effect {
        Effect::Changes(id) => lock(&caller.shared.handles).graph_of(id),
        _ => None,
    };
    let note =
        Note { graph, uses, message, capture, stream: stream.unwrap_or(0), context: lane.handle };
    lock(&caller.shared.notes).insert(head.number, note);
    true
}

/// False for the messages that come most often, and leave nothing outside of a capture.
fn may_last(op: u16, body: &[u8]) -> bool {
    use reef_remote_calls::{CallHost, Launch, TableCall};
    use reef_wire::Hot;
    const WORK: [Call; 8] = [
        Call::cuMemcpyDtoDAsync_v2,
        Call::cuMemsetD8Async,
        Call::cuMemsetD32Async,
        Call::cuEventRecord,
        Call::cuStreamWaitEvent,
        Call::cuGraphLaunch,
        Call::cuStreamQuery,
        Call::cuEventQuery,
    ];
    match op {
        Launch::OP | CallHost::OP => false,
        TableCall::OP => TableCall::split(body)
            .is_ok_and(|(head, _)| WORK.iter().all(|call| *call as u16 != head.call.get())),
        _ => true,
    }
}
