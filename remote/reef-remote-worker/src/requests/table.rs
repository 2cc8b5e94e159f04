//! Calls of the table.

use super::addresses::{NamedMemory, filled, named};
use super::caller::{Caller, CallingThread};
use super::charges::Change;
use crate::driver::Function;
use crate::reader::{Reader, words};
use crate::state::allocations::{Allocation, MemoryKind};
use crate::state::lock::lock;
use crate::state::shared::Request;
use crate::state::shared::Shared;
use reef_cuda_abi::codes::{INVALID_CONTEXT, INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED};
use reef_remote_calls::{
    Arg, CALLS, Call, Kind, MAX_ARGS, Spec, TableCall, Way, are_context_flags_known,
    pointer_attribute_len,
};
use reef_wire::{Error, Hot, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of what a fill in a graph is described by.
const FILL_LEN: usize = 40;

/// Time for which an object's end waits for calls of waiters that have it: one that has just been
/// answered has it for a moment. And the time between two attempts.
const END_TIMEOUT: Duration = Duration::from_secs(1);
const END_INTERVAL: Duration = Duration::from_micros(50);

/// Upper bound of handles in one list.
const MAX_HANDLES: u64 = 1 << 16;

/// Call with all of its arguments.
struct Prepared {
    spec: &'static Spec,
    function: Function,
    args: [usize; MAX_ARGS],
    /// Places that the arguments point to.
    places: [Option<Box<[u64]>>; MAX_ARGS],
    /// The program wants the result.
    is_wanted: [bool; MAX_ARGS],
    /// Numbers of the objects that the arguments name.
    ids: [u64; MAX_ARGS],
    context: u64,
    /// Object that it may end, from which other calls are kept until it is over.
    ends: Option<u64>,
    /// The driver's number of the capture that it is a part of.
    capture: Option<u64>,
    /// Memory that it frees, which no call that comes later may name.
    freed: Option<(u64, Allocation)>,
}

/// Makes a call of the table, or has a waiter make it.
///
/// # Errors
///
/// `Protocol` for a body that cannot be.
pub(crate) fn table_call(
    caller: &mut Caller,
    lane: CallingThread,
    request: Request,
    body: &[u8],
) -> Result<()> {
    let (head, rest) = TableCall::split(body)?;
    let call = usize::from(head.call.get());
    let request = Request { call: call as u32, ..request };
    let spec = CALLS.get(call).ok_or_else(|| Error::Protocol(format!("call {call}: no such")))?;
    let prepared = prepare(caller, lane, call, spec, Reader(rest))?;
    let prepared = prepared.and_then(|mut prepared| {
        prepared.begin_end(&caller.shared)?;
        prepared.begin_free(&caller.shared);
        Ok(prepared)
    });
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(code) => {
            caller.shared.answer(request, code, &[]);
            return Ok(());
        }
    };
    if spec.way == Way::Blocking {
        let ids = prepared.ids.into_iter().filter(|id| *id != 0).collect();
        let job = move |shared: &Arc<Shared>| make(shared, prepared, request);
        caller.shared.wait_with(lane.handle, ids, job);
    } else {
        make(&caller.shared, prepared, request);
    }
    if is_about_contexts(spec) {
        caller.forget_current();
    }
    Ok(())
}

fn is_global(spec: &'static Spec) -> bool {
    [Call::cuModuleGetGlobal_v2, Call::cuLibraryGetGlobal]
        .iter()
        .any(|call| std::ptr::eq(spec, call.spec()))
}

fn is_about_contexts(spec: &Spec) -> bool {
    spec.args.iter().any(|arg| matches!(arg, Arg::New(Kind::Context) | Arg::End(Kind::Context)))
        || spec.name == c"cuDevicePrimaryCtxReset_v2"
        || spec.name == c"cuDevicePrimaryCtxRelease_v2"
}

