//! Launches that can be stopped: what they are given, and what the device tells of them afterwards.

use crate::code::guard::{Guard, MAX_BLOCKS};
use crate::code::kernel::Kernel;
use crate::driver::buffer::Buffer;
use crate::driver::context::Context;
use crate::driver::signal::HostSignal;
use crate::driver::stream::Stream;
use crate::gpu::Gpu;
use crate::hal::calls::{LaunchConfig, Start, Vendor};
use crate::launch::checkpoint::Segment;
use crate::launch::stop_lists::{BANK, StopList, StopLists};
use reef_core::{Args, Error, Launch, PreemptLevel, Result};
use std::ffi::c_void;
use std::sync::Arc;

/// Offset at which a bank's report says that it is done, if others follow.
const SPARE_WORD: u64 = (BANK * size_of::<u32>()) as u64;
/// Threads of the kernel that reports.
const REPORT_THREADS: u32 = 256;
/// Parameters in addition to the words: guard and bound value.
const OWN_PARAMS: usize = 2;

/// Epoch of launches, which may run if it is at least the word at `live`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Epoch {
    pub(crate) live: u64,
    pub(crate) value: u32,
    /// The address of the epoch, if a graph reads it when it runs; or 0: it is `value`.
    pub(crate) word: u64,
    /// Running blocks stop as well.
    pub(crate) may_stop: bool,
}

/// Some blocks of a command's launch, and how they are to run.
pub(crate) struct GuardedLaunch<'a, V: Vendor> {
    pub(crate) launch: &'a Launch<Gpu<V>>,
    pub(crate) segment: &'a Segment<V>,
    pub(crate) stop_list: &'a StopList<V>,
    /// Blocks of the grid. If the segment has more, they take turns, which the kernel must support.
    pub(crate) width: u32,
    /// Applies to kernels that wait for the launch before by themselves; others start in turn.
    pub(crate) start: Start,
    pub(crate) epoch: Epoch,
}

/// The guarded launches of one stream.
#[derive(Debug)]
pub(crate) struct Guarded<V: Vendor> {
    stop_lists: StopLists<V>,
    /// The counters as the device last reported them, and a word behind them; the host's memory,
    /// for each bank.
    counts: Vec<Buffer<V>>,
    /// The device has reported this often, of `asked`.
    reported: HostSignal<V>,
    asked: u32,
    report: V::Function,
    context: Arc<Context<V>>,
}

/// Memory for the counters of a bank, and for a word that is never read.
fn counts<V: Vendor>(context: &Arc<Context<V>>) -> Result<Buffer<V>> {
    Buffer::host(context, SPARE_WORD as usize + size_of::<u32>())
}

impl<V: Vendor> Guarded<V> {
    pub(crate) fn new(context: &Arc<Context<V>>, report: V::Function) -> Result<Self> {
        Ok(Self {
            stop_lists: StopLists::new(context)?,
            counts: vec![counts(context)?],
            reported: HostSignal::new(context)?,
            asked: 0,
            report,
            context: context.clone(),
        })
    }

    /// A stop list for a command of `blocks` blocks, to be given back when it has ended.
    pub(crate) fn stop_list(&mut self, blocks: u32) -> Result<Arc<StopList<V>>> {
        let stop_list = self.stop_lists.take(blocks)?;
        while self.counts.len() < self.stop_lists.counters().len() {
            self.counts.push(counts(&self.context)?);
        }
        Ok(stop_list)
    }

