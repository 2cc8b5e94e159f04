//! State of a session.

use super::allocations::Allocations;
use super::frees::Frees;
use super::handles::Handles;
use super::host_calls::HostCalls;
use super::lock::lock;
use super::log::{Log, Logged};
use super::printed::Printed;
use super::quota::Quota;
use super::staging::Staging;
use super::uses::{Effect, Uses};
use super::waiters::Waiters;
use super::window::Window;
use crate::driver::Driver;
use reef_cuda_abi::codes::OUT_OF_MEMORY;
use reef_cuda_abi::memory_types::{ATTRIBUTE, DEVICE};
use reef_remote::server::Resource;
use reef_remote_calls::{
    CALLS, Call, Failed, KernelPrinted, Kind, ToDevice, ToHost, Way, has_range,
};
use reef_wire::little_endian::{U32, U64};
use reef_wire::{Hot, hot_bytes};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// State that the reader, the executor and the waiters share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) driver: Driver,
    pub(crate) handles: Mutex<Handles>,
    pub(crate) staging: Staging,
    pub(crate) host_calls: Arc<HostCalls>,
    /// Streams that stand for the own default streams of the client's threads, in each context.
    pub(crate) own_streams: Mutex<HashMap<(u32, u64), usize>>,
    /// Numbers of the devices' primary contexts, and how often they are retained.
    pub(crate) primaries: Mutex<HashMap<usize, (u64, u64)>>,
    /// Addresses that the client has reserved as well.
    pub(crate) window: Mutex<Option<Window>>,
    /// First of those addresses.
    window_at: Option<u64>,
    /// Memory outside of them that the program has been told of.
    pub(crate) places: Mutex<Allocations>,
    /// Allocations that end when their streams come there.
    pub(crate) frees: Frees,
    /// Count of the program's memory, and its bound.
    pub(crate) quota: Option<Arc<Quota>>,
    /// Messages that have made the session's objects.
    pub(crate) log: Mutex<Log>,
    /// Messages whose codes are not known yet, by their numbers.
    pub(crate) notes: Mutex<HashMap<u64, Note>>,
    /// A capture is open.
    pub(crate) is_capturing: AtomicBool,
    /// Number of calls that waiters make.
    pub(crate) waiting: AtomicUsize,
    /// Code of a message that this process makes again.
    repeated: (Mutex<Option<u32>>, Condvar),
    pub(crate) calls: Calls,
    waiters: Waiters,
    /// Bytes of images that wait for a thread, or are loaded.
    held: AtomicUsize,
}

/// Bytes of images that a session has under way.
const MAX_HELD: usize = 1 << 30;

/// Bytes of a message's job, as long as this lives.
#[derive(Debug)]
pub(crate) struct Held {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.held.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

/// Numbers of calls. Written by the executor alone.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// By themselves.
    pub(crate) single: AtomicU64,
    /// In records.
    pub(crate) replayed: AtomicU64,
}

/// A message whose code is not known yet.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) uses: Uses,
    pub(crate) message: Logged,
    /// Capture that the stream was in before the call.
    pub(crate) capture: Option<u64>,
    pub(crate) stream: usize,
    pub(crate) context: usize,
    /// Graph of the node that it changes.
    pub(crate) graph: Option<u64>,
}

/// Message that is to be answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) lane: u32,
    pub(crate) number: u64,
    pub(crate) wants_reply: bool,
    /// Call of the table that the message is, or a number of its operation.
    pub(crate) call: u32,
    /// Its outcome is noted.
    pub(crate) is_noted: bool,
    /// This process makes it again: there is no reply.
    pub(crate) is_repeated: bool,
}

impl Shared {
    pub(crate) fn new(driver: Driver, window: Option<Window>, quota: Option<Arc<Quota>>) -> Self {
        Self {
            driver,
            handles: Mutex::default(),
            staging: Staging::default(),
            host_calls: Arc::new(HostCalls::new(quota.clone())),
            own_streams: Mutex::default(),
            primaries: Mutex::default(),
            window_at: window.as_ref().map(Window::base),
            places: Mutex::default(),
            frees: Frees::default(),
            window: Mutex::new(window),
            quota,
            log: Mutex::default(),
            notes: Mutex::default(),
            is_capturing: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            repeated: (Mutex::default(), Condvar::new()),
            calls: Calls::default(),
            waiters: Waiters::default(),
            held: AtomicUsize::new(0),
        }
    }

