//! Controllers without MPS next to simulated programs: the device changes between programs, so a
//! window takes it for its time, for the best-effort kernel at its end, and for two changes.

use super::controller::Controller;
use super::share::Slo;
use super::windows::{CHANGE, LONG_WINDOW_COST, Placement, Windows};
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
/// Largest part by which an iteration is longer by itself.
const NOISE: f64 = 0.02;

struct Program {
    /// Length of an iteration alone, in nanoseconds.
    base: f64,
    /// Windows begin after iterations, and are long.
    is_long: bool,
    now: u64,
    seed: u64,
    windows: Windows,
    /// Time in which best-effort kernels ran, and until which they did.
    work: f64,
    passed: u64,
}

impl Program {
    fn new(base: f64, is_long: bool, seed: u64) -> Self {
        let (windows, seed) = (Windows::new(PERIOD, SECOND), 7919 * seed + 3);
        Self { base, is_long, now: SECOND, seed, windows, work: 0.0, passed: SECOND }
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

    /// Makes one iteration at this part of the time.
    fn iteration(&mut self, duty: u32) -> Iteration {
        let (begin, mut rest) = (self.now, self.base * (1.0 + NOISE * self.random()));
        let mut seen = begin + (self.random() * PERIOD as f64) as u64;
        while rest > 0.5 && duty == WHOLE {
            self.work += SLICE;
            self.now += (rest.min(SLICE) + SLICE) as u64 + 2 * CHANGE;
            rest -= SLICE;
            self.passed = self.now;
        }
        while rest > 0.5 {
            let has_ended = self.now >= seen;
            seen = if has_ended { u64::MAX } else { seen };
            let step = self.windows.step_placed(self.now, duty, true, self.placement(has_ended));
            if step.is_open {
                self.window(step.until, duty);
                continue;
            }
            let until = step.until.min(seen).min(self.now + PERIOD);
            let time = rest.min((until - self.now) as f64).ceil();
            self.now += time as u64;
            rest -= time;
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
        controller.set_window_cost(if self.is_long { LONG_WINDOW_COST } else { 0 });
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
        let (base, is_long) = (program.base, program.is_long);
        let run = program.run(target, most, counts_untouched);
        println!(
            "seed {seed}, {base} ns, {target}, {most}, {is_long}, {counts_untouched}: {run:?}"
        );
        run
    };
    let all: Vec<Run> = (0..SEEDS).map(run).collect();
    let mean = |of: fn(&Run) -> f64| all.iter().map(of).sum::<f64>() / SEEDS as f64;
    Run { late: mean(|it| it.late), kept: mean(|it| it.kept), silences: mean(|it| it.silences) }
}

/// Short windows cost far more than they give there.
#[test]
fn long_windows_keep_most_of_what_long_iterations_allow() {
    for (base, target, least) in
        [(2e7, 1.1, 0.06), (4e7, 1.1, 0.065), (1e7, 1.25, 0.12), (4e7, 1.25, 0.15)]
    {
        let run = |is_long| means(|seed| Program::new(base, is_long, seed), target, WHOLE, is_long);
        let [short, long] = [false, true].map(run);
        assert!(long.late < 0.015 && long.kept > least, "{long:?} at {target}, {base} ns");
        assert!(long.kept > 4.0 * short.kept, "{short:?}, {long:?} at {target}, {base} ns");
    }
}

/// No window fits, so the program runs as one without a target.
#[test]
fn short_iterations_are_in_target_without_windows() {
    for (base, target) in [(1.5e6, 1.1), (5e6, 1.1), (1.5e7, 1.1), (5e6, 1.25)] {
        let run = means(|seed| Program::new(base, true, seed), target, WHOLE, true);
        assert!(run.late < 0.005 && run.kept < 0.01, "{run:?} at {target}, {base} ns");
    }
}

/// The best-effort program may have a part of the time that is a window in some iterations.
#[test]
fn iterations_that_no_window_touched_replace_measurements() {
    for (base, most) in [(2.2e7, 20_000), (3e7, 20_000), (4e7, 20_000), (6e7, 10_000)] {
        let run = |counts| means(|seed| Program::new(base, true, seed), 1.1, most, counts);
        let [before, now] = [false, true].map(run);
        println!("{base} ns, {most}: {before:?}, then {now:?}");
        assert!(now.silences < 0.2 * before.silences, "{before:?}, {now:?} of {base} ns");
        assert!(now.kept > before.kept && now.late < 0.015, "{before:?}, {now:?} of {base} ns");
    }
}
