//! Real-time kernels with best-effort blocks next to them.

use super::{launch_of, sorted};
use crate::Checkpoint;
use crate::gpu::Gpu;
use crate::hal::fake::{Fake, Put};
use crate::hal::options::{ColocationMode, Options};
use crate::hal::streams::StreamKind;
use crate::launch::queue::hardware_queue::Queue;
use reef_core::dkp::Padding;
use reef_core::{
    Args, Checkpoint as _, Device, Error, Launch, PreemptLevel, Preemptor as _, Priority,
    Queue as _, Seq,
};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Of the fake's four units, three are free.
const PADDING: Padding = Padding { rt_units: 1, be_per_unit: 1, be_blocks: 3 };
/// Number of the fake's function, and the blocks that a real-time kernel has.
const APPEND: u32 = 6;
const RT_BLOCKS: u32 = 1;

struct Bench {
    gpu: Gpu<Fake>,
    rt: Queue<Fake>,
    next: u64,
    be: Launch<Gpu<Fake>>,
    record: Checkpoint<Fake>,
}

impl Bench {
    /// A best-effort kernel of this number of blocks.
    fn new(blocks: u32) -> Self {
        Self::with(blocks, Options::default())
    }

    fn with(blocks: u32, options: Options) -> Self {
        Self::on(Fake::default(), blocks, options)
    }

    fn on(fake: Fake, blocks: u32, options: Options) -> Self {
        let options = Options { colocation: Some(ColocationMode::Padded), ..options };
        let gpu = Gpu::new(fake, options).unwrap();
        let rt = gpu.queue(Priority::RealTime, None).unwrap();
        let be = launch_of(&gpu, blocks);
        let record = gpu.checkpoint(&be).unwrap();
        gpu.vendor().puts.lock().clear();
        gpu.vendor().launched_in.lock().clear();
        Self { gpu, rt, next: 0, be, record }
    }

    fn pad(&mut self, padding: &Padding) {
        self.pad_next_to(RT_BLOCKS, padding);
    }

    fn pad_next_to(&mut self, rt_blocks: u32, padding: &Padding) {
        let rt = launch_of(&self.gpu, rt_blocks);
        self.rt.launch_padded(Seq(self.next), &rt, padding, &self.be, &self.record).unwrap();
        self.next += 1;
    }

    /// Blocks of each launch of the best-effort kernel, and how many real-time kernels there were.
    fn launches(&self) -> (Vec<u32>, usize) {
        let streams = self.gpu.vendor().launched_in.lock();
        let puts = self.gpu.vendor().puts.lock();
        let launches = puts.iter().filter_map(|put| match *put {
            Put::Launch(number, blocks) => Some((number, blocks)),
            _ => None,
        });
        let kernels = launches.zip(streams.iter()).filter(|((number, _), _)| *number == APPEND);
        let (be, rt): (Vec<_>, Vec<_>) =
            kernels.partition(|(_, stream)| **stream == StreamKind::BestEffort);
        (be.into_iter().map(|((_, blocks), _)| blocks).collect(), rt.len())
    }

    /// Runs what is left on a queue of its own.
    fn finish(&self) {
        let mut queue = self.gpu.queue(Priority::BestEffort, None).unwrap();
        queue.launch(Seq(0), &self.be, Some(&self.record)).unwrap();
        assert_eq!(queue.completed(), Ok(Seq(1)));
        assert_eq!(self.record.remaining(), 0);
    }
}

