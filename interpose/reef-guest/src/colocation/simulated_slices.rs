//! Controllers without MPS next to simulated programs: the device changes between programs, so a
//! window takes it for its time, for the best-effort kernel at its end, and for two changes.

use super::controller::Controller;
use super::share::Slo;
use super::windows::{CHANGE, Placement, Windows};
use crate::limit::quantity::WHOLE;
use crate::page::iterations::Iteration;
use reef_latency::quantile;

/// Programs of each sort. Their seeds are fixed.
const SEEDS: u64 = 3;
const SECOND: u64 = 1_000_000_000;
/// Interval of windows, in nanoseconds, and the most by which an iteration's end is seen later.
const PERIOD: u64 = 1_000_000;
/// Gap between two iterations, slice of each program while all passes, and shortest and longest
/// best-effort kernel, in nanoseconds.
const GAP: u64 = 30_000;
const SLICE: f64 = 2e6;
const OTHERS: [f64; 2] = [2e4, 1e5];
/// Kernels of an iteration, and the largest part by which each is longer by itself.
const KERNELS: u32 = 20;
const NOISE: f64 = 0.02;

struct Program {
    /// Length of an iteration alone, in nanoseconds.
    base: f64,
    /// Part of it in which its kernels run. For the rest they wait for the host.
    busy: f64,
    /// Windows begin after iterations, and are long.
    is_long: bool,
    now: u64,
    seed: u64,
    windows: Windows,
    /// Time at which the end of an iteration is seen.
    seen: u64,
    /// Time in which best-effort kernels ran, and until which they did.
    work: f64,
    passed: u64,
}

impl Program {
    fn new(base: f64, busy: f64, is_long: bool, seed: u64) -> Self {
        let (windows, seed) = (Windows::new(PERIOD, SECOND), 7919 * seed + 3);
        let (now, seen, work, passed) = (SECOND, u64::MAX, 0.0, SECOND);
        Self { base, busy, is_long, now, seed, windows, seen, work, passed }
    }

    fn random(&mut self) -> f64 {
        let next = self.seed.wrapping_mul(6_364_136_223_846_793_005);
        self.seed = next.wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 40) as f64 / (1_u64 << 24) as f64
    }

    fn placement(&self, has_ended: bool) -> Placement {
        if self.is_long { Placement::AfterIterations { has_ended } } else { Placement::Grid }
    }

    /// Runs best-effort kernels until this time, one at least, and the last one to its end.
    fn window(&mut self, end: u64, duty: u32) {
        self.now += CHANGE;
        loop {
            let [shortest, longest] = OTHERS;
            let kernel = shortest + (longest - shortest) * self.random().powi(3);
            (self.now, self.work) = (self.now + kernel as u64 + 1, self.work + kernel);
            if self.now >= end {
                break;
            }
        }
        self.windows.step_placed(end, duty, true, self.placement(false));
        self.passed = self.now;
        self.now += CHANGE;
    }

    /// Makes a step at which a window may pass. Returns the time of the next one.
    fn step(&mut self, duty: u32) -> u64 {
        let has_ended = self.now >= self.seen;
        self.seen = if has_ended { u64::MAX } else { self.seen };
        let step = self.windows.step_placed(self.now, duty, true, self.placement(has_ended));
        if step.is_open && duty == WHOLE {
            (self.now, self.work) = (self.now + SLICE as u64 + 2 * CHANGE, self.work + SLICE);
            self.passed = self.now;
            return self.now + SLICE as u64;
        }
        if step.is_open {
            self.window(step.until, duty);
            return self.now + 1;
        }
        step.until.min(self.seen).min(self.now + PERIOD).max(self.now + 1)
    }

    /// Makes one iteration at this part of the time.
    fn iteration(&mut self, duty: u32) -> Iteration {
        let begin = self.now;
        self.seen = begin + (self.random() * PERIOD as f64) as u64;
        let each = self.base / f64::from(KERNELS);
        for at in 0..KERNELS {
            let launched = begin + (each * (1.0 - self.busy) * f64::from(at + 1)) as u64;
            let launched = launched + (each * self.busy * f64::from(at)) as u64;
            while self.now < launched {
                let next = self.step(duty);
                self.now = self.now.max(next.min(launched));
            }
            let mut rest = each * self.busy * (1.0 + NOISE * self.random());
            while rest > 0.5 {
                let next = self.step(duty);
                let time = rest.min(next.saturating_sub(self.now) as f64).ceil();
                self.now += time as u64;
                rest -= time;
            }
        }
        let iteration = Iteration { end: self.now, length: self.now - begin, kind: 7 };
        self.now += GAP;
        iteration
    }

    /// Runs for 40 s under a controller, in which at most this part of the time passes.
    /// `counts_untouched`: iterations that no window touched are known.
    fn run(mut self, target: f64, most: u32, counts_untouched: bool) -> Run {
        let mut alone: Vec<f64> = (0..400).map(|_| self.iteration(0).length as f64).collect();
        let limit = target * quantile(&mut alone, 0.99).unwrap();
        let mut controller = Controller::new(Slo::of(target).unwrap(), self.now);
        controller.set_after_iterations(self.is_long);
        let (begin, mut before, mut late, mut count) = (self.now, (0.0, 0), 0_u32, 0_u32);
        while self.now < begin + 40 * SECOND {
            let duty = controller.duty().min(most);
            let iteration = self.iteration(duty);
            controller.note_passed(if counts_untouched { self.passed } else { self.now });
            controller.note(&[iteration], self.now, duty, self.work as u64);
            if self.now < begin + 20 * SECOND {
                before = (self.work, controller.long_silences());
                continue;
            }
            (late, count) = (late + u32::from(iteration.length as f64 > limit), count + 1);
        }
        Run {
            late: f64::from(late) / f64::from(count),
            kept: (self.work - before.0) / (20 * SECOND) as f64,
            silences: (controller.long_silences() - before.1) as f64,
        }
    }
}

