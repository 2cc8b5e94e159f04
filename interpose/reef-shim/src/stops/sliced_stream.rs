//! Sliced stream: the slices of one stream, which run one after the other.

use super::driver;
use super::number::{Number, next_group};
use super::wake;
use crate::driver::calls::{self, Stream};
use reef_ptx::variant::{Launch, Mode, Slice};
use std::ffi::c_void;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places of a sliced stream's words on the device: the stop word, and the words of stopped blocks,
/// of first runs and of each resume.
const STOP: u64 = 0;
const LEFT: u64 = 128;
/// Groups after which the stop word is written anew: numbers compare within 2²⁷ groups.
const REFRESHED: u32 = 1 << 20;

/// Device addresses of a sliced stream's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct StopAddresses {
    pub(super) words: u64,
    pub(super) map: u64,
    /// Word that the stream writes and the host reads: the number of the run that has begun last,
    /// or of a group's last run once all have ended.
    pub(super) at: u64,
}

/// Copies of what a program launches, for slices of it.
#[derive(Debug)]
pub(crate) struct LaunchCopy {
    pub(crate) variant: usize,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    /// The kernel's own parameters, and the index at which each begins.
    pub(crate) bytes: Vec<u64>,
    pub(crate) places: Vec<usize>,
}

/// Slices whose blocks have their resumes together.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) slices: Vec<Slice>,
    /// All of them.
    pub(crate) all: Slice,
}

/// State of a sliced stream on the host.
#[derive(Debug, Default)]
struct State {
    /// Number of the last group.
    group: u32,
    /// The last one of which all runs are in the stream.
    ready: u32,
    /// The last one that may not be stopped.
    whole: Option<u32>,
    /// The last hold for which a run was stopped, and that run.
    hold: Option<(u64, Number)>,
    /// Stops of the launch that was stopped last are counted here.
    count: Option<Arc<AtomicU64>>,
}

impl State {
    /// Returns the number of the next group.
    fn next(&mut self) -> u32 {
        self.group = next_group(self.group);
        if self.group.is_multiple_of(REFRESHED) {
            self.whole = None; // or its number would look later than those of later groups
        }
        self.group
    }

    /// Returns whether the run that has begun last is to be stopped for a hold with this number.
    fn stop(&mut self, at: Number, hold: u64) -> bool {
        let last = |group| Number::of_slice(group, 0).last();
        let is_whole = self.whole.is_some_and(|whole| !at.is_after(last(whole)));
        let is_open = at.is_after(last(self.ready));
        if self.hold == Some((hold, at)) || is_whole || is_open || at == at.last() {
            return false;
        }
        self.hold = Some((hold, at));
        true
    }
}

#[derive(Debug)]
pub(crate) struct SlicedStream {
    places: StopAddresses,
    at: &'static AtomicU32,
    state: Mutex<State>,
}

