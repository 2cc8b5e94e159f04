//! Memory and streams of a context, in which its slices are stopped and resumed.

use super::driver;
use super::lane::{Lane, Places};
use crate::driver::names;
use crate::driver::slots::real;
use crate::guest::tree::branch::Branch;
use crate::guest::tree::memory::Area;
use crate::guest::tree::stream::Stream;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Number of streams of a context whose slices can be stopped. Slices of others are launched alone.
const LANES: usize = 16;
/// Bytes of a lane's map, one for each block of a group.
pub(crate) const MAP: u64 = 512 << 10;
/// Bytes of a lane's words on the device, and of its words for the host.
const WORDS: u64 = 256;
const HOST_WORDS: u64 = 64;
/// Number of streams that write a stop word: one of them may share a channel of the device with a
/// stream that waits.
const STREAMS: usize = 2;
/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

static GROUNDS: Mutex<Vec<&'static Ground>> = Mutex::new(Vec::new());

/// Memory and streams of a context for stops. It stays for the life of the process; the memory ends
/// with the context.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(super) branch: &'static Branch,
    /// Number of the context.
    context: u64,
    /// Device address of a word that stays zero.
    zero: u64,
    /// Streams by which stop words are written.
    pub(super) streams: [usize; STREAMS],
    lanes: Vec<Lane>,
    owners: [OnceLock<&'static Stream>; LANES],
}

impl Ground {
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
        let mut all = GROUNDS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|ground| ground.is_there());
        if let Some(known) = all.iter().find(|ground| std::ptr::eq(ground.branch, branch)) {
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
        let bytes = WORDS + LANES as u64 * (WORDS + MAP);
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
        let places = |lane: u64| Places {
            words: at + WORDS + lane * WORDS,
            map: at + WORDS + LANES as u64 * WORDS + lane * MAP,
            at: host + lane * HOST_WORDS,
        };
        let word = |lane: u64| area.word((lane * HOST_WORDS / 4) as usize);
        let lanes = (0..LANES as u64).map(|lane| Lane::new(places(lane), word(lane)));
        let (lanes, owners) = (lanes.collect(), [const { OnceLock::new() }; LANES]);
        let context = branch.context.name();
        Ok(Self { branch, context, zero: at, streams, lanes, owners })
    }

    /// Returns the lane of a stream, which it keeps. `None`: all are taken.
    pub(crate) fn lane(&self, stream: &'static Stream) -> Option<&Lane> {
        let is_of =
            |owner: &OnceLock<&'static Stream>| std::ptr::eq(*owner.get_or_init(|| stream), stream);
        self.owners.iter().position(is_of).map(|at| &self.lanes[at])
    }

    /// Returns the lanes that streams have.
    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.owners
            .iter()
            .zip(&self.lanes)
            .take_while(|(owner, _)| owner.get().is_some())
            .map(|it| it.1)
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

/// Calls `look` for what each living context has.
pub(super) fn each(mut look: impl FnMut(&'static Ground)) {
    let all = GROUNDS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    all.into_iter().filter(|ground| ground.is_there()).for_each(&mut look);
}
