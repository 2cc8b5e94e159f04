//! Controllers under MPS next to simulated programs whose host makes gaps between iterations: gates
//! open there at once, or after a while as without MPS.

use super::controller::Controller;
use super::share::Slo;
use super::windows::Windows;
use crate::page::iterations::Iteration;
use reef_latency::quantile;

const TARGET: f64 = 1.1;
/// Programs of each sort. Their seeds are fixed.
const SEEDS: u64 = 8;
const SECOND: u64 = 1_000_000_000;
/// Interval of windows, in nanoseconds.
const PERIOD: u64 = 1_000_000;
/// Kernels of an iteration, the largest part by which one is longer by itself, and the speed next
/// to a best-effort kernel as a divisor.
const KERNELS: u32 = 20;
const NOISE: f64 = 0.02;
const SLOWER: f64 = 2.0;
/// Times from the end of an iteration to open gates, at least and at most, in nanoseconds: two
/// threads wake up, or the program is idle for 200 µs and polled every 50 µs.
const AT_ONCE: [f64; 2] = [3e4, 7e4];
const LATER: [f64; 2] = [2.25e5, 2.75e5];
/// Time for which gates stay closed after an iteration that is measured alone.
const QUIET: u64 = 20_000_000;

/// Real-time program and best-effort kernels. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Sort {
    /// Length of a kernel alone, and time of the host for each launch.
    kernel: f64,
    host: f64,
    /// Shortest and longest gap of the host between iterations, and best-effort kernel.
    gap: [f64; 2],
    others: [f64; 2],
}

/// The device bounds it.
const BUSY: Sort = Sort { kernel: 1e5, host: 5e3, gap: [2e4, 4e4], others: [1e4, 6e4] };
/// The host bounds it.
const HELD_UP: Sort = Sort { kernel: 8e4, host: 1e5, ..BUSY };

struct Program {
    sort: Sort,
    opens_gaps: bool,
    now: u64,
    seed: u64,
    windows: Windows,
    /// Time that the best-effort kernel still takes, and the time in which such kernels ran.
    left: f64,
    work: f64,
}

impl Program {
    fn new(sort: Sort, opens_gaps: bool, seed: u64) -> Self {
        let (windows, seed) = (Windows::new(PERIOD, SECOND), 7919 * seed + 3);
        Self { sort, opens_gaps, now: SECOND, seed, windows, left: 0.0, work: 0.0 }
    }

    fn random(&mut self) -> f64 {
        let next = self.seed.wrapping_mul(6_364_136_223_846_793_005);
        self.seed = next.wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 40) as f64 / (1_u64 << 24) as f64
    }

    fn within(&mut self, [least, most]: [f64; 2]) -> f64 {
        least + (most - least) * self.random()
    }

    /// Makes a step of the gate, at which a best-effort kernel may begin. Returns the time of the
    /// next one.
    fn step(&mut self, duty: u32, is_busy: bool) -> u64 {
        let step = self.windows.step(self.now, duty, is_busy);
        if self.left <= 0.0 && step.is_open {
            let [shortest, longest] = self.sort.others;
            self.left = shortest + (longest - shortest) * self.random().powi(3);
        }
        step.until
    }

    /// Lets this time pass, and the best-effort kernel that runs go on.
    fn pass(&mut self, time: u64) {
        let worked = self.left.clamp(0.0, time as f64);
        (self.left, self.work) = (self.left - worked, self.work + worked);
        self.now += time;
    }

    /// No kernel of the program runs until this time.
    fn wait(&mut self, until: u64, duty: u32, is_busy: bool) {
        while self.now < until {
            let next = self.step(duty, is_busy);
            let time = if self.left > 0.0 { self.left as u64 + 1 } else { next - self.now };
            self.pass(time.clamp(1, until - self.now));
        }
    }

    fn kernel(&mut self, duty: u32) {
        let mut rest = self.sort.kernel * (1.0 + NOISE * self.random());
        while rest > 0.5 {
            let next = self.step(duty, true);
            let is_shared = self.left > 0.0;
            let most = if is_shared { self.left } else { (next - self.now) as f64 };
            let speed = if is_shared { 1.0 / SLOWER } else { 1.0 };
            let time = most.min(rest / speed).ceil();
            self.pass(time as u64);
            rest -= time * speed;
        }
    }

    /// Makes one iteration, and the gap after it.
    fn iteration(&mut self, controller: &mut Controller) -> Iteration {
        let (begin, duty) = (self.now, controller.duty());
        let host = self.sort.host * (1.0 + 2.0 * NOISE * self.random());
        for at in 1..=KERNELS {
            self.wait(begin + (host * f64::from(at)) as u64, duty, true);
            self.kernel(duty);
        }
        let iteration = Iteration { end: self.now, length: self.now - begin, kind: 7 };
        controller.note(&[iteration], self.now, duty, self.work as u64);
        let next = self.now + self.within(self.sort.gap) as u64;
        let is_at_once = self.opens_gaps && controller.opens_gaps();
        let open = self.now + self.within(if is_at_once { AT_ONCE } else { LATER }) as u64;
        let open = if controller.is_silent(self.now) { self.now + QUIET } else { open };
        let duty = controller.duty();
        self.wait(open.min(next), duty, true);
        self.wait(next, duty, false);
        iteration
    }

    /// Returns the 99th percentile of its iterations next to nothing.
    fn p99_alone(sort: Sort, seed: u64) -> f64 {
        let mut program = Self::new(Sort { others: [0.0; 2], ..sort }, false, seed);
        let mut controller = Controller::new(Slo::of(TARGET).unwrap(), program.now);
        let mut lengths: Vec<f64> =
            (0..2000).map(|_| program.iteration(&mut controller).length as f64).collect();
        quantile(&mut lengths, 0.99).unwrap()
    }

    /// Runs for 18 s under a controller. Returns the share of late iterations and the part of the
    /// time in which best-effort kernels ran, of the last 10 s.
    fn run(mut self, limit: f64) -> (f64, f64) {
        let mut controller = Controller::new(Slo::of(TARGET).unwrap(), self.now);
        while self.now < 9 * SECOND {
            self.iteration(&mut controller);
        }
        let (begin, before, mut late, mut count) = (self.now, self.work, 0_u32, 0_u32);
        while self.now < 19 * SECOND {
            let iteration = self.iteration(&mut controller);
            (late, count) = (late + u32::from(iteration.length as f64 > limit), count + 1);
        }
        let kept = (self.work - before) / (self.now - begin) as f64;
        (f64::from(late) / f64::from(count), kept)
    }
}

