//! The thread that makes all calls, in the order of the session.

use crate::requests::caller::Caller;
use crate::requests::notes::note;
use crate::requests::{copies, copy_nodes, images, launches, leases, links, nodes, table};
use crate::state::log::Logged;
use crate::state::queue::{Head, Queue, Threads, Waiting};
use crate::state::shared::{Request, Shared};
use reef_remote_calls::{
    Advance, Barrier, CallHost, CopyNode, Define, FindFunction, FreeLeased, KernelNode, Launch,
    Layout, Lease, Link, Load, SetCurrent, TableCall, ToDevice, ToHost, is_replayed,
};
use reef_replay::{Malformed, Templates};
use reef_wire::little_endian::{U16, U32};
use reef_wire::{Error, Hot, Result, hot_bytes};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of a message that this process makes again: no client's has it.
pub(crate) const REPEATED: u64 = u64::MAX;

/// The thread, and its queue.
#[derive(Debug)]
pub(crate) struct Executor {
    caller: Caller,
    queue: Arc<Queue>,
    templates: Templates,
}

/// Why a record cannot be made.
struct Refused(Error);

impl From<Malformed> for Refused {
    fn from(why: Malformed) -> Self {
        Self(Error::Protocol(why.to_string()))
    }
}

impl Executor {
    pub(crate) fn new(shared: Arc<Shared>, queue: Arc<Queue>) -> Self {
        let caller = Caller::new(shared, queue.clone());
        Self { caller, queue, templates: Templates::default() }
    }

    /// Body of the thread. Returns why the session must end.
    pub(crate) fn run(mut self) -> Error {
        self.caller.shared.driver.relax_captures();
        let mut batch = Waiting::default();
        loop {
            batch.heads.clear();
            batch.bodies.clear();
            let jobs;
            (batch, jobs) = self.queue.take(batch);
            let mut at = 0;
            for head in &batch.heads {
                let body = &batch.bodies[at..at + head.len];
                at += head.len;
                if let Err(error) = self.handle(*head, body) {
                    return error;
                }
            }
            jobs.into_iter().for_each(|job| job(self.threads()));
        }
    }

    /// Makes a message again, and returns its code.
    ///
    /// # Errors
    ///
    /// The message cannot be.
    pub(crate) fn repeat(&mut self, message: &Logged) -> Result<u32> {
        let &Logged { lane, context, op, ref body } = message;
        self.caller.set_current(lane, context);
        let len = body.len();
        self.handle(Head { op, lane, number: REPEATED, wants_reply: true, len }, body)?;
        Ok(self.caller.shared.repeated())
    }

    /// Returns the contexts of the client's threads, and definitions of its templates as they are
    /// now: the records that come later change their words by differences.
    fn threads(&self) -> Threads {
        let templates = self.templates.definitions().map(|(number, definition)| {
            let (template, reserved) = (U16::new(number), U16::new(0));
            let head = Define { template, reserved, reserved2: U32::new(0) };
            [hot_bytes(&head), &definition].concat()
        });
        let templates = templates.collect();
        Threads { lanes: self.caller.lanes(), templates }
    }

    /// Sets the contexts of the client's threads.
    pub(crate) fn set_lanes(&mut self, lanes: &[(u32, u64)]) {
        self.caller.set_lanes(lanes);
    }

    fn handle(&mut self, head: Head, body: &[u8]) -> Result<()> {
        let Head { op, lane, number, wants_reply, .. } = head;
        let call = u32::MAX - u32::from(op);
        let is_repeated = number == REPEATED;
        if !is_repeated && !matches!(op, Define::OP | Advance::OP) {
            add(&self.caller.shared.calls.single, 1);
        }
        let mut request = Request { lane, number, wants_reply, call, is_noted: false, is_repeated };
        match op {
            Define::OP => {
                let (head, definition) = Define::split(body)?;
                let defined = self.templates.define(head.template.get(), definition, is_replayed);
                defined.map_err(|why| Refused::from(why).0)?;
                self.caller.shared.answer(request, 0, &[]);
                return Ok(());
            }
            Advance::OP => {
                self.advance(Request { wants_reply: false, ..request }, body)?;
                self.caller.shared.answer(request, 0, &[]);
                return Ok(());
            }
            _ => {}
        }
        if op == SetCurrent::OP {
            let context = SetCurrent::split(body)?.0.context.get();
            self.caller.set_current(lane, context);
            self.caller.shared.answer(request, 0, &[]);
            return Ok(());
        }
        let caller = &mut self.caller;
        let lane = caller.enter(lane);
        request.is_noted = note(caller, lane, &head, body);
        let (code, bytes) = match op {
            TableCall::OP => return table::table_call(caller, lane, request, body),
            ToDevice::OP => {
                let (copy, bytes) = ToDevice::split(body)?;
                copies::to_device(caller, lane, request, copy, bytes);
                return Ok(());
            }
            ToHost::OP => return copies::to_host(caller, lane, request, body),
            Link::OP => return links::link(caller, lane, request, body),
            Load::OP => return images::load(caller, lane, request, body),
            FreeLeased::OP => return leases::free(caller, lane, request, body),
            Lease::OP => leases::lease(caller, lane, body)?,
            Launch::OP => (launches::launch(caller, lane, body)?, Vec::new()),
            FindFunction::OP => images::find_function(caller, body)?,
            Layout::OP => {
                let (message, _) = Layout::split(body)?;
                images::layout(caller, message.function.get())
            }
            KernelNode::OP => (nodes::kernel_node(caller, body)?, Vec::new()),
            CopyNode::OP => (copy_nodes::copy_node(caller, body)?, Vec::new()),
            CallHost::OP => (caller.call_host(lane, CallHost::split(body)?.0), Vec::new()),
            Barrier::OP => (0, Vec::new()),
            op => return Err(Error::Protocol(format!("operation {op}: cannot come here"))),
        };
        self.caller.shared.answer(request, code, &bytes);
        Ok(())
    }

    /// Makes the operations of a record, each as if it had come by itself.
    fn advance(&mut self, request: Request, record: &[u8]) -> Result<()> {
        let caller = &mut self.caller;
        let each = |op, body: &[u8], payload: &[u8]| {
            add(&caller.shared.calls.replayed, 1);
            let request = Request { call: u32::MAX - u32::from(op), ..request };
            replayed(caller, request, op, body, payload).map_err(Refused)
        };
        self.templates.expand(record, each).map_err(|why| why.0)
    }
}

/// Adds to a number that this thread alone writes.
fn add(to: &AtomicU64, count: u64) {
    to.store(to.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

/// Makes an operation of a record.
fn replayed(
    caller: &mut Caller,
    request: Request,
    op: u16,
    body: &[u8],
    payload: &[u8],
) -> Result<()> {
    let lane = caller.enter(request.lane);
    let head = Head { op, lane: request.lane, number: request.number, wants_reply: false, len: 0 };
    let is_noted = note(caller, lane, &head, body);
    let request = Request { is_noted, ..request };
    match op {
        TableCall::OP if payload.is_empty() => table::table_call(caller, lane, request, body),
        Launch::OP if payload.is_empty() => {
            let code = launches::launch(caller, lane, body)?;
            caller.shared.answer(request, code, &[]);
            Ok(())
        }
        ToDevice::OP => match ToDevice::split(body)? {
            (copy, []) => {
                copies::to_device(caller, lane, request, copy, payload);
                Ok(())
            }
            _ => Err(Error::Protocol("replayed copy: its bytes must be its payload".into())),
        },
        op => Err(Error::Protocol(format!("replayed operation {op}: cannot have a payload"))),
    }
}
