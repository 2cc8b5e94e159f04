//! State of the thread that makes the calls.

use super::params::Params;
use crate::state::lock::lock;
use crate::state::queue::Queue;
use crate::state::shared::Shared;
use reef_cuda_abi::codes::{INVALID_CONTEXT, INVALID_VALUE};
use reef_remote_calls::{Call, CallHost, Kind, LEGACY_STREAM, OWN_STREAM};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Number of streams that stand for threads' own ones beyond which those without work are used
/// again: the worker is not told that a thread of the client has ended.
const MAX_OWN_STREAMS: usize = 256;

/// A thread of the client, at the time of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallingThread {
    number: u32,
    /// Number of its current context; zero: none.
    pub(crate) context: u64,
    /// The driver's handle of it.
    pub(crate) handle: usize,
}

/// State of the thread.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) shared: Arc<Shared>,
    queue: Arc<Queue>,
    /// Current context of each thread of the client.
    lanes: HashMap<u32, u64>,
    pub(crate) params: Params,
    /// Context that is current in this thread: its number and handle.
    current: Option<(u64, usize)>,
}

impl Caller {
    pub(crate) fn new(shared: Arc<Shared>, queue: Arc<Queue>) -> Self {
        Self { shared, queue, lanes: HashMap::new(), params: Params::new(), current: None }
    }

    /// True if no message waits, as far as can be seen.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Sets the current context anew before the next call.
    pub(crate) fn forget_current(&mut self) {
        self.current = None;
    }

    /// Notes the current context of a thread of the client.
    pub(crate) fn set_current(&mut self, lane: u32, context: u64) {
        self.lanes.insert(lane, context);
    }

    /// Returns the contexts of the client's threads.
    pub(crate) fn lanes(&self) -> Vec<(u32, u64)> {
        self.lanes.iter().map(|(lane, context)| (*lane, *context)).collect()
    }

    /// Sets the contexts of the client's threads.
    pub(crate) fn set_lanes(&mut self, lanes: &[(u32, u64)]) {
        self.lanes = lanes.iter().copied().collect();
        self.forget_current();
    }

    /// Makes the context of a thread of the client current.
    pub(crate) fn enter(&mut self, number: u32) -> CallingThread {
        let context = self.lanes.get(&number).copied().unwrap_or(0);
        if let Some((current, handle)) = self.current
            && current == context
        {
            return CallingThread { number, context, handle };
        }
        let found = lock(&self.shared.handles).get(Kind::Context, context);
        let handle = found.unwrap_or(0); // it has ended: calls need one, and say so
        self.shared.driver.set_context(handle);
        self.current = found.ok().map(|handle| (context, handle)); // its end may be refused
        let context = if handle == 0 { 0 } else { context };
        CallingThread { number, context, handle }
    }

    /// Returns the driver's handle of an object.
    ///
    /// # Errors
    ///
    /// The driver's code for a handle that isn't there.
    pub(crate) fn resolve(
        &mut self,
        lane: CallingThread,
        kind: Kind,
        id: u64,
    ) -> Result<usize, u32> {
        match (kind, id) {
            (Kind::Stream, 0 | LEGACY_STREAM) => Ok(LEGACY_STREAM as usize),
            (Kind::Stream, OWN_STREAM) => self.own_stream(lane),
            _ => lock(&self.shared.handles).get(kind, id),
        }
    }

    /// A stream that waits for the legacy default stream, as a thread's own default stream does.
    fn own_stream(&mut self, lane: CallingThread) -> Result<usize, u32> {
        if lane.handle == 0 {
            return Err(INVALID_CONTEXT); // it has ended, or is about to
        }
        let place = (lane.number, lane.context);
        let mut own_streams = lock(&self.shared.own_streams);
        if let Some(stream) = own_streams.get(&place) {
            return Ok(*stream);
        }
        if own_streams.len() >= MAX_OWN_STREAMS
            && let Some(stream) = self.take_idle(&mut own_streams, lane.context)
        {
            own_streams.insert(place, stream);
            return Ok(stream);
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

    /// Takes a stream of a context that has no work left from its thread, which gets another one if
    /// it goes on. `None`: there is none, or a capture is open, which the question would break.
    fn take_idle(
        &self,
        own_streams: &mut HashMap<(u32, u64), usize>,
        context: u64,
    ) -> Option<usize> {
        if self.shared.is_capturing.load(Ordering::Relaxed) {
            return None;
        }
        let query = self.shared.driver.of(Call::cuStreamQuery);
        // SAFETY: a stream of the driver's, which ends with its context.
        let is_idle = |stream: usize| unsafe { query.call([stream]) } == 0;
        let mut all = own_streams.iter().filter(|((_, of), _)| *of == context);
        let place = all.find(|(_, stream)| is_idle(**stream)).map(|(place, _)| *place)?;
        own_streams.remove(&place)
    }

    /// Puts a call of a host function into a stream.
    pub(crate) fn call_host(&mut self, lane: CallingThread, call: &CallHost) -> u32 {
        if call.token.get() == 0 {
            return INVALID_VALUE;
        }
        let stream = match self.resolve(lane, Kind::Stream, call.stream.get()) {
            Ok(stream) => stream,
            Err(code) => return code,
        };
        let shared = &self.shared;
        let is_captured =
            shared.is_capturing.load(Ordering::Relaxed) && shared.capture_of(stream).is_some();
        shared.host_calls.stand_in(call.token.get(), !is_captured, |[function, data]| {
            // SAFETY: a stream of the driver's, and a function with its argument, which live until
            // it has run, or as long as this process.
            unsafe { shared.driver.functions.launch_host.call([stream, function, data]) }
        })
    }
}
