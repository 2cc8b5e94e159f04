//! The device: what was put into its streams, and signals that arrive at once or when told to.

use crate::hal::calls::Start;
use crate::hal::facts::{Facts, TickRate};
use crate::hal::streams::StreamKind;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Entry of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// A launch of a function with this many blocks.
    Launch(u32, u32),
    /// The word at this address was set.
    Write(u64, u32),
    /// A wait for the word at this address.
    Wait(u64, u32),
    /// A run of what was captured.
    Graph(usize),
}

/// Action of a stream on a signal, in order.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Write(u64, u32),
    Wait(u64, u32),
    Time(u64),
}

/// An open device.
pub(crate) struct Fake {
    pub(super) facts: Facts,
    pub(crate) puts: Mutex<Vec<Put>>,
    /// The stream of each launch.
    pub(crate) launched_in: Mutex<Vec<StreamKind>>,
    /// Start of each launch.
    pub(crate) starts: Mutex<Vec<Start>>,
    /// Actions that streams have yet to take; `None`: they take them at once.
    pub(super) slow: Mutex<Option<VecDeque<Step>>>,
    /// kernels/hopper.cu: `None` doesn't ship for it; `false`: its driver refuses that.
    pub(crate) warpgroups: Option<bool>,
    /// Beginning of the names of kernels that no image has.
    pub(super) missing: Option<&'static str>,
    /// Images that were loaded.
    pub(crate) loads: AtomicU32,
    /// Calls that take locks of a real driver for long: streams opened and closed, captures,
    /// functions looked up.
    pub(crate) slow_calls: AtomicU32,
    /// Function that the next capture calls.
    pub(super) at_capture: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Number of coming writes that are refused.
    pub(crate) refused_writes: AtomicU32,
    /// Blocks next to a real-time kernel begin when that has ended.
    pub(crate) is_late: AtomicBool,
    /// No stream can be put behind another.
    pub(crate) refuses_order: AtomicBool,
    /// Waits for streams.
    pub(crate) waited: AtomicU32,
    /// Streams that were opened.
    pub(crate) opened: AtomicU32,
    /// Parts of the units, in percent, for which streams were opened.
    pub(crate) parts: Mutex<Vec<(StreamKind, u32)>>,
    /// Dynamic shared memory that functions were allowed.
    pub(crate) reserved: Mutex<Vec<u32>>,
    /// Device memory that was given back.
    pub(crate) freed: Mutex<Vec<u64>>,
    /// Memory of other processes that was.
    pub(crate) closed: Mutex<Vec<u64>>,
    /// Streams are not idle.
    pub(crate) busy: AtomicBool,
    /// Blocks that have started meet an eviction before they end.
    pub(super) hurried: AtomicBool,
    /// Blocks of guarded kernels that have taken effect.
    pub(crate) ran: Mutex<Vec<u32>>,
    /// Parameters of the newest launch.
    pub(crate) passed: AtomicUsize,
    /// Words that what is being captured will set to the time; those of what was captured.
    pub(super) capturing: Mutex<Option<Vec<u64>>>,
    pub(super) execs: Mutex<Vec<Vec<u64>>>,
    /// The device's clock: it ticks when it is looked at.
    ticks: AtomicU64,
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fake").field("puts", &self.puts).finish_non_exhaustive()
    }
}

impl Fake {
    /// One whose facts are changed so.
    pub(crate) fn with(change: impl FnOnce(&mut Facts)) -> Self {
        let mut fake = Self::default();
        change(&mut fake.facts);
        fake
    }

    /// One that takes several launches at once.
    pub(crate) fn with_graphs() -> Self {
        Self::with(|facts| facts.graphs = true)
    }

    /// One that takes several launches at once, which may start early.
    pub(crate) fn starting_early() -> Self {
        Self::with(|facts| (facts.graphs, facts.starts_early) = (true, true))
    }

    /// One that takes several launches at once, on a part of its units.
    pub(crate) fn with_parts() -> Self {
        Self::with(|facts| (facts.graphs, facts.parts) = (true, true))
    }

    /// One with tensor cores and this number of units.
    pub(crate) fn with_tensor_cores(units: u32) -> Self {
        Self::with(|facts| {
            (facts.tensor_cores, facts.units) = (true, units);
            facts.shared_per_block = 227 << 10;
        })
    }

    /// One with those and warpgroups, whose driver takes code of theirs or refuses it.
    pub(crate) fn with_warpgroups(runs: bool) -> Self {
        Self { warpgroups: Some(runs), ..Self::with_tensor_cores(132) }
    }

    /// One with tensor cores, none of whose images has a kernel with a name that begins so.
    pub(crate) fn without_kernels(missing: &'static str) -> Self {
        Self { missing: Some(missing), ..Self::with_tensor_cores(132) }
    }