/// Reads the arguments. The inner error is the driver's code for a handle that isn't there.
fn prepare(
    caller: &mut Caller,
    lane: CallingThread,
    call: usize,
    spec: &'static Spec,
    mut rest: Reader<'_>,
) -> Result<Result<Prepared, u32>> {
    let function = caller.shared.driver.table(call);
    let mut prepared = Prepared {
        spec,
        function,
        args: [0; MAX_ARGS],
        places: [const { None }; MAX_ARGS],
        is_wanted: [true; MAX_ARGS],
        ids: [0; MAX_ARGS],
        context: lane.context,
        ends: None,
        capture: None,
        freed: None,
    };
    let mut lists = [None; MAX_ARGS];
    for (at, arg) in spec.args.iter().enumerate() {
        let mut place = None;
        let value = match *arg {
            Arg::Word32 => rest.word()? as u32 as usize,
            Arg::Word64 => rest.word()? as usize,
            Arg::Handle(kind) | Arg::End(kind) => {
                let id = rest.word()?;
                prepared.ids[at] = id;
                let handle = match arg {
                    Arg::End(_) => lock(&caller.shared.handles).get(kind, id), // no default stream
                    _ => caller.resolve(lane, kind, id),
                };
                match handle {
                    Ok(handle) => handle,
                    Err(code) => return Ok(Err(code)),
                }
            }
            Arg::Handles(kind, count) => {
                let ids = rest.bytes()?;
                let handle = |id: &[u8]| {
                    let id = u64::from_le_bytes(id.try_into().expect("it has 8 bytes"));
                    lock(&caller.shared.handles).get(kind, id).map(|handle| handle as u64)
                };
                lists[at] = Some((count, ids.len() as u64 / 8));
                match ids.chunks_exact(8).map(handle).collect::<Result<Box<[u64]>, u32>>() {
                    Ok(handles) => place = Some(handles),
                    Err(code) => return Ok(Err(code)),
                }
                0
            }
            Arg::New(_) | Arg::Known(_) => {
                prepared.ids[at] = rest.word()?;
                place = Some(vec![0; 1].into_boxed_slice());
                0
            }
            Arg::Out(bytes) => {
                prepared.is_wanted[at] = rest.word()? != 0;
                // The length of a variable is asked for in any case.
                let is_len = at == 1 && is_global(spec);
                if prepared.is_wanted[at] || is_len {
                    place = Some(vec![0; bytes.div_ceil(8)].into_boxed_slice());
                }
                0
            }
            Arg::In(bytes) => {
                let given = rest.bytes()?;
                if given.len() != bytes {
                    return Err(Error::Protocol(format!("{:?}: {bytes} bytes", spec.name)));
                }
                place = Some(words(given));
                0
            }
            Arg::Text => {
                place = Some(words(rest.bytes()?));
                0
            }
            Arg::Null => 0,
        };
        prepared.args[at] = place.as_ref().map_or(value, |place| place.as_ptr() as usize);
        prepared.places[at] = place;
    }
    for (count, len) in lists.into_iter().flatten() {
        let asked = prepared.args[count] as u64;
        if asked != len || asked > MAX_HANDLES {
            return Ok(Err(INVALID_VALUE));
        }
    }
    if !are_context_flags_known(spec, &prepared.args) {
        return Ok(Err(NOT_SUPPORTED));
    }
    if prepared.asks_what_is_told() && prepared.names_own_memory(&caller.shared) {
        Ok(Ok(prepared))
    } else if prepared.is(Call::cuMemGetAddressRange_v2) {
        Ok(Err(NOT_FOUND))
    } else {
        Ok(Err(INVALID_VALUE))
    }
}

/// Makes the call, and answers.
fn make(shared: &Arc<Shared>, mut prepared: Prepared, request: Request) {
    let change = match &shared.quota {
        None => Change::No,
        Some(quota) => {
            let Prepared { spec, args, context, .. } = &prepared;
            match Change::prepare(shared, quota, spec, args, *context) {
                Ok(change) => change,
                Err(code) => {
                    prepared.restore_freed(shared);
                    let bytes = prepared.results(shared, code);
                    prepared.end_over(shared);
                    return shared.answer(request, code, &bytes);
                }
            }
        }
    };
    // SAFETY: the arguments are what the table says of the function: numbers, handles of the
    // driver's, memory of the program's on the device, and places of this call's, of the sizes that
    // the function uses.
    let code = unsafe { prepared.function.call(prepared.args) };
    match code {
        0 => prepared.note_memory(shared),
        _ => prepared.restore_freed(shared),
    }
    if let Some(quota) = &shared.quota {
        let at = prepared.first_word(0);
        let owner = if matches!(change, Change::No) { 0 } else { prepared.owner(shared) };
        change.settle(shared, quota, prepared.context, owner, code, at);
    }
    let bytes = prepared.results(shared, code);
    if let (Some(number), true) = (prepared.capture, prepared.is(Call::cuStreamEndCapture)) {
        let graph = bytes.first_chunk().map_or(0, |id| u64::from_le_bytes(*id));
        lock(&shared.places).end_capture(number, graph);
    }
    prepared.end_over(shared);
    shared.answer(request, code, &bytes);
}