    /// Launches a segment's blocks. Those that are stopped go to its stop list, after those of the
    /// command's earlier launches.
    pub(crate) fn launch(&self, stream: &Stream<V>, launch: &GuardedLaunch<'_, V>) -> Result<()> {
        let &GuardedLaunch { launch, segment, stop_list, width, start, epoch } = launch;
        let kernel = launch.kernel();
        let function = if width < segment.count { kernel.turns() } else { kernel.guarded() };
        let Some(function) = function else {
            let (asked, have) = (PreemptLevel::DeviceQueue, PreemptLevel::HostQueue);
            return Err(Error::Level {
                backend: V::NAME,
                what: "kernel without a guard",
                asked,
                have,
            });
        };
        if launch.blocks() > MAX_BLOCKS {
            return Err(Error::invalid(
                "grid",
                format!(
                    "must have at most {MAX_BLOCKS} blocks to be preemptible, got {}",
                    launch.blocks()
                ),
            ));
        }
        let (list_in, first) = match &segment.list {
            Some(list) => (list.list.address() + u64::from(segment.first) * 4, 0),
            None => (0, segment.first),
        };
        let guard = Guard {
            live: epoch.live,
            epoch_word: epoch.word,
            stopped: self.stop_lists.counter(stop_list),
            list_out: stop_list.list.address(),
            list_in,
            first,
            epoch: epoch.value,
            grid: launch.grid(),
            may_stop: epoch.may_stop.into(),
            count: segment.count,
            stride: width,
        };
        let (grid, block) = ([width, 1, 1], launch.block());
        let config = LaunchConfig { start, grid, block, shared: kernel.dynamic_shared() };
        run(stream, function, kernel, &guard, launch.args(), config)
    }

    /// Asks how many blocks of each command have stopped, behind all that was launched.
    pub(crate) fn ask(&mut self, stream: &Stream<V>) -> Result<()> {
        self.asked = self.asked.wrapping_add(1);
        let last = self.counts.len() - 1;
        for (n, ((counters, count), to)) in self.stop_lists.counters().zip(&self.counts).enumerate()
        {
            // That the last bank is reported says that all are.
            let done = if n == last { self.reported.address() } else { to.address() + SPARE_WORD };
            let words = [counters, to.address(), count as u64, done, self.asked.into()];
            // SAFETY: the kernel's parameters; the memory is ours and outlives the stream's work.
            unsafe { stream.launch_one(self.report, REPORT_THREADS, words) }?;
        }
        Ok(())
    }

    /// Asks how many blocks of one command have stopped, behind all that was launched: the number
    /// and then a word that is 1. Of commands that [`ask`](Self::ask) is not told of.
    pub(crate) fn ask_for(
        &self,
        stream: &Stream<V>,
        stop_list: &StopList<V>,
        [number, done]: [u64; 2],
    ) -> Result<()> {
        let words = [self.stop_lists.counter(stop_list), number, 1, done, 1];
        // SAFETY: the words are the parameters of the report kernel. `Running` of companions.rs
        // keeps the signal that `number` and `done` are in until both are set.
        unsafe { stream.launch_one(self.report, REPORT_THREADS, words) }
    }

    /// Returns whether the answer to the last [`ask`](Self::ask) is there.
    pub(crate) fn is_answered(&self) -> bool {
        self.reported.get32() == self.asked
    }

    /// Blocks of a command that were stopped, as of the last answer.
    pub(crate) fn stopped(&self, stop_list: &StopList<V>) -> Result<u32> {
        let mut count = [0; 4];
        let (bank, at) = (stop_list.index / BANK, stop_list.index % BANK);
        self.counts[bank].read(at * size_of::<u32>(), &mut count)?;
        Ok(u32::from_ne_bytes(count))
    }

    /// The command has ended.
    pub(crate) fn give_back(&mut self, stop_list: Arc<StopList<V>>) {
        self.stop_lists.give_back(stop_list);
    }
}

/// Launches the build that is never stopped.
pub(crate) fn launch_plain<V: Vendor>(stream: &Stream<V>, launch: &Launch<Gpu<V>>) -> Result<()> {
    launch_with(stream, launch, &Guard::default(), Start::InTurn)
}

/// Launches the plain build with a guard: preemptible kernels have the parameter in the plain build
/// too, where only those of kernels/builtin.cu look at it.
pub(super) fn launch_with<V: Vendor>(
    stream: &Stream<V>,
    launch: &Launch<Gpu<V>>,
    guard: &Guard,
    start: Start,
) -> Result<()> {
    let kernel = launch.kernel();
    let (grid, block) = (launch.grid(), launch.block());
    let config = LaunchConfig { start, grid, block, shared: kernel.dynamic_shared() };
    run(stream, kernel.plain(), kernel, guard, launch.args(), config)
}

