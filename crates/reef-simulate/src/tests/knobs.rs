//! Comparison of simulated and measured shares of unmodified programs under MPS, and targets.
//!
//! `cargo test -p reef-simulate --lib knobs -- --nocapture` prints the table of shares. Targets of
//! 2026-11-27 were measured with a controller that measured alone for half a second at a time; they
//! can't be compared with simulations of today's.

use super::{client, options};
use crate::{Arrivals, Class, Fleet, GUESTS, Profile, Totals, simulate};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Sub;
use std::path::{Path, PathBuf};

/// By tools/pairs/fleet_profile.py, from rows without a share, a floor or a target, and lengths of
/// kernels from rows with other periods.
const PROFILE: &str = include_str!("../../profiles/h200-mps.json");

/// Likewise, of the machine and day of [`SHARES`].
const PROFILE_OF_SHARES: &str = include_str!("../../profiles/h200-mps-shares.json");

const SHARES: &str = "2026-11-26-h200-shares/llm-first.json";

/// Allowed relative error of a row.
const MAX_ERROR: f64 = 0.10;

/// Runs of a simulation, each with another seed.
const RUNS: u64 = 10;

/// Seconds for which the real-time program runs alone before, as measured.
const ALONE: f64 = 1.6;

/// Growth of a real-time program's mean and 99th percentile, and percent that the best-effort one
/// keeps.
type Figures = [f64; 3];

const NAMES: [&str; 3] = ["RT mean", "RT p99", "BE kept %"];

/// A pair with a knob, and the seconds of a measurement.
#[derive(Clone)]
struct Case {
    pair: String,
    knob: String,
    colocate: Option<u8>,
    slo: Option<f64>,
    settle: f64,
    seconds: f64,
}

struct Row {
    case: Case,
    measured: Figures,
    simulated: Figures,
    /// Standard deviation of simulated runs.
    spread: Figures,
}

impl Case {
    fn share(pair: &str, share: u8, seconds: f64) -> Self {
        let (pair, knob, colocate) = (pair.into(), format!("--colocate {share}"), Some(share));
        Self { pair, knob, colocate, slo: None, settle: 0.7, seconds }
    }

    fn target(pair: &str) -> Self {
        let (pair, knob, slo) = (pair.into(), "--slo 1.10".into(), Some(1.10));
        Self { pair, knob, colocate: None, slo, settle: 5.0, seconds: 2.5 }
    }

    /// A pair on one device, of which the best-effort program begins after [`ALONE`].
    fn fleet(&self, profile: &Profile) -> Fleet {
        let (rt, be) = self.pair.split_once('+').unwrap();
        let (closed, path) = (Arrivals::Closed { pause_us: 0.0 }, PathBuf::from("be"));
        let later = Arrivals::Trace(path.clone());
        let mut clients = vec![client(Class::Rt, rt, 1, closed), client(Class::Be, be, 1, later)];
        (clients[0].slo, clients[1].colocate) = (self.slo, self.colocate);
        let times = vec![(ALONE * 1e9) as u64; 10_000];
        let traces = BTreeMap::from([((path, Class::Be, be.into()), times.into())]);
        let (rt_load, be_per_gpu, profile) = (1.0, 9, profile.clone());
        Fleet { nodes: 1, gpus_per_node: 1, rt_load, be_per_gpu, profile, clients, traces }
    }

    /// Simulates it for as long as it was measured. Returns the mean and the standard deviation of
    /// all runs.
    fn simulated(&self, profile: &Profile) -> [Figures; 2] {
        let fleet = self.fleet(profile);
        let run = |scheduler, seconds, seed| {
            simulate(&fleet, &crate::Options { seed, ..options(scheduler, seconds, 1) }).unwrap()
        };
        let alone = run("rt-only", 30.0, 1);
        let figures = |seed| {
            let begin = ALONE + self.settle;
            let before = run(GUESTS, begin, seed);
            between(&before, &run(GUESTS, begin + self.seconds, seed), &alone)
        };
        let all: Vec<Figures> = (1..=RUNS).map(figures).collect();
        let mean = |of: &dyn Fn(&Figures) -> f64| all.iter().map(of).sum::<f64>() / RUNS as f64;
        let means = [0, 1, 2].map(|at| mean(&|run| run[at]));
        let spread = |at: usize| mean(&|run| (run[at] - means[at]).powi(2)).sqrt();
        [means, [0, 1, 2].map(spread)]
    }
}

/// Figures of the time from one end of a simulation to a later one.
fn between(before: &Totals, after: &Totals, alone: &Totals) -> Figures {
    let mut latency = after.rt_latency.clone();
    latency.subtract(&before.rt_latency).unwrap();
    let mean_ms =
        (after.rt_latency_sum - before.rt_latency_sum) as f64 / latency.len() as f64 / 1e6;
    let p99_ms = latency.value_at_quantile(0.99) as f64 / 1e6;
    let done = |of: fn(&Totals) -> u64| of(after).sub(of(before)) as f64;
    let kept = 100.0 * done(|totals| totals.be_work) / done(|totals| totals.be_work_alone);
    [mean_ms / alone.rt_mean_ms(), p99_ms / alone.rt_quantile_ms(0.99), kept]
}

fn results(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results").join(file);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn of<'a>(rows: &'a [Value], way: &str) -> &'a Value {
    rows.iter().find(|row| row["way"] == way).expect("such a row")
}

fn number(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap()
}

fn profile(text: &str) -> Profile {
    serde_json::from_str(text).unwrap()
}