/// Returns the means of both over programs of a sort: with gates that open later, and at once.
fn means(sort: Sort) -> [(f64, f64); 2] {
    [false, true].map(|opens_gaps| {
        let run = |seed| {
            let limit = TARGET * Program::p99_alone(sort, seed);
            let (late, kept) = Program::new(sort, opens_gaps, seed).run(limit);
            println!(
                "seed {seed}, at once: {opens_gaps}, {late:.4} late, kept {kept:.3}, {sort:?}"
            );
            (late, kept)
        };
        let all: Vec<(f64, f64)> = (0..SEEDS).map(run).collect();
        let mean = |of: fn(&(f64, f64)) -> f64| all.iter().map(of).sum::<f64>() / SEEDS as f64;
        (mean(|run| run.0), mean(|run| run.1))
    })
}

/// Least gain in what is kept, by the gaps and the best-effort kernels.
#[test]
fn gaps_that_open_at_once_keep_more_in_target() {
    for (sort, gap, others, gain) in [
        (BUSY, [8e4, 1.6e5], [1e4, 6e4], 0.015),
        (BUSY, [1.5e5, 3e5], [1e4, 6e4], 0.045),
        (BUSY, [4e5, 8e5], [1e4, 6e4], 0.04),
        (HELD_UP, [1.5e5, 3e5], [5e4, 3e5], 0.015),
        (HELD_UP, [4e5, 8e5], [5e4, 3e5], 0.02),
    ] {
        let [later, at_once] = means(Sort { gap, others, ..sort });
        let (more_late, more_kept) = (at_once.0 - later.0, at_once.1 - later.1);
        assert!(more_kept > gain, "{later:?}, then {at_once:?} with gaps of {gap:?}");
        assert!(more_late < 0.002, "{later:?}, then {at_once:?} with gaps of {gap:?}");
    }
}

/// Nor does it lose windows to what runs on from a gap, whatever the best-effort kernels last.
#[test]
fn program_without_gaps_is_not_later() {
    for (sort, others) in [
        (BUSY, [1e4, 6e4]),
        (BUSY, [5e4, 3e5]),
        (BUSY, [2e5, 2e6]),
        (HELD_UP, [1e4, 6e4]),
        (HELD_UP, [5e4, 3e5]),
        (HELD_UP, [2e5, 2e6]),
    ] {
        let [later, at_once] = means(Sort { others, ..sort });
        let (more_late, more_kept) = (at_once.0 - later.0, at_once.1 - later.1);
        assert!(at_once.0 < 0.015 && more_late < 0.006, "{later:?}, then {at_once:?}");
        assert!(more_kept > -0.01, "{later:?}, then {at_once:?} next to {others:?}");
    }
}