#[test]
fn padding_runs_what_fits_and_its_queue_the_rest() {
    let mut bench = Bench::new(8);
    bench.pad(&PADDING);
    bench.pad(&Padding { be_blocks: 2, ..PADDING });
    assert_eq!(bench.launches(), (vec![3, 2], 2));
    assert_eq!((bench.record.remaining(), sorted(&bench.gpu)), (3, vec![0, 1, 2, 3, 4]));
    bench.finish();
    assert_eq!(sorted(&bench.gpu), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn padding_takes_no_more_places_than_are_free() {
    let mut bench = Bench::new(9);
    bench.pad(&Padding { be_blocks: 7, ..PADDING });
    assert_eq!(bench.launches(), (vec![3], 1), "seven take turns in three places");
    assert_eq!(bench.record.remaining(), 2);
    bench.pad(&Padding { rt_units: 4, ..PADDING });
    assert_eq!(bench.launches(), (vec![3], 2), "no unit is free");
}

/// The device may put a second block of a unit next to real-time ones.
#[test]
fn padding_takes_no_more_places_of_a_unit_than_it_may() {
    let one_per_unit = Fake::with(|facts| facts.padding_per_unit = 1);
    let mut bench = Bench::on(one_per_unit, 20, Options::default());
    let padding = Padding { be_per_unit: 2, be_blocks: 12, ..PADDING };
    bench.pad(&padding);
    assert_eq!(bench.launches(), (vec![3], 1));
    assert_eq!(bench.record.remaining(), 14, "two turns each, as planned");
    bench.pad(&Padding { be_blocks: 2, ..padding });
    assert_eq!((bench.launches(), bench.record.remaining()), ((vec![3, 2], 2), 12));
}

/// The plan has several real-time blocks on a unit, where the device spreads them.
#[test]
fn padding_keeps_off_all_units_with_real_time_blocks() {
    let mut bench = Bench::new(8);
    bench.pad_next_to(6, &Padding { rt_units: 3, be_blocks: 1, ..PADDING });
    assert_eq!((bench.launches(), bench.record.remaining()), ((vec![], 1), 8), "on all four");
    bench.pad_next_to(2, &PADDING);
    assert_eq!((bench.launches(), bench.record.remaining()), ((vec![2], 2), 6));
}

#[test]
fn padding_counts_blocks_that_earlier_padding_still_runs() {
    let mut bench = Bench::new(100);
    bench.gpu.vendor().slow_down();
    bench.pad(&Padding { be_blocks: 2, ..PADDING });
    bench.pad(&PADDING);
    bench.pad(&PADDING);
    assert_eq!(bench.launches(), (vec![2, 1], 3), "three places, and one kernel alone");
    assert_eq!(bench.rt.padding_ended(), Ok(Seq(0)));
    bench.gpu.vendor().proceed(usize::MAX);
    assert_eq!(bench.rt.padding_ended(), Ok(Seq(3)));
    assert_eq!(bench.record.remaining(), 97);
    bench.pad(&PADDING);
    assert_eq!(bench.launches(), (vec![2, 1, 3], 4));
}

#[test]
fn late_padding_is_void_and_stays_in_the_record() {
    let mut bench = Bench::new(5);
    bench.gpu.vendor().is_late.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        bench.pad(&PADDING);
        assert_eq!((bench.record.remaining(), sorted(&bench.gpu)), (5, vec![]));
    }
    bench.gpu.vendor().is_late.store(false, Ordering::SeqCst);
    bench.pad(&PADDING);
    assert_eq!(bench.record.remaining(), 2);
    bench.finish();
    assert_eq!(sorted(&bench.gpu), [0, 1, 2, 3, 4]);
}

#[test]
fn padding_that_is_stopped_twice_runs_through() {
    let mut bench = Bench::new(3);
    bench.gpu.vendor().hurry();
    for remaining in [3, 3, 0] {
        bench.pad(&PADDING);
        assert_eq!(bench.record.remaining(), remaining);
    }
    assert_eq!(sorted(&bench.gpu), [0, 1, 2]);
}

/// Blocks that were told to stop and don't keep a stream, and no real-time kernel waits for them.
#[test]
fn padding_that_does_not_end_costs_others_nothing() {
    let mut bench = Bench::new(100);
    bench.gpu.vendor().slow_down();
    let padding = Padding { be_per_unit: 2, be_blocks: 1, ..PADDING };
    for _ in 0..6 {
        bench.pad(&padding);
    }
    assert_eq!(bench.launches(), (vec![1; 4], 6), "four streams, and two kernels alone");
    assert_eq!(bench.record.remaining(), 100, "the device has not told");
    assert_eq!(bench.rt.padding_ended(), Ok(Seq(0)));
    bench.gpu.vendor().proceed(usize::MAX);
    assert_eq!(bench.rt.padding_ended(), Ok(Seq(6)));
    assert_eq!(bench.record.remaining(), 96);
    bench.pad(&padding);
    assert_eq!(bench.launches(), (vec![1; 5], 7));
}

#[test]
fn a_queue_continues_a_kernel_when_its_padding_has_ended() {
    let mut bench = Bench::new(8);
    bench.gpu.vendor().slow_down();
    bench.pad(&PADDING);
    assert!(matches!(bench.gpu.blocks(&bench.record), Err(Error::State { .. })), "which run?");
    std::thread::scope(|scope| {
        let finish = scope.spawn(|| {
            let mut queue = bench.gpu.queue(Priority::BestEffort, None).unwrap();
            queue.launch(Seq(0), &bench.be, Some(&bench.record)).unwrap();
            bench.gpu.vendor().proceed(usize::MAX);
        });
        // sleep: time in which a fault would show; none fails a right queue
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(sorted(&bench.gpu), [0, 1, 2], "the device has not told that they ran");
        bench.gpu.vendor().proceed(usize::MAX);
        finish.join().unwrap();
    });
    assert_eq!(sorted(&bench.gpu), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn blocks_of_a_record_are_those_that_padding_left() {
    let mut bench = Bench::new(8);
    bench.pad(&PADDING);
    let left = bench.gpu.blocks(&bench.record).unwrap();
    assert_eq!((left.ranges().len(), left.count(), left.ranges()[0].start), (1, 5, 3));
    bench.gpu.vendor().is_late.store(true, Ordering::SeqCst);
    bench.pad(&PADDING);
    assert_eq!(bench.gpu.blocks(&bench.record).unwrap(), left);
}

#[test]
fn padding_that_fails_costs_its_real_time_kernel_nothing() {
    let mut bench = Bench::new(8);
    bench.gpu.vendor().slow_down(); // the queue is busy
    let rt = launch_of(&bench.gpu, RT_BLOCKS);
    bench.rt.launch(Seq(0), &rt, None).unwrap();
    bench.next = 1;
    bench.gpu.vendor().refuses_order.store(true, Ordering::SeqCst);
    bench.pad(&PADDING);
    assert_eq!(bench.launches(), (vec![], 2));
    bench.gpu.vendor().refuses_order.store(false, Ordering::SeqCst);
    bench.gpu.vendor().is_late.store(true, Ordering::SeqCst); // the word comes before the blocks
    bench.gpu.vendor().refused_writes.store(1, Ordering::SeqCst);
    bench.pad(&PADDING);
    assert_eq!((bench.launches(), bench.record.remaining()), ((vec![], 3), 8));
    // A launch that its own queue would refuse.
    let theirs = bench.gpu.load(&[0]).unwrap().kernel("theirs").unwrap();
    // SAFETY: nothing runs.
    bench.be = unsafe { Launch::new(theirs, [8, 1, 1], [32, 1, 1], Args::new(&[])) };
    bench.pad(&PADDING);
    assert_eq!((bench.launches(), bench.record.remaining()), ((vec![], 4), 8));
}

#[test]
fn padding_of_another_launch_is_refused_and_nothing_launched() {
    let mut bench = Bench::new(8);
    let rt = launch_of(&bench.gpu, RT_BLOCKS);
    let other = launch_of(&bench.gpu, 9);
    let error = bench.rt.launch_padded(Seq(0), &rt, &PADDING, &other, &bench.record).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    assert_eq!(bench.launches(), (vec![], 0));
}

#[test]
fn device_that_was_not_asked_to_pad_refuses_in_words() {
    let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
    let mut rt = gpu.queue(Priority::RealTime, None).unwrap();
    let launch = launch_of(&gpu, 4);
    let record = gpu.checkpoint(&launch).unwrap();
    let error = rt.launch_padded(Seq(0), &launch, &PADDING, &launch, &record).unwrap_err();
    assert!(error.to_string().contains("colocation=padded"), "{error}");
}

#[test]
fn operands_of_padding_live_until_it_has_ended() {
    let mut bench = Bench::new(8);
    let buffer = bench.gpu.alloc(8).unwrap();
    let address = bench.gpu.address(&buffer);
    let is_freed = |bench: &Bench| bench.gpu.vendor().freed.lock().contains(&address);
    bench.be = launch_of(&bench.gpu, 8).keep(vec![buffer]);
    bench.gpu.vendor().slow_down();
    bench.pad(&PADDING);
    bench.be = launch_of(&bench.gpu, 8);
    bench.rt.padding_ended().unwrap();
    assert!(!is_freed(&bench), "its blocks may run");
    bench.gpu.vendor().proceed(usize::MAX);
    bench.rt.padding_ended().unwrap();
    assert!(is_freed(&bench));
}

/// With a timeout, a queue that is dropped waits no longer than that for padding.
#[test]
fn padding_that_never_ends_is_abandoned_with_what_it_uses() {
    const LIMIT: Duration = Duration::from_millis(20);
    let mut bench = Bench::with(8, Options { timeout: Some(LIMIT), ..Options::default() });
    let buffer = bench.gpu.alloc(8).unwrap();
    let address = bench.gpu.address(&buffer);
    bench.be = launch_of(&bench.gpu, 8).keep(vec![buffer]);
    bench.gpu.vendor().slow_down();
    bench.pad(&PADDING);
    let start = std::time::Instant::now();
    while bench.rt.padding_ended() == Ok(Seq(0)) && start.elapsed() < Duration::from_secs(30) {
        bench.gpu.vendor().proceed_behind_first(); // all but the end of the padding
    }
    assert_eq!(bench.rt.padding_ended(), Ok(Seq(1)), "its client may leave");
    bench.pad(&PADDING);
    assert_eq!(bench.launches(), (vec![3], 2), "its places are not free");
    bench.be = launch_of(&bench.gpu, 8);
    drop(bench.rt);
    assert!(!bench.gpu.vendor().freed.lock().contains(&address), "its blocks may run");
}

#[test]
fn eviction_of_the_best_effort_queue_does_not_touch_padding() {
    let mut bench = Bench::new(8);
    let preemptor = bench.gpu.preemptor(PreemptLevel::All).unwrap();
    preemptor.evict().unwrap();
    bench.pad(&PADDING);
    assert_eq!(bench.record.remaining(), 5);
    preemptor.reactivate().unwrap();
    let mut queue = bench.gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    queue.launch(Seq(0), &bench.be, Some(&bench.record)).unwrap();
    assert_eq!(queue.completed(), Ok(Seq(1)));
    assert_eq!(sorted(&bench.gpu), [0, 1, 2, 3, 4, 5, 6, 7]);
}