impl Prepared {
    /// Returns the first word of an argument's place. Zero: it has none, such as an empty list.
    fn first_word(&self, at: usize) -> u64 {
        self.places[at].as_deref().and_then(|place| place.first().copied()).unwrap_or(0)
    }

    /// Returns whether the call asks for no handle of the driver's, and no address of this process.
    fn asks_what_is_told(&self) -> bool {
        let attribute = self.args[1] as u32;
        !self.is(Call::cuPointerGetAttribute) || pointer_attribute_len(attribute).is_some()
    }

    /// Returns whether all memory that the call names is the program's.
    fn names_own_memory(&self, shared: &Shared) -> bool {
        let fills = self.spec.args.iter().zip(&self.places);
        let fills = fills.filter(|(arg, _)| **arg == Arg::In(FILL_LEN));
        let filled = fills.map(|(_, params)| filled(params.as_deref().unwrap_or_default()));
        named(self.spec, &self.args).into_iter().chain(filled).all(|named| match named {
            NamedMemory::Range(at, bytes) => shared.has(at, bytes),
            NamedMemory::Allocation(at) => {
                at == 0 || shared.has(at, 1) && lock(&shared.places).begins(at)
            }
        })
    }

    /// Notes memory that the program is told of.
    fn note_memory(&self, shared: &Shared) {
        let (at, second) = (self.first_word(0), self.first_word(1));
        if at == 0 {
            return; // the client did not ask for the address
        }
        let put = |bytes, owners, kind| lock(&shared.places).put(at, bytes, owners, kind);
        let of_context = [self.context, 0];
        if self.is(Call::cuMemAlloc_v2) {
            put(self.args[1] as u64, of_context, MemoryKind::Linear);
        } else if self.is(Call::cuMemAllocAsync) || self.is(Call::cuMemAllocFromPoolAsync) {
            let kind = self.capture.map_or(MemoryKind::Pooled, |_| MemoryKind::OfGraph);
            put(self.args[1] as u64, [self.owner(shared), 0], kind);
            self.capture.into_iter().for_each(|number| lock(&shared.places).capture(number, at));
        } else if self.is(Call::cuMemAllocPitch_v2) {
            let bytes = second.saturating_mul(self.args[3] as u64);
            put(bytes, of_context, MemoryKind::Linear);
        } else if self.is(Call::cuLibraryGetGlobal) {
            put(second, [self.ids[2], self.context], MemoryKind::Linear);
        } else if self.is(Call::cuModuleGetGlobal_v2) {
            put(second, [self.ids[2], 0], MemoryKind::Linear); // a module ends with its context
        }
    }

    /// Returns the context of the stream that the call is of, or the current one.
    fn owner(&self, shared: &Shared) -> u64 {
        let stream = self.spec.args.iter().position(|arg| *arg == Arg::Handle(Kind::Stream));
        let of = stream.and_then(|at| lock(&shared.handles).context_of(self.ids[at]));
        of.unwrap_or(self.context)
    }

    /// Takes the memory that the call frees, before a waiter makes it.
    fn begin_free(&mut self, shared: &Shared) {
        self.capture = self.find_capture(shared);
        let frees =
            self.is(Call::cuMemFree_v2) || self.is(Call::cuMemFreeAsync) && self.capture.is_none();
        let at = self.args[0] as u64;
        self.freed = frees.then(|| Some((at, lock(&shared.places).take(at)?))).flatten();
    }

    /// Puts back what the call has not freed.
    fn restore_freed(&mut self, shared: &Shared) {
        if let Some((at, place)) = self.freed.take() {
            lock(&shared.places).restore(at, place);
        }
    }

