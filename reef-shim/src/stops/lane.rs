//! Lane: the slices of one stream, one of which runs at a time.

use super::agent;
use super::driver;
use super::ground::Ground;
use super::number::Number;
use crate::driver::calls::{self, Stream};
use reef_guest::hold::Holders;
use reef_ptx::twin::{Launch, Mode, Slice};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places of a lane's words on the device: the stop word, and behind it that of stopped blocks and
/// the number of complete runs.
const STOP: u64 = 0;
const DIRTY: u64 = 128;
const COMPLETE: u64 = 132;

/// Device addresses of a lane's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) words: u64,
    pub(super) map: u64,
    pub(super) host: u64,
}

/// Words that the device writes and the host reads, by their index.
#[derive(Clone, Copy, Debug)]
enum Word {
    /// Number up to which runs are complete.
    Done,
    /// Number of the last first run that began, and of the last one that ended.
    Begun,
    Ended,
    /// The same of resumes.
    Resumed,
    EndedAgain,
}

const WORD_COUNT: usize = 5;

/// What is launched again when a slice is resumed.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) twin: usize,
    pub(crate) settle: usize,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    /// The kernel's own parameters, and the index at which each begins.
    pub(crate) bytes: Vec<u64>,
    pub(crate) places: Vec<usize>,
    /// Stops of launches like this.
    pub(crate) stops: Arc<AtomicU64>,
}

/// Slice that may be on the device.
#[derive(Debug)]
struct Run {
    /// The last run that is enqueued.
    number: Number,
    kept: Arc<Kept>,
    slice: Slice,
    may_be_stopped: bool,
}

#[derive(Debug, Default)]
struct Runs {
    /// Number of the last slice.
    last: u32,
    waiting: VecDeque<Run>,
}

/// Lane of a stream.
#[derive(Debug)]
pub(crate) struct Lane {
    places: Places,
    words: [&'static AtomicU32; WORD_COUNT],
    runs: Mutex<Runs>,
}

impl Lane {
    pub(super) fn new(places: Places, word: impl Fn(usize) -> &'static AtomicU32) -> Self {
        Self { places, words: std::array::from_fn(word), runs: Mutex::default() }
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, word: Word) -> u32 {
        self.words[word as usize].load(Acquire)
    }

    fn address(&self, word: Word) -> u64 {
        self.places.host + 4 * word as u64
    }

    /// Launches a slice on its stream, behind its gate. Returns the driver's code.
    pub(crate) fn launch(
        &self,
        stream: Stream,
        slice: &Slice,
        kept: &Arc<Kept>,
        may_be_stopped: bool,
    ) -> u32 {
        let mut runs = self.runs();
        runs.last = runs.last.wrapping_add(1);
        let number = Number::first(runs.last);
        let is_begun = self.write(stream.0, Word::Begun, number);
        let code = kept.launch(stream.0, slice.blocks, &self.run(number, slice, kept));
        if code != 0 {
            return code;
        }
        // A slice whose end can't be seen isn't stopped: nothing waits for it.
        let is_waited_for = is_begun
            && self.settle(stream.0, kept, number, Word::Ended)
            && self.wait(stream.0, self.address(Word::Done), number.last());
        if is_waited_for && may_be_stopped {
            let is_idle = runs.waiting.is_empty();
            runs.waiting.push_back(Run {
                number,
                kept: kept.clone(),
                slice: *slice,
                may_be_stopped,
            });
            if is_idle {
                agent::wake();
            }
        }
        0
    }

    /// Drops slices that have ended. Returns whether others are left.
    pub(super) fn drop_ended(&self) -> bool {
        let mut runs = self.runs();
        let done = self.read(Word::Done);
        let is_done = |run: &Run| Number(run.number.last()).is_reached(done);
        while runs.waiting.front().is_some_and(is_done) {
            runs.waiting.pop_front();
        }
        !runs.waiting.is_empty()
    }

