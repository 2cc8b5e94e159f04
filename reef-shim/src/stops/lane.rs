//! Lane: the slices of one stream, which run one after the other.

use super::agent;
use super::driver;
use super::ground::Ground;
use super::number::{Number, RUNS};
use crate::driver::calls::{self, Stream};
use reef_ptx::twin::{Launch, Mode, Slice};
use std::ffi::c_void;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places of a lane's words on the device: the stop word, and for each run of a slice the word of
/// stopped blocks.
const STOP: u64 = 0;
const LEFT: u64 = 128;

/// Device addresses of a lane's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) words: u64,
    pub(super) map: u64,
    /// Word that the stream writes and the host reads: the number of the first run of the slice
    /// that has begun last, or of the last run once all have ended.
    pub(super) at: u64,
}

/// Copies of what a program launches, for slices of it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) twin: usize,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    /// The kernel's own parameters, and the index at which each begins.
    pub(crate) bytes: Vec<u64>,
    pub(crate) places: Vec<usize>,
}

/// What the host knows of a lane.
#[derive(Debug, Default)]
struct State {
    /// Number of the last slice.
    slice: u32,
    /// The last one of which all runs are in the stream.
    ready: u32,
    /// The last one that may not be stopped.
    whole: Option<u32>,
    /// The last run that was stopped.
    stopped: Option<Number>,
    /// The hold for which that was done.
    hold: Option<u64>,
    /// Stops of the launch that was stopped last are counted here.
    count: Option<Arc<AtomicU64>>,
}

impl State {
    /// Returns the run that is to be stopped for a hold with this number, given what the stream has
    /// said last.
    fn stop(&mut self, at: Number, hold: u64) -> Option<Number> {
        let is_whole = self.whole.is_some_and(|whole| !at.is_after(Number::first(whole).last()));
        let is_open = at.is_after(Number::first(self.ready).last());
        if self.hold == Some(hold) || is_whole || is_open || at == at.last() {
            return None;
        }
        // A run that was stopped before has ended: the next one began when the gate opened.
        let current = match self.stopped.filter(|stopped| stopped.is_of_slice(at)) {
            Some(stopped) => stopped.next()?,
            None => at,
        };
        if current == current.last() {
            return None;
        }
        (self.hold, self.stopped) = (Some(hold), Some(current));
        Some(current)
    }
}

/// Lane of a stream.
#[derive(Debug)]
pub(crate) struct Lane {
    places: Places,
    at: &'static AtomicU32,
    state: Mutex<State>,
}