    /// Returns whether all of a range is memory of the program's, or free addresses of the window.
    /// An empty range is nothing's. What is about to end with its owner is the program's no more.
    pub(crate) fn has(&self, at: u64, bytes: u64) -> bool {
        if bytes == 0 || self.window_at.is_some_and(|window| has_range(window, at, bytes)) {
            return true;
        }
        let owners = lock(&self.places).owners(at, bytes, |at| self.is_of_device(at));
        owners.is_some_and(|owners| !lock(&self.handles).are_ending(owners))
    }

    /// Returns whether the driver has memory of a device at an address.
    fn is_of_device(&self, at: u64) -> bool {
        let (mut kind, ask) = (0_u32, self.driver.of(Call::cuPointerGetAttribute));
        // SAFETY: a place for a number, and an address that the driver does not read.
        let code = unsafe { ask.call([&raw mut kind as usize, ATTRIBUTE as usize, at as usize]) };
        (code, kind) == (0, DEVICE)
    }

    /// Forgets what has ended with a context.
    pub(crate) fn end_context(&self, context: u64) {
        let is_primary = lock(&self.primaries).values().any(|(id, _)| *id == context);
        let mut ended = lock(&self.handles).remove_children(context);
        ended.push(context);
        self.end_memory(ended, is_primary);
        lock(&self.own_streams).retain(|(_, of), _| *of != context);
        self.staging.forget(context);
        if let Some(window) = &mut *lock(&self.window) {
            window.end_context(&self.driver, context);
        }
        if let Some(quota) = &self.quota {
            quota.end_context(context, is_primary);
            self.frees.end_context(context, quota);
        }
    }

    /// Forgets the memory of objects that have ended: variables of modules and libraries, and what
    /// was allocated in contexts.
    pub(crate) fn end_memory(&self, ended: Vec<u64>, are_pools_over: bool) {
        let ended = ended.into_iter().collect();
        let gone = lock(&self.places).end(&ended, are_pools_over);
        let mut log = lock(&self.log);
        for at in gone {
            log.outside.remove(&at);
            log.globals.remove(&at);
        }
    }

    /// Returns contexts that may have work, with the driver's handles.
    pub(crate) fn contexts(&self) -> Vec<(u64, usize)> {
        let all = lock(&self.handles).all(Kind::Context);
        let primaries = lock(&self.primaries);
        let is_over = |id: u64| primaries.values().any(|known| *known == (id, 0));
        all.into_iter().filter(|(id, _)| !is_over(*id)).collect()
    }

    /// Answers a message, or reports its failure if it has no reply.
    pub(crate) fn answer(&self, request: Request, code: u32, bytes: &[u8]) {
        if request.is_noted {
            self.settle(request.number, code, bytes);
        }
        if request.is_repeated {
            *lock(&self.repeated.0) = Some(code);
            self.repeated.1.notify_all();
            return;
        }
        let endpoint = self.host_calls.endpoint();
        let sent = if request.wants_reply {
            let head = [code.to_le_bytes(), [0; 4]].concat();
            if Self::has_waited(request.call) {
                // Before the reply, as a driver of this machine writes it before it returns.
                Printed::take(|bytes| {
                    let body = KernelPrinted { reserved: U64::new(0) };
                    let parts = [hot_bytes(&body), bytes];
                    let _ = endpoint.push(KernelPrinted::OP, 0, &parts); // as below
                });
            }
            let sent = endpoint.reply(request.number, Ok(&[&head, bytes]));
            endpoint.flush();
            sent
        } else if code != 0 {
            Self::drop_printed(request.call);
            let body = Failed { code: U32::new(code), call: U32::new(request.call) };
            endpoint.post(Failed::OP, request.lane, &[hot_bytes(&body)]).map(|_| ())
        } else {
            Self::drop_printed(request.call);
            Ok(())
        };
        let _ = sent; // the session is over, and this process with it
    }

    /// Drops what kernels have printed, of which the client wants no reply: it would stay in
    /// memory.
    fn drop_printed(call: u32) {
        if Self::has_waited(call) {
            Printed::take(|_| ());
        }
    }

    /// Returns whether a call may have waited for kernels, which have printed then.
    fn has_waited(call: u32) -> bool {
        match CALLS.get(call as usize) {
            Some(spec) => spec.way == Way::Blocking,
            None => [ToDevice::OP, ToHost::OP].iter().any(|op| call == u32::MAX - u32::from(*op)),
        }
    }

    /// Waits for the code of a message that this process makes again.
    pub(crate) fn repeated(&self) -> u32 {
        let mut code = lock(&self.repeated.0);
        loop {
            match code.take() {
                Some(code) => return code,
                None => {
                    code =
                        self.repeated.1.wait(code).unwrap_or_else(|poisoned| poisoned.into_inner());
                }
            }
        }
    }