fn row(case: Case, measured: Figures, profile: &Profile) -> Row {
    let [simulated, spread] = case.simulated(profile);
    Row { case, measured, simulated, spread }
}

/// Shares, over the same run with `--colocate 0`.
fn shares() -> Vec<Row> {
    let all = results(SHARES);
    let alone = &of(&all, "mps+reef:0")["rt"];
    let one = |share: u8| {
        let measured = of(&all, &format!("mps+reef:{share}"));
        let mean = number(alone, "per_s") / number(&measured["rt"], "per_s");
        let p99 = number(&measured["rt"], "p99") / number(alone, "p99");
        let measured = [mean, p99, number(measured, "kept")];
        row(Case::share("llm+train", share, 4.0), measured, &profile(PROFILE_OF_SHARES))
    };
    [10, 30, 50].map(one).into()
}

#[test]
fn measured_shares_are_simulated() {
    let rows = shares();
    println!("| pair | knob | | measured | simulated | off |\n|---|---|---|--:|--:|--:|");
    let mut wrong = Vec::new();
    for Row { case: Case { pair, knob, .. }, measured, simulated, spread } in &rows {
        for (at, figure) in NAMES.into_iter().enumerate() {
            let (measured, simulated, spread) = (measured[at], simulated[at], spread[at]);
            let error = simulated / measured - 1.0;
            println!(
                "| {pair} | `{knob}` | {figure} | {measured:.3} | {simulated:.3} ± {spread:.3} | \
                 {:+.1} % |",
                error * 100.0
            );
            if error.is_nan() || error.abs() > MAX_ERROR {
                wrong.push(format!("{pair}, {knob}, {figure}: {error:+.3}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The 99th percentile from the fifth second on, with a hundred iterations alone or a few more. The
/// language model's windows give less than they cost, so they close for most of the time.
#[test]
fn target_is_met_by_programs_that_others_slow() {
    for (pair, least) in [("llm+train", 0.0), ("gnn+train", 5.0)] {
        let [[mean, p99, kept], _] = Case::target(pair).simulated(&profile(PROFILE));
        println!("{pair}: {mean:.3}, {p99:.3}, {kept:.1} % kept");
        assert!(p99 < 1.12 && kept > least, "{pair}: {p99}, {kept} % kept");
    }
}

/// The row without gates is what the profile is from. Iterations at an edge of the peak have less
/// of it.
#[test]
fn profile_of_shares_gives_its_row_without_gates() {
    let all = results(SHARES);
    let (alone, free) = (&of(&all, "mps+reef:0")["rt"], of(&all, "mps"));
    let mean = number(alone, "per_s") / number(&free["rt"], "per_s");
    let p99 = number(&free["rt"], "p99") / number(alone, "p99");
    let measured = [mean, p99, number(free, "kept")];
    let [simulated, _] = Case::share("llm+train", 100, 4.0).simulated(&profile(PROFILE_OF_SHARES));
    let errors = [0, 1, 2].map(|at| (simulated[at] / measured[at] - 1.0).abs());
    assert!(errors[0] < 0.02 && errors[1] < 0.10 && errors[2] < 0.02, "{errors:?}");
}

/// Rows of a language model next to training with `--colocate 30` by their period in µs: iterations
/// and training's steps a second, and the 99th percentile in ms.
/// 2026-11-26-h200-shares/period-*.json of docs/research/results.md; alone 520 iterations a second
/// and 1.983 ms.
const PERIODS: [(f64, f64, f64, f64); 3] = [
    (300.0, 432.0, 15.0, 2.9266),
    (4000.0, 454.667, 12.0, 2.7003),
    (16000.0, 461.333, 10.0, 3.8027),
];

/// Root of the mean square of relative errors in [`PERIODS`]. What is kept is compared up to a
/// factor, as the part that is kept without gates was not measured in those runs.
fn error_of_periods(kernel_us: f64, peak_kernel_us: f64) -> f64 {
    let mut profile = profile(PROFILE);
    let train = profile.networks.get_mut("train").unwrap();
    train.kernel_us = kernel_us;
    train.peak.as_mut().unwrap().kernel_us = peak_kernel_us;
    let (mut squares, mut kept) = (0.0, Vec::new());
    for (period_us, iterations, steps, p99_ms) in PERIODS {
        profile.device.period_us = period_us;
        let [simulated, _] = Case::share("llm+train", 30, 3.0).simulated(&profile);
        let log = |simulated: f64, measured: f64| libm::log(simulated / measured);
        let (mean, p99) =
            (log(simulated[0], 520.0 / iterations), log(simulated[1], p99_ms / 1.983));
        squares += mean * mean + p99 * p99;
        kept.push(log(simulated[2], steps));
    }
    let mean = kept.iter().sum::<f64>() / 3.0;
    squares += kept.iter().map(|kept| (kept - mean).powi(2)).sum::<f64>();
    libm::sqrt(squares / 8.0)
}

#[test]
fn kernel_lengths_fit_rows_with_other_periods_best() {
    let train = &profile(PROFILE).networks["train"];
    let ours = (train.kernel_us, train.peak.unwrap().kernel_us);
    let lengths =
        [(0.0, 0.0), (20.0, 70.0), (30.0, 70.0), (40.0, 70.0), (30.0, 50.0), (30.0, 90.0)];
    let errors = lengths.map(|(rest, peak)| (error_of_periods(rest, peak), rest, peak));
    errors.iter().for_each(|(error, rest, peak)| println!("| {rest} | {peak} | {error:.4} |"));
    let (_, rest, peak) = errors.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    assert_eq!((rest, peak), ours);
}