    /// Stops the slice that runs, if there is one. The context must be current.
    pub(super) fn stop(&self, ground: &Ground) {
        let mut runs = self.runs();
        let Some(run) = runs.waiting.front_mut() else { return };
        let (number, Some(next)) = (run.number, run.number.next()) else { return };
        if !run.may_be_stopped || !self.is_running(number) {
            return;
        }
        // Without a resume behind it, nothing is stopped.
        run.may_be_stopped = self.enqueue_resume(ground, run, next);
        if run.may_be_stopped {
            run.number = next;
            // SAFETY: a word of ours, of memory that its context keeps.
            let code =
                unsafe { calls::write_value(ground.stops, self.places.words + STOP, number.0, 0) };
            if code == Some(0) {
                run.kept.stops.fetch_add(1, Relaxed);
            }
        }
    }

    /// Returns whether a run has begun and has not ended.
    fn is_running(&self, number: Number) -> bool {
        let (begun, ended) = match number.is_first() {
            true => (Word::Begun, Word::Ended),
            false => (Word::Resumed, Word::EndedAgain),
        };
        number.is_reached(self.read(begun)) && !number.is_reached(self.read(ended))
    }

    fn enqueue_resume(&self, ground: &Ground, run: &Run, next: Number) -> bool {
        let (stream, kept) = (ground.resumes, &run.kept);
        // Resumes follow each other in their stream.
        let is_behind =
            !run.number.is_first() || self.wait(stream, self.address(Word::Ended), run.number.0);
        is_behind
            && self.wait(stream, ground.branch.context.gate(), Holders::PASS)
            && self.write(stream, Word::Resumed, next)
            && kept.launch(stream, run.slice.blocks, &self.run(next, &run.slice, kept)) == 0
            && self.settle(stream, kept, next, Word::EndedAgain)
    }

    fn write(&self, stream: usize, word: Word, number: Number) -> bool {
        // SAFETY: a word of ours, which its context keeps registered.
        unsafe { calls::write_value(stream, self.address(word), number.0, 0) == Some(0) }
    }

    /// Waits until a word has a number, or a later one.
    fn wait(&self, stream: usize, at: u64, number: u32) -> bool {
        // SAFETY: a word of ours, or of the guest's page, which its context keeps registered.
        unsafe { calls::wait_value(stream, at, number, 0) == Some(0) }
    }

    fn settle(&self, stream: usize, kept: &Kept, number: Number, ended: Word) -> bool {
        let mut addresses =
            [self.places.words + DIRTY, self.address(Word::Done), self.address(ended)];
        let mut number = number.0;
        let mut params: Vec<*mut c_void> =
            addresses.iter_mut().map(|at| std::ptr::from_mut(at).cast()).collect();
        params.push((&raw mut number).cast());
        // SAFETY: three addresses and a number, as the kernel has them.
        unsafe { driver::launch(kept.settle, stream, [1; 3], [1; 3], 0, params.as_mut_ptr()) == 0 }
    }

    /// Returns the twin's own parameter for a run. The map begins with the slice's first block.
    fn run(&self, number: Number, slice: &Slice, kept: &Kept) -> Launch {
        let ([x, y, z], [width, height, _]) = (slice.offset, kept.grid);
        let of = |side: u32| u64::from(side);
        let first = (of(z) * of(height) + of(y)) * of(width) + of(x);
        let mode = if number.is_first() { Mode::First } else { Mode::Resume };
        Launch {
            stop: self.places.words + STOP,
            map: self.places.map.wrapping_sub(first),
            mode,
            number: number.0,
            offset: slice.offset,
            grid: kept.grid,
            dirty: self.places.words + DIRTY,
            done: self.places.words + COMPLETE,
        }
    }
}

impl Kept {
    /// Launches the twin with some blocks. Returns the driver's code.
    pub(crate) fn launch(&self, stream: usize, blocks: [u32; 3], own: &Launch) -> u32 {
        let mut bytes = self.bytes.clone();
        let mut own = Aligned(own.bytes());
        let at = |place: &usize| (&raw mut bytes[*place]).cast();
        let mut params: Vec<*mut c_void> = self.places.iter().map(at).collect();
        params.push(own.0.as_mut_ptr().cast());
        // SAFETY: an address of each of the kernel's parameters, and of the twin's own.
        unsafe {
            driver::launch(self.twin, stream, blocks, self.block, self.shared, params.as_mut_ptr())
        }
    }
}

/// Bytes of a twin's own parameter.
#[repr(align(8))]
pub(crate) struct Aligned(pub(crate) [u8; 64]);