/// Share of late iterations, part of the time in which best-effort kernels ran, and measurements of
/// more than 20 ms, in the last 20 s.
#[derive(Clone, Copy, Debug)]
struct Run {
    late: f64,
    kept: f64,
    silences: f64,
}

/// Returns the means over programs.
fn means(program: impl Fn(u64) -> Program, target: f64, most: u32, counts_untouched: bool) -> Run {
    let run = |seed| {
        let program = program(seed);
        let (base, busy, is_long) = (program.base, program.busy, program.is_long);
        let run = program.run(target, most, counts_untouched);
        println!("seed {seed}, {base} ns, {busy}, {is_long}, {target}, {most}: {run:?}");
        run
    };
    let all: Vec<Run> = (0..SEEDS).map(run).collect();
    let mean = |of: fn(&Run) -> f64| all.iter().map(of).sum::<f64>() / SEEDS as f64;
    Run { late: mean(|it| it.late), kept: mean(|it| it.kept), silences: mean(|it| it.silences) }
}

/// Returns the means with short windows in each millisecond, and with long ones after iterations.
fn short_and_long(base: f64, busy: f64, target: f64) -> [Run; 2] {
    let run = |is_long| means(|seed| Program::new(base, busy, is_long, seed), target, WHOLE, true);
    let both = [false, true].map(run);
    println!("{base} ns, {busy} busy, {target}: {both:?}");
    both
}

/// Short windows cost far more than they give there.
#[test]
fn long_windows_keep_most_of_what_long_iterations_allow() {
    for (base, target, least) in
        [(2e7, 1.1, 0.06), (4e7, 1.1, 0.065), (1e7, 1.25, 0.12), (4e7, 1.25, 0.15)]
    {
        let [short, long] = short_and_long(base, 1.0, target);
        assert!(long.late < 0.015 && long.kept > least, "{long:?} at {target}, {base} ns");
        assert!(long.kept > 4.0 * short.kept, "{short:?}, {long:?} at {target}, {base} ns");
    }
}

/// Kernels catch up after a window, because they wait for the host otherwise.
#[test]
fn long_windows_keep_more_of_what_the_host_leaves() {
    for (base, busy) in [(5e6, 0.4), (1e7, 0.4), (4e7, 0.4), (1e7, 0.7), (4e7, 0.7)] {
        let [short, long] = short_and_long(base, busy, 1.1);
        assert!(long.kept > 1.5 * short.kept, "{short:?}, {long:?} of {base} ns, {busy}");
        assert!(long.late < 0.02, "{short:?}, {long:?} of {base} ns, {busy}");
    }
}

/// No window fits, so they close, and the program runs as one without a target.
#[test]
fn windows_that_do_not_fit_short_iterations_close() {
    for (base, target, late) in
        [(1.5e6, 1.1, 0.005), (3e6, 1.25, 0.005), (5e6, 1.1, 0.01), (1.5e7, 1.1, 0.025)]
    {
        let [_, long] = short_and_long(base, 1.0, target);
        assert!(long.late < late && long.kept < 0.02, "{long:?} at {target}, {base} ns");
    }
}

/// The best-effort program may have a part of the time that is a window in some iterations.
#[test]
fn iterations_that_no_window_touched_replace_measurements() {
    for (base, most) in [(2.2e7, 20_000), (3e7, 20_000), (4e7, 20_000), (6e7, 10_000)] {
        let program = |seed| Program::new(base, 1.0, true, seed);
        let [before, now] = [false, true].map(|counts| means(program, 1.1, most, counts));
        println!("{base} ns, {most}: {before:?}, then {now:?}");
        assert!(now.silences < 0.2 * before.silences, "{before:?}, {now:?} of {base} ns");
        assert!(now.kept > before.kept && now.late < 0.015, "{before:?}, {now:?} of {base} ns");
    }
}
