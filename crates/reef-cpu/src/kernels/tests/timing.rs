//! Times the layers of ResNet-50 on as many units as `REEF_TIME` says, or on one:
//!
//! ```text
//! REEF_TIME=2 cargo test --release -p reef-cpu --lib timing -- \
//!     --ignored --nocapture --test-threads=1
//! ```

use super::layers::{Layer, Network, resnet50};
use crate::kernel::{Block, Outcome, RUN};
use crate::kernels::product::multiply::multiply;
use crate::kernels::product::portable;
use crate::kernels::product::tile::{COLUMNS, Hints, ROWS, Tile};
use crate::memory::buffer::Buffer;
use reef_core::Args;
use reef_op::{Conv2d, Layout, Op, PoolKind, ScaleShift, Tensor, Window};
use std::cell::Cell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 30;

thread_local! {
    /// When this thread last looked at its stop word; `None` while it isn't measured.
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    /// The longest time between two polls, or between a poll and a block's end.
    static MAX_GAP: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Called at each poll of a stop word.
#[inline]
pub(in crate::kernels) fn polled() {
    if let Some(last) = LAST.get() {
        let now = Instant::now();
        MAX_GAP.set(MAX_GAP.get().max(now - last));
        LAST.set(Some(now));
    }
}

/// State that units share.
struct Run<'a> {
    layers: &'a [Layer],
    next: Vec<AtomicU32>,
    barrier: Barrier,
    probe: bool,
    units: u32,
}

impl Run<'_> {
    /// One unit's part. Gives when each layer was done and its longest time without a poll.
    fn unit(&self, scratch: &mut Vec<f32>) -> Vec<(Instant, Duration)> {
        let stop = AtomicU8::new(RUN);
        self.barrier.wait();
        let mut layers = vec![(Instant::now(), Duration::ZERO)];
        for (layer, next) in self.layers.iter().zip(&self.next) {
            let [(kernel, blocks)] = &layer.kernels[..] else { panic!("one kernel per layer") };
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= *blocks {
                    break;
                }
                LAST.set(self.probe.then(Instant::now));
                let mut block = Block { index, unit: 0, stop: &stop, scratch };
                assert_eq!(kernel.run(&mut block, &Args::new(&[])), Outcome::Done);
                polled();
            }
            self.meet(next, *blocks);
            layers.push((Instant::now(), MAX_GAP.take()));
        }
        LAST.set(None);
        layers
    }

    /// Waits until all units have found no more blocks, spinning as a busy device does.
    fn meet(&self, next: &AtomicU32, blocks: u32) {
        next.fetch_add(1 << 16, Ordering::AcqRel);
        let mut spins = 0;
        while next.load(Ordering::Acquire) >> 16 < self.units {
            std::hint::spin_loop();
            spins += 1;
            if spins > 2000 {
                std::thread::yield_now();
            }
        }
        assert!(blocks < 1 << 15, "blocks and units share a word");
    }
}

/// Time of each layer, and its longest time without a poll.
fn round(layers: &[Layer], scratch: &mut [Vec<f32>], probe: bool) -> Vec<(Duration, Duration)> {
    let next = layers.iter().map(|_| AtomicU32::new(0)).collect();
    let units = scratch.len();
    let run = Run { layers, next, barrier: Barrier::new(units), probe, units: units as u32 };
    let units: Vec<_> = std::thread::scope(|scope| {
        let units: Vec<_> =
            scratch.iter_mut().map(|scratch| scope.spawn(|| run.unit(scratch))).collect();
        units.into_iter().map(|unit| unit.join().unwrap()).collect()
    });
    let layer = |i: usize| {
        // Units leave a layer together; the last may have been off its core since.
        let [start, end] = [i, i + 1].map(|i| units.iter().map(|unit| unit[i].0).min().unwrap());
        (end - start, units.iter().map(|unit| unit[i + 1].1).max().unwrap())
    };
    (0..layers.len()).map(layer).collect()
}

/// Number of units to time.
fn units_to_time() -> usize {
    std::env::var("REEF_TIME").map_or(1, |units| units.parse().expect("a number of units"))
}

