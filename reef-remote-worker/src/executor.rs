//! The thread that makes all calls, in the order of the session.

use crate::requests::caller::Caller;
use crate::requests::{copies, images, launches, leases, links, nodes, table};
use crate::state::queue::{Head, Queue, Waiting};
use crate::state::shared::{Request, Shared};
use reef_remote_calls::{
    Barrier, CallHost, FindFunction, FreeLeased, KernelNode, Launch, Layout, Lease, Link, Load,
    SetCurrent, TableCall, ToDevice, ToHost,
};
use reef_wire::{Error, Hot, Result};
use std::sync::Arc;

/// The thread, and its queue.
#[derive(Debug)]
pub(crate) struct Executor {
    caller: Caller,
    queue: Arc<Queue>,
}

impl Executor {
    pub(crate) fn new(shared: Arc<Shared>, queue: Arc<Queue>) -> Self {
        Self { caller: Caller::new(shared, queue.clone()), queue }
    }

    /// Body of the thread. Returns why the session must end.
    pub(crate) fn run(mut self) -> Error {
        self.caller.shared.driver.relax_captures();
        let mut batch = Waiting::default();
        loop {
            batch.heads.clear();
            batch.bodies.clear();
            batch = self.queue.take(batch);
            let mut at = 0;
            for head in &batch.heads {
                let body = &batch.bodies[at..at + head.len];
                at += head.len;
                if let Err(error) = self.handle(*head, body) {
                    return error;
                }
            }
        }
    }

    fn handle(&mut self, head: Head, body: &[u8]) -> Result<()> {
        let Head { op, lane, number, wants_reply, .. } = head;
        let request = Request { lane, number, wants_reply, call: u32::MAX - u32::from(op) };
        if op == SetCurrent::OP {
            let context = SetCurrent::split(body)?.0.context.get();
            self.caller.set_current(lane, context);
            self.caller.shared.answer(request, 0, &[]);
            return Ok(());
        }
        let caller = &mut self.caller;
        let lane = caller.enter(lane);
        let (code, bytes) = match op {
            TableCall::OP => return table::table_call(caller, lane, request, body),
            ToDevice::OP => return copies::to_device(caller, lane, request, body),
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
            CallHost::OP => (caller.call_host(lane, CallHost::split(body)?.0), Vec::new()),
            Barrier::OP => (0, Vec::new()),
            op => return Err(Error::Protocol(format!("operation {op}: cannot come here"))),
        };
        self.caller.shared.answer(request, code, &bytes);
        Ok(())
    }
}