impl Lane {
    pub(super) fn new(places: Places, at: &'static AtomicU32) -> Self {
        at.store(Number::first(0).last().0, Relaxed);
        Self { places, at, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Launches the runs of a slice on its stream, each behind a gate that `gated` puts before it.
    /// Returns the driver's code of the first run: without the others it is complete, as nothing stops
    /// it then. Nor does anything without a `count` of stops.
    pub(crate) fn launch(
        &self,
        stream: Stream,
        slice: &Slice,
        kept: &Kept,
        count: Option<&Arc<AtomicU64>>,
        mut gated: impl FnMut(bool, &mut dyn FnMut() -> u32) -> u32,
    ) -> u32 {
        let mut state = self.state();
        state.slice = state.slice.wrapping_add(1);
        let number = state.slice;
        drop(state);
        let first = Number::first(number);
        let mut run = |number: Number| {
            let own = self.own(number, slice, kept);
            gated(number == first, &mut || {
                if number == first && !self.write(stream, first) {
                    return driver::NOT_LAUNCHED;
                }
                kept.launch(stream.0, slice.blocks, &own)
            })
        };
        let code = run(first);
        let mut resumes = std::iter::successors(first.next(), |number| number.next());
        let is_complete = code == 0 && resumes.all(|number| run(number) == 0);
        let mut state = self.state();
        match count.filter(|_| is_complete) {
            Some(count) => state.count = Some(count.clone()),
            None => state.whole = Some(number),
        }
        state.ready = number;
        drop(state);
        agent::wake();
        code
    }

    /// Has the stream say when all slices so far have ended.
    pub(crate) fn end(&self, stream: Stream) {
        let last = Number::first(self.state().slice).last();
        let _ = self.write(stream, last); // or the agent looks until the next one
    }

    fn write(&self, stream: Stream, number: Number) -> bool {
        // SAFETY: a word of ours, which its context keeps registered.
        unsafe { calls::write_value(stream.0, self.places.at, number.0, 0) == Some(0) }
    }

    /// Returns whether slices may be on the device.
    pub(super) fn is_busy(&self) -> bool {
        let last = Number::first(self.state().slice).last();
        self.at.load(Acquire) != last.0
    }

    /// Stops the slice that runs, if there is one, for a hold with this number. The context must be
    /// current.
    pub(super) fn stop(&self, ground: &Ground, hold: u64) {
        let mut state = self.state();
        let Some(current) = state.stop(Number(self.at.load(Acquire)), hold) else { return };
        let stop = self.places.words + STOP;
        // SAFETY: a word of ours, of memory that its context keeps.
        let write = |stream| unsafe { calls::write_value(stream, stop, current.0, 0) };
        let is_written = ground.streams.map(write).contains(&Some(0));
        state.count.iter().filter(|_| is_written).for_each(|count| {
            count.fetch_add(1, Relaxed);
        });
    }

    /// Notes that the gate is open: what is closed next is another hold.
    pub(super) fn note_open(&self) {
        self.state().hold = None;
    }

    /// Returns the twin's own parameter for a run. The map begins with the slice's first block.
    fn own(&self, number: Number, slice: &Slice, kept: &Kept) -> Launch {
        let ([x, y, z], [width, height, _]) = (slice.offset, kept.grid);
        let of = |side: u32| u64::from(side);
        let first = (of(z) * of(height) + of(y)) * of(width) + of(x);
        let left = |index: u32| self.places.words + LEFT + 4 * u64::from(index % RUNS);
        Launch {
            stop: self.places.words + STOP,
            map: self.places.map.wrapping_sub(first),
            mode: if number.index() == 0 { Mode::First } else { Mode::Resume },
            number: number.0,
            offset: slice.offset,
            grid: kept.grid,
            left: left(number.index()),
            left_before: left(number.index() + RUNS - 1),
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
struct Aligned([u8; 64]);

#[cfg(test)]
mod tests {
    use super::*;

    /// State after this many slices.
    fn ready(slices: u32) -> State {
        State { slice: slices, ready: slices, ..State::default() }
    }

    #[test]
    fn each_hold_stops_one_run_but_not_the_last() {
        let (mut state, first) = (ready(3), Number::first(2));
        let mut stop = |hold| state.stop(first, hold).map(|number| number.index());
        assert_eq!(stop(1), Some(0));
        assert_eq!(stop(1), None, "for one hold");
        assert_eq!([stop(2), stop(3), stop(4), stop(5)], [Some(1), Some(2), None, None]);
        assert_eq!(state.stop(Number::first(3), 5), Some(Number::first(3)), "the next slice");
    }

    #[test]
    fn slice_without_all_runs_is_not_stopped() {
        let mut state = State { slice: 4, ..ready(3) };
        assert_eq!(state.stop(Number::first(4), 1), None);
        state.whole = Some(3);
        assert_eq!([2, 3].map(|slice| state.stop(Number::first(slice), 2)), [None, None]);
        state.ready = 4;
        assert_eq!(state.stop(Number::first(4), 3), Some(Number::first(4)));
    }

    #[test]
    fn nothing_is_stopped_once_all_have_ended() {
        assert_eq!(ready(3).stop(Number::first(3).last(), 1), None);
    }

    #[test]
    fn map_begins_with_the_first_block_of_the_slice() {
        let places = Places { words: 1 << 20, map: 1 << 21, at: 0 };
        let lane = Lane::new(places, Box::leak(Box::default()));
        let kept = Kept {
            twin: 0,
            grid: [100, 50, 20],
            block: [1; 3],
            shared: 0,
            bytes: Vec::new(),
            places: Vec::new(),
        };
        let slice = Slice { offset: [0, 30, 7], blocks: [100, 20, 1] };
        let own = lane.own(Number::first(5).next().unwrap(), &slice, &kept);
        let first = (7 * 50 + 30) * 100;
        assert_eq!((own.map + first, own.mode, own.number), (1 << 21, Mode::Resume, 21));
        assert_eq!(own.left, own.left_before + 4);
    }
}