    /// The next capture calls `act` before it ends.
    pub(crate) fn at_next_capture(&self, act: impl FnOnce() + Send + 'static) {
        *self.at_capture.lock() = Some(Box::new(act));
    }

    /// Makes signals arrive only when told to, from now on.
    pub(crate) fn slow_down(&self) {
        *self.slow.lock() = Some(VecDeque::new());
    }

    /// The device sets a signal, now or when told to.
    pub(super) fn signal(&self, address: u64, value: u32) {
        match &mut *self.slow.lock() {
            None => set(address, value),
            Some(steps) => steps.push_back(Step::Write(address, value)),
        }
    }

    /// The device sets a word to its time, now, when told to, or when what is being captured runs;
    /// 0: there is no word.
    pub(super) fn note_time(&self, word: u64) {
        if word == 0 {
            return;
        }
        if let Some(captured) = &mut *self.capturing.lock() {
            captured.push(word);
            return;
        }
        match &mut *self.slow.lock() {
            None => self.set_time(word),
            Some(steps) => steps.push_back(Step::Time(word)),
        }
    }

    fn set_time(&self, word: u64) {
        let now = self.ticks.fetch_add(1, Ordering::Relaxed) + 1;
        // SAFETY: addresses are those of `memory`, which is never freed.
        unsafe { AtomicU64::from_ptr(word as *mut u64) }.store(now, Ordering::Release);
    }

    /// Lets no block end before an eviction, unless it runs through.
    pub(crate) fn hurry(&self) {
        self.hurried.store(true, Ordering::Relaxed);
    }

    /// Lets all signals arrive but the first, which is another stream's.
    pub(crate) fn proceed_behind_first(&self) {
        let mut slow = self.slow.lock();
        let steps = slow.as_mut().expect("it was slowed down");
        for step in steps.drain(1..) {
            let Step::Write(address, value) = step else { panic!("nothing waits: {step:?}") };
            set(address, value);
        }
    }

    /// Lets up to `most` signals arrive, but none behind a wait that isn't over: how many did.
    pub(crate) fn proceed(&self, most: usize) -> usize {
        let mut slow = self.slow.lock();
        let steps = slow.as_mut().expect("it was slowed down");
        let mut count = 0;
        while let Some(&step) = steps.front() {
            match step {
                Step::Wait(address, value) if at::<u32>(address) != value => break,
                Step::Write(..) | Step::Time(_) if count == most => break,
                Step::Time(word) => {
                    self.set_time(word);
                    count += 1;
                }
                Step::Write(address, value) => {
                    set(address, value);
                    count += 1;
                }
                Step::Wait(..) => {}
            }
            steps.pop_front();
        }
        count
    }
}

impl Default for Fake {
    fn default() -> Self {
        let facts = Facts {
            name: "fake".into(),
            memory: None,
            uuid: None,
            units: 4,
            be_units: 4,
            padding_per_unit: u32::MAX,
            blocks_per_unit: 8,
            threads_per_unit: 1024,
            registers_per_unit: 65536,
            shared_per_unit: 65536,
            shared_per_block: 65536,
            wave: 32,
            tensor_cores: false,
            writes_values: true,
            writes_without_kernels: true,
            waits_values: true,
            tick_rate: TickRate::Known(1_000_000_000),
            graphs: false,
            starts_early: false,
            parts: false,
            features: Vec::new(),
        };
        Self {
            refused_writes: AtomicU32::new(0),
            opened: AtomicU32::new(0),
            is_late: AtomicBool::new(false),
            refuses_order: AtomicBool::new(false),
            waited: AtomicU32::new(0),
            facts,
            puts: Mutex::default(),
            launched_in: Mutex::default(),
            starts: Mutex::default(),
            slow: Mutex::new(None),
            warpgroups: None,
            missing: None,
            parts: Mutex::default(),
            loads: AtomicU32::new(0),
            slow_calls: AtomicU32::new(0),
            at_capture: Mutex::new(None),
            reserved: Mutex::default(),
            freed: Mutex::default(),
            closed: Mutex::default(),
            busy: AtomicBool::new(false),
            hurried: AtomicBool::new(false),
            ran: Mutex::default(),
            passed: AtomicUsize::new(0),
            capturing: Mutex::new(None),
            execs: Mutex::default(),
            ticks: AtomicU64::new(0),
        }
    }
}

/// The value at an address of the device.
pub(super) fn at<T: Copy>(address: u64) -> T {
    // SAFETY: addresses are those of `memory`, or of parameters that outlive the call.
    unsafe { *(address as *const T) }
}

/// Writes a word of the device.
pub(super) fn set(address: u64, value: u32) {
    // SAFETY: addresses are those of `memory`, which is never freed.
    unsafe { AtomicU32::from_ptr(address as *mut u32) }.store(value, Ordering::Release);
}