    /// Returns the driver's number of the capture that the call is a part of.
    fn find_capture(&self, shared: &Shared) -> Option<u64> {
        let stream = self.spec.args.iter().position(|arg| *arg == Arg::Handle(Kind::Stream));
        let stream = stream.filter(|_| shared.is_capturing.load(Ordering::Relaxed))?;
        shared.capture_of(self.args[stream])
    }

    /// Notes objects that begin and end, and returns the results as the client expects them.
    fn results(&mut self, shared: &Shared, code: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        if code == NOT_FOUND && self.places.iter().all(Option::is_none) {
            return bytes;
        }
        for (at, arg) in self.spec.args.iter().enumerate() {
            let (place, first) = (self.places[at].as_deref(), self.first_word(at));
            match *arg {
                Arg::Out(len) => {
                    let Some(place) = place.filter(|_| self.is_wanted[at]) else { continue };
                    let shown = if self.spec.name == c"cuGraphExecUpdate_v2" { 4 } else { len };
                    let all: Vec<u8> = place.iter().flat_map(|word| word.to_ne_bytes()).collect();
                    bytes.extend_from_slice(&all[..shown]);
                    bytes.resize(bytes.len() + len.next_multiple_of(8) - shown, 0);
                }
                Arg::New(kind) if code == 0 => {
                    let parent = self.parent(kind, at);
                    let mut handles = lock(&shared.handles);
                    // The client chose a number that it uses already: its own loss.
                    let _ = handles.insert(kind, self.ids[at], first as usize, parent);
                    drop(handles);
                    if kind == Kind::Exec || self.is(Call::cuGraphClone) {
                        lock(&shared.places).copy_graph(self.ids[1], self.ids[at]);
                    }
                }
                Arg::Known(kind) => {
                    let id = match code {
                        0 => self.name(shared, kind, at, first as usize),
                        _ => 0,
                    };
                    if code == 0 && self.is(Call::cuDevicePrimaryCtxRetain) {
                        lock(&shared.primaries).entry(self.args[1]).or_insert((id, 0)).1 += 1;
                    }
                    bytes.extend_from_slice(&id.to_le_bytes());
                }
                Arg::End(kind) if code == 0 => {
                    match kind {
                        Kind::Context => shared.end_context(self.ids[at]),
                        Kind::Stream => shared.frees.end_stream(self.args[at]),
                        _ => {}
                    }
                    let ended = lock(&shared.handles).remove(self.ids[at]);
                    if let Kind::Module | Kind::Library | Kind::Graph | Kind::Exec = kind {
                        shared.end_memory(ended, false);
                    }
                }
                _ => {}
            }
        }
        let is_release = self.is(Call::cuDevicePrimaryCtxRelease_v2);
        if is_release && code != 0 {
            self.count_retains(shared, |retains| retains + 1); // it was counted as released
        }
        if code == 0 && (is_release || self.is(Call::cuDevicePrimaryCtxReset_v2)) {
            bytes.extend_from_slice(&u64::from(end_primary(shared, self.args[0])).to_le_bytes());
        }
        bytes
    }

    /// Keeps other calls from the object that this one may end.
    ///
    /// # Errors
    ///
    /// The driver's code for an object that a waiter's call has.
    fn begin_end(&mut self, shared: &Shared) -> std::result::Result<(), u32> {
        if self.is(Call::cuDevicePrimaryCtxRetain) {
            return self.await_end(shared);
        }
        let of = |(at, arg): (usize, &Arg)| match *arg {
            Arg::End(kind) if self.ids[at] != 0 => Some((kind, self.ids[at])),
            _ => None,
        };
        let ended = self.spec.args.iter().enumerate().find_map(of);
        let primary = || Some((Kind::Context, self.ended_primary(shared)?));
        if let Some((kind, id)) = ended.or_else(primary) {
            let until = Instant::now() + END_TIMEOUT;
            loop {
                let begun = lock(&shared.handles).begin_end(kind, id);
                match begun {
                    Ok(()) => break,
                    Err(code) if Instant::now() > until => return Err(code),
                    Err(_) => thread::sleep(END_INTERVAL),
                }
            }
            self.ends = Some(id);
            if kind == Kind::Context {
                shared.frees.begin_end(&shared.driver, id);
            }
        }
        if self.is(Call::cuDevicePrimaryCtxRelease_v2) {
            self.count_retains(shared, |retains| retains.saturating_sub(1));
        }
        Ok(())
    }