#[test]
#[ignore = "a measurement: it checks nothing"]
fn timing_of_resnet50() {
    let units = units_to_time();
    let totals = report(&resnet50(), units);
    let [best, median] = [totals[0], totals[ROUNDS / 2]];
    println!(
        "ResNet-50 on {units} units: p50 {median:.2} ms, best {best:.2} ms of {ROUNDS} rounds"
    );
}

/// Layers of other networks: grouped and depthwise convolutions, affine maps, means.
#[test]
#[ignore = "a measurement: it checks nothing"]
fn timing_of_other_layers() {
    let units = units_to_time();
    let image = Tensor::new(Layout::Native, [1, 256, 56, 56]);
    let window = Window { size: [3; 2], stride: [1; 2], padding: [1; 2] };
    let mut net = Network::new(image);
    let map = ScaleShift { input: image, output: image, relu: true };
    net.push(Op::ScaleShift(map), None);
    for groups in [256, 8] {
        let (input, output) = (image, image);
        let (residual, relu, function) = (false, true, None);
        let op = Conv2d { input, output, window, groups, residual, relu, function };
        net.push(Op::Conv2d(op), None);
    }
    net.pool(PoolKind::Average, window);
    net.pool(PoolKind::Max, window);
    report(&net.layers, units);
}

/// Prints every layer's best time; gives the milliseconds of all rounds, in ascending order.
fn report(layers: &[Layer], units: usize) -> Vec<f64> {
    let mut scratch = vec![Vec::new(); units];
    let mut rounds = |probe| -> Vec<Vec<(Duration, Duration)>> {
        (0..ROUNDS).map(|_| round(layers, &mut scratch, probe)).collect()
    };
    let (timed, probed) = (rounds(false), rounds(true));
    for (i, layer) in layers.iter().enumerate() {
        let time = timed.iter().map(|round| round[i].0).min().unwrap();
        let mut polls: Vec<_> = probed.iter().map(|round| round[i].1).collect();
        polls.sort_unstable();
        println!(
            "{:36} {:4} blocks {:7.1} µs {:6.1} GFLOP/s, looks within {:5.1} µs (median {:5.1})",
            layer.name(),
            layer.kernels[0].1,
            time.as_secs_f64() * 1e6,
            layer.flops() / time.as_secs_f64() / 1e9,
            polls[0].as_secs_f64() * 1e6,
            polls[ROUNDS / 2].as_secs_f64() * 1e6,
        );
    }
    let total = |round: &Vec<(Duration, Duration)>| {
        round.iter().map(|layer| layer.0.as_secs_f64() * 1e3).sum::<f64>()
    };
    let mut totals: Vec<f64> = timed.iter().map(total).collect();
    totals.sort_by(f64::total_cmp);
    totals
}

/// The fastest that a convolution could be, and what it would be with the portable product.
#[test]
#[ignore = "a measurement: it checks nothing"]
fn timing_of_a_tile() {
    let (a, b) = (vec![1.0; ROWS * 272], Buffer::zeroed(COLUMNS * 256 * 4).unwrap());
    let mut sums = vec![0.0; ROWS * COLUMNS];
    let tile = Tile {
        a: a.as_ptr(),
        a_pitch: 272,
        b: b.as_ptr().cast(),
        sums: sums.as_mut_ptr(),
        sums_pitch: COLUMNS,
        rows: ROWS,
        columns: COLUMNS,
        depth: 256,
        fresh: true,
        hints: Hints {
            next: a.as_ptr(),
            next_step: 0,
            rows: a.as_ptr(),
            rows_pitch: 272,
            output: a.as_ptr(),
            residual: a.as_ptr(),
            pitch: 0,
        },
    };
    for plain in [false, true] {
        let mut best = Duration::MAX;
        for _ in 0..1000 {
            let start = Instant::now();
            for _ in 0..10 {
                // SAFETY: the three vectors are as large as the tile says.
                unsafe { if plain { portable::multiply(&tile) } else { multiply(&tile) } };
            }
            best = best.min(start.elapsed() / 10);
        }
        let flops = 2.0 * (ROWS * COLUMNS * 256) as f64;
        println!("tile, portable {plain}: {:.1} GFLOP/s", flops / best.as_secs_f64() / 1e9);
    }
}