    /// Has another thread do this, in a context, which does not end meanwhile.
    pub(crate) fn wait_for(
        self: &Arc<Self>,
        context: usize,
        job: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        self.wait_with(context, Vec::new(), job);
    }

    /// As [`wait_for`](Self::wait_for), with objects that don't end meanwhile either.
    pub(crate) fn wait_with(
        self: &Arc<Self>,
        context: usize,
        mut ids: Vec<u64>,
        job: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        let (this, relaxed) = (self.clone(), self.clone());
        {
            let mut handles = lock(&self.handles);
            ids.extend(handles.id_of(Kind::Context, context));
            handles.begin_use(&ids);
        }
        let job = Box::new(move || {
            this.driver.set_context(context);
            job(&this);
            lock(&this.handles).end_use(&ids);
            this.waiting.fetch_sub(1, Ordering::SeqCst);
        });
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let quota = self.quota.as_ref();
        let may_begin = || quota.is_none_or(|of| of.take_of(Resource::Threads, 1).is_ok());
        let begin = move || relaxed.driver.relax_captures();
        if let Err(error) = self.waiters.run(job, may_begin, begin) {
            self.host_calls.endpoint().end(error);
        }
    }

    /// Counts bytes that a message's job has, until the value is dropped.
    ///
    /// # Errors
    ///
    /// `OUT_OF_MEMORY`: jobs have too many together.
    pub(crate) fn hold(self: &Arc<Self>, bytes: usize) -> Result<Held, u32> {
        let held = Held { shared: self.clone(), bytes };
        let before = self.held.fetch_add(bytes, Ordering::SeqCst);
        if before + bytes > MAX_HELD { Err(OUT_OF_MEMORY) } else { Ok(held) }
    }
}

impl Shared {
    /// The driver's number of the capture that a stream is part of.
    pub(crate) fn capture_of(&self, stream: usize) -> Option<u64> {
        let (mut status, mut number) = (0_u32, 0_u64);
        let places = [&raw mut status as usize, &raw mut number as usize];
        let ask = self.driver.of(Call::cuStreamGetCaptureInfo);
        // SAFETY: a stream of the driver's, and places for numbers.
        let code = unsafe { ask.call([stream, places[0], places[1]]) };
        (code == 0 && status != 0).then_some(number)
    }

    /// Notes the outcome of a message's call, whose reply is `bytes`.
    fn settle(&self, number: u64, code: u32, bytes: &[u8]) {
        let Some(note) = lock(&self.notes).remove(&number) else { return };
        let Note { uses, message, capture, stream, context, graph } = note;
        let first = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let mut log = lock(&self.log);
        if uses.effect == Effect::EndsCapture {
            if let Some(number) = capture {
                let mut all = uses.ids.clone();
                all.push(message.context);
                log.capture(number, all, message);
                log.end_capture(number, (code == 0 && first != 0).then_some(first));
            }
            self.is_capturing.store(log.is_capturing(), Ordering::Relaxed);
            return;
        }
        if code != 0 {
            return;
        }
        let mut all = uses.ids.clone();
        all.push(message.context);
        let mut made = Vec::new();
        match uses.effect {
            Effect::Makes(id) => made.push(id),
            Effect::Finds if lock(&self.handles).take_named(first) => made.push(first),
            Effect::Changes(id) => made.push(graph.unwrap_or(id)), // of a node: its graph
            Effect::Always => {}
            Effect::Allocates => {
                log.outside.insert(first);
                return;
            }
            Effect::Frees(at) => {
                log.outside.remove(&at);
                return;
            }
            Effect::TellsGlobal => {
                log.globals.insert(first);
                return;
            }
            Effect::Finds => return,
            Effect::BeginsCapture | Effect::Works | Effect::EndsCapture => {
                let is_begin = uses.effect == Effect::BeginsCapture;
                self.driver.set_context(context);
                if let Some(number) = capture.or_else(|| self.capture_of(stream)) {
                    log.capture(number, all, message);
                    self.prune(&mut log);
                }
                if is_begin {
                    self.is_capturing.store(log.is_capturing(), Ordering::Relaxed);
                }
                return;
            }
        }
        // A node is part of its graph.
        let graphs = made.iter().filter_map(|id| lock(&self.handles).graph_of(*id));
        let graphs: Vec<u64> = graphs.collect();
        made.extend(graphs);
        log.add(made, all, message);
        self.prune(&mut log);
    }

    fn prune(&self, log: &mut Log) {
        if !log.is_long() && !log.is_full {
            return;
        }
        let handles = lock(&self.handles);
        log.prune(|id| handles.is_live(id));
    }
}
