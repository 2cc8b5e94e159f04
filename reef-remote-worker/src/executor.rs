//! The thread that makes all calls, in the order of the session.

use crate::driver::INVALID_VALUE;
use crate::requests::{self, Layout};
use crate::state::{HostCalls, Request, Shared, lock};
use reef_remote_calls::{
    Barrier, Call, CallHost, FindFunction, KernelNode, Kind, LEGACY_STREAM, Launch, Load,
    OWN_STREAM, SetCurrent, TableCall, ToDevice, ToHost,
};
use reef_wire::{Error, Hot, Result};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};

/// Bytes of waiting messages that end the session: a client that keeps to its bounds has fewer.
const MAX_WAITING: usize = 512 << 20;

/// A thread of the client, at the time of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lane {
    number: u32,
    /// Number of its current context; zero: none.
    pub(crate) context: u64,
    /// The driver's handle of it.
    pub(crate) handle: usize,
}

/// Message that the reader has left for the executor.
#[derive(Debug, Clone, Copy)]
struct Head {
    op: u16,
    wants_reply: bool,
    lane: u32,
    number: u64,
    len: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    heads: Vec<Head>,
    bodies: Vec<u8>,
}

/// Messages from the reader to the executor.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Queue {
    /// Leaves a message.
    ///
    /// # Errors
    ///
    /// `Protocol` if too much waits already.
    pub(crate) fn push(&self, message: &reef_wire::Message<'_>) -> Result<()> {
        let mut waiting = lock(&self.waiting);
        if waiting.bodies.len() > MAX_WAITING {
            return Err(Error::Protocol(format!("more than {MAX_WAITING} bytes wait")));
        }
        let &reef_wire::Message { op, lane, number, wants_reply, body } = message;
        waiting.heads.push(Head { op, wants_reply, lane, number, len: body.len() });
        waiting.bodies.extend_from_slice(body);
        let is_first = waiting.heads.len() == 1;
        drop(waiting);
        if is_first {
            self.changed.notify_one();
        }
        Ok(())
    }

    fn take(&self, empty: Waiting) -> Waiting {
        let mut waiting = lock(&self.waiting);
        while waiting.heads.is_empty() {
            waiting = self.changed.wait(waiting).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        std::mem::replace(&mut *waiting, empty)
    }

    fn is_empty(&self) -> bool {
        lock(&self.waiting).heads.is_empty()
    }
}

/// State of the thread.
#[derive(Debug)]
pub(crate) struct Executor {
    pub(crate) shared: Arc<Shared>,
    queue: Arc<Queue>,
    /// Current context of each thread of the client.
    lanes: HashMap<u32, u64>,
    /// Where parameters lie, of functions by their numbers.
    pub(crate) layouts: HashMap<u64, Layout>,
    pub(crate) params: requests::Params,
    /// Number of the context that is current in this thread.
    current: Option<(u64, usize)>,
}

impl Executor {
    pub(crate) fn new(shared: Arc<Shared>, queue: Arc<Queue>) -> Self {
        Self {
            shared,
            queue,
            lanes: HashMap::new(),
            layouts: HashMap::new(),
            params: requests::Params::new(),
            current: None,
        }
    }

    /// Body of the thread. Returns why the session must end.
    pub(crate) fn run(mut self) -> Error {
        self.shared.driver.relax_captures();
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

    /// True if no message waits, as far as can be seen.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Sets the current context anew before the next call.
    pub(crate) fn forget_current(&mut self) {
        self.current = None;
    }

    fn handle(&mut self, head: Head, body: &[u8]) -> Result<()> {
        let Head { op, lane, number, wants_reply, .. } = head;
        let request = Request { lane, number, wants_reply, call: u32::MAX - u32::from(op) };
        if op == SetCurrent::OP {
            let context = SetCurrent::split(body)?.0.context.get();
            self.lanes.insert(lane, context);
            self.shared.answer(request, 0, &[]);
            return Ok(());
        }
        let lane = self.enter(lane);
        let (code, bytes) = match op {
            TableCall::OP => return requests::table_call(self, lane, request, body),
            ToDevice::OP => return requests::to_device(self, lane, request, body),
            ToHost::OP => return requests::to_host(self, lane, request, body),
            Load::OP => return requests::load(self, lane, request, body),
            Launch::OP => (requests::launch(self, lane, body)?, Vec::new()),
            FindFunction::OP => requests::find_function(self, body)?,
            reef_remote_calls::Layout::OP => {
                let (message, _) = reef_remote_calls::Layout::split(body)?;
                requests::layout(self, message.function.get())
            }
            KernelNode::OP => (requests::kernel_node(self, body)?, Vec::new()),
            CallHost::OP => (self.call_host(lane, CallHost::split(body)?.0), Vec::new()),
            Barrier::OP => (0, Vec::new()),
            op => return Err(Error::Protocol(format!("operation {op}: cannot come here"))),
        };
        self.shared.answer(request, code, &bytes);
        Ok(())
    }

    /// Makes the context of a thread of the client current.
    fn enter(&mut self, number: u32) -> Lane {
        let context = self.lanes.get(&number).copied().unwrap_or(0);
        if let Some((current, handle)) = self.current
            && current == context
        {
            return Lane { number, context, handle };
        }
        let found = lock(&self.shared.handles).get(Kind::Context, context);
        let handle = found.unwrap_or(0); // it has ended: calls need one, and say so
        self.shared.driver.set_context(handle);
        self.current = Some((context, handle));
        Lane { number, context, handle }
    }

    /// Returns the driver's handle of an object.
    ///
    /// # Errors
    ///
    /// The driver's code for a handle that isn't there.
    pub(crate) fn resolve(&mut self, lane: Lane, kind: Kind, id: u64) -> Result<usize, u32> {
        match (kind, id) {
            (Kind::Stream, 0 | LEGACY_STREAM) => Ok(LEGACY_STREAM as usize),
            (Kind::Stream, OWN_STREAM) => self.own_stream(lane),
            _ => lock(&self.shared.handles).get(kind, id),
        }
    }

    /// A stream that waits for the legacy default stream, as a thread's own default stream does.
    fn own_stream(&mut self, lane: Lane) -> Result<usize, u32> {
        let place = (lane.number, lane.context);
        let mut own_streams = lock(&self.shared.own_streams);
        if let Some(stream) = own_streams.get(&place) {
            return Ok(*stream);
        }
        let mut stream = 0_usize;
        let create = self.shared.driver.of(Call::cuStreamCreate);
        // SAFETY: a place for a handle.
        match unsafe { create.call([&raw mut stream as usize, 0]) } {
            0 => {
                own_streams.insert(place, stream);
                Ok(stream)
            }
            code => Err(code),
        }
    }

    fn call_host(&mut self, lane: Lane, call: &CallHost) -> u32 {
        if call.token.get() == 0 {
            return INVALID_VALUE;
        }
        let stream = match self.resolve(lane, Kind::Stream, call.stream.get()) {
            Ok(stream) => stream,
            Err(code) => return code,
        };
        let [function, data] = HostCalls::stand_in(&self.shared, call.token.get());
        // SAFETY: a stream of the driver's, and a function with its argument, which live as long
        // as this process.
        unsafe { self.shared.driver.functions.launch_host.call([stream, function, data]) }
    }
}
