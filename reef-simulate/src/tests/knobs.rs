//! Comparison of simulated and measured shares and targets of unmodified programs under MPS.
//!
//! `cargo test -p reef-simulate --lib knobs -- --nocapture` prints the table of
//! docs/results/2026-11-27-simulate-knobs.

use super::{client, options};
use crate::{Arrivals, Class, Fleet, GUESTS, Profile, simulate};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// By tools/pairs/profile.py, from rows without a share, a floor or a target.
const PROFILE: &str = include_str!("../../profiles/h200-mps.json");

const SHARES: &str = "2026-11-26-h200-shares/llm-first.json";
const TARGETS: &str = "2026-11-27-h200-beside/second.json";

/// Allowed relative error of a row, unless it is in [`LARGER_ERRORS`].
const MAX_ERROR: f64 = 0.10;

/// Rows with a larger error; docs/results/2026-11-27-simulate-knobs has the reasons.
const LARGER_ERRORS: [(&str, &str, &str); 13] = [
    ("llm+train", "--beside 10", "RT p99"),
    ("llm+train", "--beside 10", "BE kept %"),
    ("llm+train", "--beside 50", "BE kept %"),
    ("llm+train", "--slo 1.10", "BE kept %"),
    ("llm-eager+train", "--slo 1.10", "RT mean"),
    ("llm-eager+train", "--slo 1.10", "BE kept %"),
    ("whisper+train", "--slo 1.10", "RT p99"),
    ("whisper+train", "--slo 1.10", "BE kept %"),
    ("unet+train", "--slo 1.10", "RT mean"),
    ("unet+train", "--slo 1.10", "BE kept %"),
    ("gnn+train", "--slo 1.10", "BE kept %"),
    ("train-small+resnet152", "--slo 1.10", "BE kept %"),
    ("cupy+train", "--slo 1.10", "BE kept %"),
];

/// Growth of a real-time program's mean and 99th percentile, and percent that the best-effort one
/// keeps.
type Figures = [Option<f64>; 3];

const NAMES: [&str; 3] = ["RT mean", "RT p99", "BE kept %"];

struct Row {
    pair: String,
    knob: String,
    figure: &'static str,
    measured: f64,
    simulated: f64,
}

fn results(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results").join(file);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn of<'a>(rows: &'a [Value], pair: &str, way: &str) -> &'a Value {
    rows.iter().find(|row| row["pair"] == pair && row["way"] == way).expect("such a row")
}

/// Simulates a pair for a minute with a share or a target, and alone.
fn simulated(pair: &str, beside: Option<u8>, slo: Option<f64>) -> Figures {
    let profile: Profile = serde_json::from_str(PROFILE).unwrap();
    let (rt, be) = pair.split_once('+').unwrap();
    let closed = Arrivals::Closed { pause_us: 0.0 };
    let mut clients =
        vec![client(Class::Rt, rt, 1, closed.clone()), client(Class::Be, be, 1, closed)];
    (clients[0].slo, clients[1].beside) = (slo, beside);
    let (rt_load, be_per_gpu, traces) = (1.0, 9, BTreeMap::new());
    let fleet = Fleet { nodes: 1, gpus_per_node: 1, rt_load, be_per_gpu, profile, clients, traces };
    let run = |scheduler| simulate(&fleet, &options(scheduler, 60.0, 1)).unwrap();
    let (alone, with) = (run("rt-only"), run(GUESTS));
    let p99 = with.rt_quantile_ms(0.99) / alone.rt_quantile_ms(0.99);
    [Some(with.rt_mean_ms() / alone.rt_mean_ms()), Some(p99), Some(with.be_kept() * 100.0)]
}

fn add(rows: &mut Vec<Row>, pair: &str, knob: &str, measured: Figures, simulated: Figures) {
    for (at, figure) in NAMES.into_iter().enumerate() {
        let (Some(measured), Some(simulated)) = (measured[at], simulated[at]) else { continue };
        rows.push(Row { pair: pair.into(), knob: knob.into(), figure, measured, simulated });
    }
}

/// Shares, over the same run with `--beside 0`.
fn shares(rows: &mut Vec<Row>) {
    let (all, pair) = (results(SHARES), "llm+train");
    let alone = &of(&all, pair, "mps+reef:0")["rt"];
    for share in [10, 30, 50] {
        let row = of(&all, pair, &format!("mps+reef:{share}"));
        let number = |of: &Value, name: &str| of[name].as_f64().unwrap();
        let mean = number(alone, "per_s") / number(&row["rt"], "per_s");
        let p99 = number(&row["rt"], "p99") / number(alone, "p99");
        let measured = [Some(mean), Some(p99), row["kept"].as_f64()];
        add(rows, pair, &format!("--beside {share}"), measured, simulated(pair, Some(share), None));
    }
}

/// Targets, over the same process alone right before.
fn targets(rows: &mut Vec<Row>) {
    let all = results(TARGETS);
    for row in all.iter().filter(|row| row["way"] == "mps+slo:1.10") {
        let pair = row["pair"].as_str().unwrap();
        let mean = row["rt"]["mean"].as_f64().unwrap() / row["alone"]["mean"].as_f64().unwrap();
        let measured = [Some(mean), row["p99_ratio"].as_f64(), row["kept"].as_f64()];
        add(rows, pair, "--slo 1.10", measured, simulated(pair, None, Some(1.10)));
    }
}

#[test]
fn measured_shares_and_targets_are_simulated() {
    let mut rows = Vec::new();
    shares(&mut rows);
    targets(&mut rows);
    println!("| pair | knob | | measured | simulated | off |\n|---|---|---|--:|--:|--:|");
    for Row { pair, knob, figure, measured, simulated } in &rows {
        let off = (simulated / measured - 1.0) * 100.0;
        println!("| {pair} | `{knob}` | {figure} | {measured:.3} | {simulated:.3} | {off:+.1} % |");
    }
    for Row { pair, knob, figure, measured, simulated } in &rows {
        let error = simulated / measured - 1.0;
        let is_larger = LARGER_ERRORS.contains(&(pair, knob, figure));
        assert_eq!(error.abs() > MAX_ERROR, is_larger, "{pair}, {knob}, {figure}: {error:+.3}");
    }
}