impl SlicedStream {
    pub(super) fn new(places: StopAddresses, at: &'static AtomicU32) -> Self {
        at.store(Number::of_slice(0, 0).last().0, Relaxed);
        Self { places, at, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Launches the runs of a group on its stream, each behind a gate that `gated` puts before it.
    /// `gated` is told whether the run is the first one. Nothing is stopped without a `count` of
    /// stops.
    ///
    /// # Errors
    ///
    /// The driver's code for a slice, and whether others were launched. Without its resumes a group
    /// is complete, as nothing stops it then.
    pub(crate) fn launch_group(
        &self,
        stream: Stream,
        group: &Group,
        copy: &LaunchCopy,
        count: Option<&Arc<AtomicU64>>,
        mut gated: impl FnMut(bool, &mut dyn FnMut() -> u32) -> u32,
    ) -> Result<(), (u32, bool)> {
        let number = self.state().next();
        let first = Number::of_slice(number, 0);
        if number.is_multiple_of(REFRESHED) && !self.refresh(stream, first) {
            return Err((driver::NOT_LAUNCHED, false));
        }
        let mut run = |number: Number, slice: &Slice, mode: Mode| {
            let own = self.own(number, mode, slice, &group.all, copy);
            gated(number == first, &mut || {
                if self.write(stream, number) {
                    copy.launch_blocks(stream.0, slice.blocks, &own)
                } else {
                    driver::NOT_LAUNCHED
                }
            })
        };
        let slices = group.slices.iter().enumerate();
        let mut first_runs =
            slices.map(|(at, slice)| (at, run(Number::of_slice(number, at), slice, Mode::First)));
        let failed = first_runs.find(|(_, code)| *code != 0);
        drop(first_runs);
        let is_complete = failed.is_none()
            && Number::resumes(number)
                .all(|(number, from)| run(number, &group.all, Mode::Resume(from.0)) == 0);
        let mut state = self.state();
        match count.filter(|_| is_complete) {
            Some(count) => state.count = Some(count.clone()),
            None => state.whole = Some(number),
        }
        state.ready = number;
        drop(state);
        wake::wake();
        failed.map_or(Ok(()), |(at, code)| Err((code, at > 0)))
    }

    /// Has the stream say when all groups so far have ended.
    pub(crate) fn end(&self, stream: Stream) {
        let last = Number::of_slice(self.state().group, 0).last();
        let _ = self.write(stream, last); // or the agent looks until the next one
    }

    /// Writes a stop word that stops nothing, in the program's stream: an old one would look later
    /// than the numbers of later runs.
    fn refresh(&self, stream: Stream, first: Number) -> bool {
        let (at, before) = (self.places.words + STOP, first.0.wrapping_sub(1));
        // SAFETY: a word of ours, of memory that its context keeps.
        unsafe { calls::write_value(stream.0, at, before, 0) == Some(0) }
    }

    fn write(&self, stream: Stream, number: Number) -> bool {
        // SAFETY: a word of ours, which its context keeps registered.
        unsafe { calls::write_value(stream.0, self.places.at, number.0, 0) == Some(0) }
    }

    /// Returns whether slices may be on the device.
    pub(super) fn is_busy(&self) -> bool {
        let last = Number::of_slice(self.state().group, 0).last();
        self.at.load(Acquire) != last.0
    }

    /// Stops the run that has begun last, for a hold with this number, by writes on these streams
    /// of ours. Their context must be current.
    pub(super) fn stop(&self, streams: &[usize], hold: u64) {
        let mut state = self.state();
        let current = Number(self.at.load(Acquire));
        if !state.stop(current, hold) {
            return;
        }
        let stop = self.places.words + STOP;
        // SAFETY: a word of ours, of memory that its context keeps.
        let write = |stream: &usize| unsafe { calls::write_value(*stream, stop, current.0, 0) };
        let is_written = streams.iter().filter(|stream| write(stream) == Some(0)).count() > 0;
        state.count.iter().filter(|_| is_written).for_each(|count| {
            count.fetch_add(1, Relaxed);
        });
    }

    /// Notes that the gate is open: what is closed next is another hold.
    pub(super) fn note_open(&self) {
        self.state().hold = None;
    }

    /// Returns the variant's own parameter for a run. The map begins with the group's first block.
    fn own(
        &self,
        number: Number,
        mode: Mode,
        slice: &Slice,
        all: &Slice,
        copy: &LaunchCopy,
    ) -> Launch {
        let ([x, y, z], [width, height, _]) = (all.offset, copy.grid);
        let of = |side: u32| u64::from(side);
        let first = (of(z) * of(height) + of(y)) * of(width) + of(x);
        let left = |resume: u32| self.places.words + LEFT + 4 * u64::from(resume);
        Launch {
            stop: self.places.words + STOP,
            map: self.places.map.wrapping_sub(first),
            mode,
            number: number.0,
            offset: slice.offset,
            grid: copy.grid,
            left: left(number.resume()),
            left_before: left(number.resume().saturating_sub(1)),
        }
    }
}

impl LaunchCopy {
    /// Launches the variant with some blocks. Returns the driver's code.
    pub(crate) fn launch_blocks(&self, stream: usize, blocks: [u32; 3], own: &Launch) -> u32 {
        // SAFETY: an address of each of the kernel's parameters, and of the variant's own.
        self.with_params(own, |params| unsafe {
            driver::launch(self.variant, stream, blocks, self.block, self.shared, params)
        })
    }

    /// Calls `call` with an address of each of the kernel's parameters, and of the variant's own.
    /// They are there during the call.
    pub(crate) fn with_params<T>(
        &self,
        own: &Launch,
        call: impl FnOnce(*mut *mut c_void) -> T,
    ) -> T {
        let mut own = Aligned(own.bytes());
        // The driver reads them alone.
        let at = |place: &usize| self.bytes.as_ptr().wrapping_add(*place).cast_mut().cast();
        let mut params: Vec<*mut c_void> = self.places.iter().map(at).collect();
        params.push(own.0.as_mut_ptr().cast());
        call(params.as_mut_ptr())
    }
}

/// Bytes of a variant's own parameter.
#[repr(align(8))]
struct Aligned([u8; 64]);

#[cfg(test)]
mod tests {
    use super::*;

    /// State after this many groups.
    fn ready(groups: u32) -> State {
        State { group: groups, ready: groups, ..State::default() }
    }

    #[test]
    fn each_hold_stops_one_run_but_not_the_last() {
        let (mut state, first) = (ready(3), Number::of_slice(2, 0));
        assert_eq!([1, 1, 2].map(|hold| state.stop(first, hold)), [true, false, true]);
        assert!(state.stop(Number::of_slice(2, 1), 2), "the run behind one that had ended");
        let resumes: Vec<_> = Number::resumes(2)
            .zip(3..)
            .map(|((number, _), hold)| state.stop(number, hold))
            .collect();
        assert_eq!(resumes, [true, true, false]);
        assert!(state.stop(Number::of_slice(3, 5), 6), "the next group");
    }

    #[test]
    fn group_without_all_runs_is_not_stopped() {
        let mut state = State { group: 4, ..ready(3) };
        assert!(!state.stop(Number::of_slice(4, 0), 1));
        state.whole = Some(3);
        assert_eq!([2, 3].map(|group| state.stop(Number::of_slice(group, 1), 2)), [false, false]);
        state.ready = 4;
        assert!(state.stop(Number::of_slice(4, 0), 3));
    }

    #[test]
    fn whole_group_of_long_ago_bars_no_stop() {
        let mut state = State { whole: Some(3), ..ready((1 << 27) + 2) };
        while !state.next().is_multiple_of(REFRESHED) {}
        state.ready = state.group;
        assert!(state.stop(Number::of_slice(state.group, 0), 1));
    }

    #[test]
    fn nothing_is_stopped_once_all_have_ended() {
        assert!(!ready(3).stop(Number::of_slice(3, 0).last(), 1));
    }

    #[test]
    fn map_begins_with_the_first_block_of_the_group() {
        let places = StopAddresses { words: 1 << 20, map: 1 << 21, at: 0 };
        let sliced = SlicedStream::new(places, Box::leak(Box::default()));
        let copy = LaunchCopy {
            variant: 0,
            grid: [100, 50, 20],
            block: [1; 3],
            shared: 0,
            bytes: Vec::new(),
            places: Vec::new(),
        };
        let all = Slice { offset: [0, 30, 7], blocks: [100, 20, 1] };
        let slice = Slice { offset: [0, 40, 7], blocks: [100, 10, 1] };
        let (number, from) = Number::resumes(5).nth(1).unwrap();
        let own = sliced.own(number, Mode::Resume(from.0), &slice, &all, &copy);
        let first = (7 * 50 + 30) * 100;
        assert_eq!((own.map + first, own.number, own.offset), (1 << 21, 94, [0, 40, 7]));
        assert_eq!(own.left, own.left_before + 4);
    }
}