/// Hands `function`, one of the kernel's builds, to the driver. Only a kernel that waits for the
/// launch before by itself starts early.
fn run<V: Vendor>(
    stream: &Stream<V>,
    function: V::Function,
    kernel: &Kernel<V>,
    guard: &Guard,
    args: &Args,
    mut config: LaunchConfig,
) -> Result<()> {
    if !kernel.follows() {
        config.start = Start::InTurn;
    }
    kernel.check_words(args.words().len())?;
    let mut params = [std::ptr::null_mut(); OWN_PARAMS + Args::MAX];
    let guard = kernel.guarded().map(|_| (&raw const *guard).cast());
    let bound = Some(kernel.bound()).filter(|words| !words.is_empty()).map(|w| w.as_ptr().cast());
    let words = args.words().iter().map(|word| (&raw const *word).cast());
    let mut count = 0;
    for param in guard.into_iter().chain(bound).chain(words) {
        let param: *const c_void = param;
        params[count] = param.cast_mut(); // the driver only reads them
        count += 1;
    }
    // SAFETY: `Launch::new` demands that the words are the kernel's, and that what they point to
    // outlives the run; guard and bound value are what its source begins with. Only plain builds
    // that wait by themselves start early.
    unsafe { stream.launch(function, &config, &mut params[..count]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;
    use crate::launch::checkpoint::whole;
    use reef_core::{Device, Priority};
    use std::sync::atomic::Ordering;

    struct Bench {
        gpu: Gpu<Fake>,
        stream: Stream<Fake>,
        guarded: Guarded<Fake>,
        epoch: Epoch,
    }

    /// A device on which each block that has started is stopped.
    fn hurried() -> Bench {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        gpu.vendor().hurry();
        let stream = Stream::open(gpu.context(), Priority::BestEffort).unwrap();
        let guarded = Guarded::new(gpu.context(), gpu.builtin().report).unwrap();
        let live = gpu.never().live();
        let epoch = Epoch { live, value: 0, word: 0, may_stop: true };
        Bench { gpu, stream, guarded, epoch }
    }

    impl Bench {
        fn launch(&mut self, blocks: u32) -> Result<Arc<StopList<Fake>>> {
            let kernel = self.gpu.kernel("append").unwrap();
            self.launch_of(kernel, blocks)
        }

        fn launch_of(&mut self, kernel: Kernel<Fake>, blocks: u32) -> Result<Arc<StopList<Fake>>> {
            // SAFETY: the fake's blocks compute nothing.
            let launch =
                unsafe { Launch::new(kernel, [blocks, 1, 1], [32, 1, 1], Args::new(&[0; 3])) };
            let stop_list = self.guarded.stop_list(blocks.min(MAX_BLOCKS))?;
            self.launch_segment(&launch, &whole(blocks), &stop_list)?;
            Ok(stop_list)
        }

        /// Launches a segment on a grid of as many blocks.
        fn launch_segment(
            &self,
            launch: &Launch<Gpu<Fake>>,
            segment: &Segment<Fake>,
            stop_list: &StopList<Fake>,
        ) -> Result<()> {
            let (width, start, epoch) = (segment.count, Start::InTurn, self.epoch);
            let launch = GuardedLaunch { launch, segment, stop_list, width, start, epoch };
            self.guarded.launch(&self.stream, &launch)
        }

        /// Parameters that the driver got with a launch of a kernel that has this bound value.
        fn passed(&mut self, bound: &[u64]) -> usize {
            let builds = self.gpu.network().unwrap();
            let kernel = Kernel::preemptible(builds, "relu", 0, bound).unwrap();
            self.launch_of(kernel, 1).unwrap();
            self.gpu.vendor().passed.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_report_says_how_many_blocks_of_each_launch_have_stopped() {
        let mut bench = hurried();
        let first = bench.launch(3).unwrap();
        let second = bench.launch(5).unwrap();
        assert!(bench.guarded.is_answered(), "nothing was asked");
        bench.guarded.ask(&bench.stream).unwrap();
        assert!(bench.guarded.is_answered(), "the fake reports at once");
        let stopped = |list| bench.guarded.stopped(list).unwrap();
        assert_eq!((stopped(&first), stopped(&second)), (3, 5));
    }

    #[test]
    fn report_of_several_banks_is_answered_when_all_are() {
        let mut bench = hurried();
        let lists: Vec<_> = (0..=BANK).map(|n| bench.launch(1 + (n % 7) as u32).unwrap()).collect();
        bench.gpu.vendor().slow_down();
        bench.guarded.ask(&bench.stream).unwrap();
        assert!(!bench.guarded.is_answered());
        assert_eq!(bench.gpu.vendor().proceed(1), 1);
        assert!(!bench.guarded.is_answered(), "of the first bank alone");
        assert_eq!(bench.gpu.vendor().proceed(1), 1);
        assert!(bench.guarded.is_answered());
        for (n, list) in lists.iter().enumerate() {
            assert_eq!(bench.guarded.stopped(list), Ok(1 + (n % 7) as u32), "{n}");
        }
    }

    #[test]
    fn a_report_clears_the_counts_for_the_next_launch() {
        let mut bench = hurried();
        let list = bench.launch(3).unwrap();
        bench.guarded.ask(&bench.stream).unwrap();
        bench.guarded.give_back(list);
        bench.epoch.may_stop = false; // its blocks run through
        let again = bench.launch(3).unwrap();
        bench.guarded.ask(&bench.stream).unwrap();
        assert_eq!(bench.guarded.stopped(&again), Ok(0));
        assert_eq!(bench.gpu.vendor().ran.lock().len(), 3);
    }

    #[test]
    fn a_kernel_without_a_guard_is_refused() {
        let mut bench = hurried();
        let kernel = bench.gpu.load(&[0]).unwrap().kernel("theirs").unwrap();
        let error = bench.launch_of(kernel, 1).unwrap_err();
        assert!(matches!(error, Error::Level { have: PreemptLevel::HostQueue, .. }), "{error}");
    }

    #[test]
    fn a_grid_whose_blocks_a_list_cannot_name_is_refused() {
        let error = hurried().launch(MAX_BLOCKS + 1).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }

    #[test]
    fn stopped_blocks_run_from_the_segments_first_list_entry() {
        let mut bench = hurried();
        let list = Some(bench.launch(5).unwrap());
        bench.epoch.may_stop = false;
        let kernel = bench.gpu.kernel("append").unwrap();
        // SAFETY: the fake's blocks compute nothing.
        let launch = unsafe { Launch::new(kernel, [5, 1, 1], [32, 1, 1], Args::new(&[0; 3])) };
        let segment = Segment { list, first: 3, count: 2 };
        let stop_list = bench.guarded.stop_list(2).unwrap();
        bench.launch_segment(&launch, &segment, &stop_list).unwrap();
        assert_eq!(*bench.gpu.vendor().ran.lock(), [3, 4]);
    }

    #[test]
    fn a_stop_list_that_was_given_back_serves_the_next_launch() {
        let mut bench = hurried();
        for _ in 0..3 {
            let list = bench.launch(3).unwrap();
            bench.guarded.give_back(list);
        }
        assert_eq!(bench.guarded.stop_lists.counters().next().map(|(_, made)| made), Some(1));
    }

    #[test]
    fn a_kernel_gets_its_bound_value_only_if_it_has_one() {
        let mut bench = hurried();
        assert_eq!(bench.passed(&[]), 1 + 3, "guard and words");
        assert_eq!(bench.passed(&[7, 7]), 1 + 1 + 3, "guard, bound value and words");
    }
}
