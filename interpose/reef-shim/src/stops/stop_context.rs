//! Memory and streams of a context, in which its slices are stopped and resumed.

use super::driver;
use super::sliced_stream::{SlicedStream, StopAddresses};
use crate::driver::names;
use crate::driver::slots::real;
use crate::guest::tree::branch::Branch;
use crate::guest::tree::memory::Area;
use crate::guest::tree::stream::Stream;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};

/// Number of streams of a context whose slices can be stopped. Slices of others are launched alone.
const MAX_SLICED: usize = 16;
/// Bytes of a sliced stream's map, one for each block of a group.
pub(crate) const MAP: u64 = 512 << 10;
/// Bytes of a sliced stream's words on the device, and of its words for the host.
const WORDS: u64 = 256;
const HOST_WORDS: u64 = 64;
/// Number of streams that write a stop word: one of them may share a channel of the device with a
/// stream that waits.
const STREAMS: usize = 2;
/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

static STOP_CONTEXTS: Mutex<Vec<&'static StopContext>> = Mutex::new(Vec::new());

/// Memory and streams of a context for stops. It stays for the life of the process; the memory ends
/// with the context.
#[derive(Debug)]
pub(crate) struct StopContext {
    pub(super) branch: &'static Branch,
    /// Number of the context.
    context: u64,
    /// Device address of a word that stays zero.
    zero: u64,
    /// Streams by which stop words are written.
    pub(super) streams: [usize; STREAMS],
    sliced_streams: Vec<SlicedStream>,
    /// Stream of each sliced stream.
    owners: Mutex<[Option<&'static Stream>; MAX_SLICED]>,
    /// Number of the first sliced streams that have had a stream.
    used: AtomicUsize,
    /// Set when the driver takes no work of the context any more.
    is_lost: AtomicBool,
}

impl StopContext {
    /// Returns what the current context has, which is that of `branch`.
    ///
    /// # Errors
    ///
    /// The reason for which it has nothing.
    pub(crate) fn of(branch: &'static Branch) -> Result<&'static Self, String> {
        // Without numbers a new context or stream may look like one that has ended.
        if real(names::cuCtxGetId).is_none() || real(names::cuStreamGetId).is_none() {
            return Err("the driver doesn't number contexts and streams".into());
        }
        let mut all = STOP_CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|stop_context| stop_context.is_there());
        if let Some(known) =
            all.iter().find(|stop_context| std::ptr::eq(stop_context.branch, branch))
        {
            return Ok(known);
        }
        let new = Self::new(branch).map_err(|what| format!("the driver gives no {what}"))?;
        let new: &'static Self = Box::leak(Box::new(new));
        all.push(new);
        Ok(new)
    }

    fn new(branch: &'static Branch) -> Result<Self, &'static str> {
        let (mut least, mut greatest) = (0, 0);
        let _ = driver::priorities(&mut least, &mut greatest); // or both are 0
        let stream = |priority| {
            let mut stream = 0;
            let code = driver::create_stream(&mut stream, NON_BLOCKING, priority);
            (code == Some(0)).then_some(stream).ok_or("streams for stops")
        };
        let mut streams = [0; STREAMS];
        for at in &mut streams {
            *at = stream(greatest)?;
        }
        let bytes = WORDS + MAX_SLICED as u64 * (WORDS + MAP);
        let mut at = 0;
        if driver::allocate(&mut at, bytes as usize) != Some(0) {
            return Err("memory for stops");
        }
        // SAFETY: memory of ours that nothing uses yet.
        let is_zero = unsafe { driver::fill(at, 0, bytes as usize, streams[0]) } == Some(0)
            && driver::wait_for_stream(streams[0]) == Some(0);
        let area = Area::words().map_err(|_| "memory for words")?;
        let host = area.register().map_err(|_| "registered memory for words")?;
        if !is_zero {
            return Err("zeros for stops");
        }
        let places = |sliced: u64| StopAddresses {
            words: at + WORDS + sliced * WORDS,
            map: at + WORDS + MAX_SLICED as u64 * WORDS + sliced * MAP,
            at: host + sliced * HOST_WORDS,
        };
        let word = |sliced: u64| area.word((sliced * HOST_WORDS / 4) as usize);
        let sliced_streams =
            (0..MAX_SLICED as u64).map(|sliced| SlicedStream::new(places(sliced), word(sliced)));
        let (sliced_streams, owners, used) =
            (sliced_streams.collect(), Mutex::default(), AtomicUsize::new(0));
        let is_lost = AtomicBool::new(false);
        let context = branch.context.name();
        Ok(Self { branch, context, zero: at, streams, sliced_streams, owners, used, is_lost })
    }

    /// Returns the sliced stream of a stream, which it keeps until it ends. `None`: all are taken.
    pub(crate) fn sliced(&self, stream: &'static Stream) -> Option<&SlicedStream> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own =
            |owner: &Option<&'static Stream>| owner.is_some_and(|own| std::ptr::eq(own, stream));
        let own = owners.iter().position(is_own);
        let at = own.or_else(|| {
            let is_free = |at: &usize| match owners[*at] {
                Some(owner) => !owner.is_live() && !self.sliced_streams[*at].is_busy(),
                None => true,
            };
            (0..MAX_SLICED).find(is_free)
        })?;
        owners[at] = Some(stream);
        self.used.fetch_max(at + 1, Release);
        Some(&self.sliced_streams[at])
    }

    /// Returns the sliced streams that streams have, or had.
    pub(super) fn sliced_streams(&self) -> impl Iterator<Item = &SlicedStream> {
        self.sliced_streams.iter().take(self.used.load(Acquire))
    }

    /// Notes that slices of the context never end: the driver has given it an error that stays.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Relaxed);
    }

    /// Returns the address of a word that stops nothing.
    pub(crate) fn never(&self) -> u64 {
        self.zero
    }

    /// Returns whether its context lives.
    pub(super) fn is_there(&self) -> bool {
        let context = &self.branch.context;
        context.is_live() && context.name() == self.context
    }
}

/// Calls `visit` for what each living context has.
pub(super) fn each(mut visit: impl FnMut(&'static StopContext)) {
    let all = STOP_CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let is_used = |stop_context: &&StopContext| {
        stop_context.is_there() && !stop_context.is_lost.load(Relaxed)
    };
    all.into_iter().filter(is_used).for_each(&mut visit);
}