    /// Waits until no call ends the primary context that this one retains: afterwards it could not
    /// be told whether that has ended.
    ///
    /// # Errors
    ///
    /// `INVALID_CONTEXT`: a call that ends it waits for the device.
    fn await_end(&self, shared: &Shared) -> std::result::Result<(), u32> {
        let id = lock(&shared.primaries).get(&self.args[1]).map_or(0, |(id, _)| *id);
        let until = Instant::now() + END_TIMEOUT;
        while lock(&shared.handles).is_ending(id) {
            if Instant::now() > until {
                return Err(INVALID_CONTEXT);
            }
            thread::sleep(END_INTERVAL);
        }
        Ok(())
    }

    /// Returns the primary context that the call ends, as far as it is counted here.
    fn ended_primary(&self, shared: &Shared) -> Option<u64> {
        let is_release = self.is(Call::cuDevicePrimaryCtxRelease_v2);
        if !is_release && !self.is(Call::cuDevicePrimaryCtxReset_v2) {
            return None;
        }
        let (id, retains) = lock(&shared.primaries).get(&self.args[0]).copied()?;
        (!is_release || retains <= 1).then_some(id)
    }

    fn count_retains(&self, shared: &Shared, count: impl FnOnce(u64) -> u64) {
        if let Some((_, retains)) = lock(&shared.primaries).get_mut(&self.args[0]) {
            *retains = count(*retains);
        }
    }

    /// Lets other calls have the object that this one was to end.
    fn end_over(&self, shared: &Shared) {
        self.ends.into_iter().for_each(|id| lock(&shared.handles).end_over(id));
    }

    /// Names what the driver has found. A function or module of a library ends with that, and with
    /// its context.
    fn name(&self, shared: &Shared, kind: Kind, at: usize, handle: usize) -> u64 {
        let parent = self.parent(kind, at);
        let mut handles = lock(&shared.handles);
        let id = handles.name(kind, handle, parent);
        if let Kind::Function | Kind::Module = kind {
            let of = |(at, arg): (usize, &Arg)| match arg {
                Arg::Handle(Kind::Library) => Some(self.context),
                Arg::Handle(Kind::Kernel | Kind::Function) => handles.library_of(self.ids[at]),
                _ => None,
            };
            let other = self.spec.args.iter().enumerate().find_map(of);
            other.into_iter().for_each(|other| handles.also_ends_with(id, other));
        }
        id
    }

    fn is(&self, call: Call) -> bool {
        std::ptr::eq(self.spec, call.spec())
    }

    /// Object with which a new one ends: the first module, library or graph among the arguments, or
    /// the context. A context ends with no other, and a pool is its device's.
    fn parent(&self, kind: Kind, new: usize) -> u64 {
        if let Kind::Context | Kind::Pool = kind {
            return 0;
        }
        let of = |(at, arg): (usize, &Arg)| {
            let kind = match arg {
                Arg::Handle(kind) => *kind,
                _ => return None,
            };
            let is_parent = matches!(
                (kind, self.spec.args[new]),
                (Kind::Module, _)
                    | (Kind::Library, _)
                    | (Kind::Graph, Arg::New(Kind::Node) | Arg::Known(Kind::Node))
            );
            is_parent.then_some(self.ids[at])
        };
        self.spec.args.iter().enumerate().find_map(of).unwrap_or(self.context)
    }
}

/// Forgets what was in a device's primary context, if that has ended. Its handle stays the same.
fn end_primary(shared: &Shared, device: usize) -> bool {
    let (mut flags, mut is_active) = (0_u32, 0_i32);
    let places = [&raw mut flags as usize, &raw mut is_active as usize];
    let state = shared.driver.of(Call::cuDevicePrimaryCtxGetState);
    // SAFETY: places for numbers.
    let code = unsafe { state.call([device, places[0], places[1]]) };
    let mut primaries = lock(&shared.primaries);
    let context = primaries.get_mut(&device);
    if let (0, 0, Some((context, retains))) = (code, is_active, context) {
        let context = *context;
        *retains = 0;
        drop(primaries);
        shared.end_context(context);
        return true;
    }
    false
}
