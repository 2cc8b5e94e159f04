//! Comparison of simulated and measured results on an H200: the results that the project publishes,
//! read from their files.
//!
//! `cargo test -p reef-simulate --lib measured -- --nocapture` prints the table of
//! docs/simulate.md.

use crate::{Arrivals, Class, Client, Fleet, Options, Placement, Totals, simulate};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Fitted as docs/simulate.md says, to none of the rows that are compared.
const PROFILE: &str = include_str!("../../profiles/h200.json");

/// Allowed relative error of a row, unless it is in [`LARGER_ERRORS`].
const MAX_ERROR: f64 = 0.10;

/// Rows with a larger error; docs/simulate.md has the reasons.
const LARGER_ERRORS: [(&str, &str, &str); 3] = [
    ("DISB D", "streams", "RT ÷ alone"),
    ("DISB D", "reset", "RT ÷ alone"),
    ("DISB D", "reef", "RT ÷ alone"),
];

struct Row {
    load: &'static str,
    scheduler: &'static str,
    what: &'static str,
    measured: f64,
    simulated: f64,
}

impl Row {
    fn error(&self) -> f64 {
        self.simulated / self.measured - 1.0
    }

    fn has_larger_error(&self) -> bool {
        LARGER_ERRORS.contains(&(self.load, self.scheduler, self.what))
    }
}

fn results(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let mut json: Value = serde_json::from_str(&text).unwrap();
    serde_json::from_value(json["rows"].take()).unwrap()
}

/// A number of the row in which these fields have these values.
fn number(rows: &[Value], of: &[(&str, &str)], field: &str) -> f64 {
    let is_it = |row: &&Value| of.iter().all(|(field, value)| row[field] == *value);
    rows.iter().find(is_it).and_then(|row| row[field].as_f64()).expect("such a row")
}

fn client(class: Class, network: &str, arrivals: Arrivals) -> Client {
    super::client(class, network, 1, arrivals)
}

/// One device with these clients, for a minute.
fn one_device(clients: &[Client], scheduler: &str) -> Totals {
    run(clients, scheduler, 60.0, BTreeMap::new())
}

/// A file of arrivals, the class and the network that has them, and when they come.
type Traces = BTreeMap<(PathBuf, Class, String), Arc<[u64]>>;

fn run(clients: &[Client], scheduler: &str, seconds: f64, traces: Traces) -> Totals {
    let profile = serde_json::from_str(PROFILE).unwrap();
    let (rt_load, be_per_gpu) = (1.0, 9);
    let clients = clients.to_vec();
    let fleet = Fleet { nodes: 1, gpus_per_node: 1, rt_load, be_per_gpu, profile, clients, traces };
    let (scheduler, placement) = (scheduler.into(), Placement::Spread);
    let options = Options { scheduler, placement, seconds, seed: 1, threads: 1 };
    simulate(&fleet, &options).unwrap()
}

/// The very arrivals of `reef bench pair`, by their seed, in nanoseconds.
fn same_arrivals(rate: f64, seed: u64, seconds: f64) -> Arc<[u64]> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let gaps = std::iter::repeat_with(|| -(1.0 - rng.random::<f64>()).ln() / rate);
    let arrivals = gaps.scan(0.0, |now, gap| {
        *now += gap;
        Some(*now)
    });
    arrivals.take_while(|at| *at < seconds).map(|at| (at * 1e9) as u64).collect()
}

/// A ResNet-50 at this rate next to a ResNet-152 in a closed loop: `reef bench pair`, which takes
/// four seconds.
fn pair(load: &'static str, file: &str, rate: f64, rows: &mut Vec<Row>) {
    let measured = results(file);
    let (file, seconds) = (PathBuf::from("seed 1"), 4.0);
    let arrivals = same_arrivals(rate, 1, seconds);
    let requests = number(&measured, &[("arrivals", &format!("{rate}/s"))], "requests");
    assert_eq!(arrivals.len() as f64, requests, "the arrivals of {load}");
    let traces = Traces::from([((file.clone(), Class::Rt, "resnet50".into()), arrivals)]);
    let clients = [
        client(Class::Rt, "resnet50", Arrivals::Trace(file)),
        client(Class::Be, "resnet152", Arrivals::Closed { pause_us: 0.0 }),
    ];
    for scheduler in ["rt-only", "streams", "reset", "reef"] {
        let totals = run(&clients, scheduler, seconds, traces.clone());
        let of = if scheduler == "rt-only" { "rt-only (alone)" } else { scheduler };
        let arrivals = format!("{rate}/s");
        let is = |field| number(&measured, &[("arrivals", &arrivals), ("scheduler", of)], field);
        let mut row = |what, measured, simulated| {
            rows.push(Row { load, scheduler, what, measured, simulated });
        };
        row("RT p50 ms", is("rt_p50_ms"), totals.rt_quantile_ms(0.5));
        row("RT p99 ms", is("rt_p99_ms"), totals.rt_quantile_ms(0.99));
        if scheduler != "rt-only" {
            row("BE kept %", is("be_kept_percent"), totals.be_kept() * 100.0);
        }
    }
}

/// DISB's load of a file: mean device time of real-time requests over rt-only's, and what
/// best-effort work keeps.
fn disb(load: &'static str, file: &str, clients: &[Client], rows: &mut Vec<Row>) {
    let measured = results(file);
    let mean = |scheduler| {
        number(&measured, &[("client", "all RT"), ("scheduler", scheduler)], "infer_us")
    };
    let alone = one_device(clients, "rt-only").rt_mean_ms();
    let is_there = |scheduler: &&str| measured.iter().any(|row| row["scheduler"] == *scheduler);
    for scheduler in ["streams", "reset", "reef"].into_iter().filter(is_there) {
        let totals = one_device(clients, scheduler);
        let kept = [("client", "all BE"), ("scheduler", scheduler)];
        let mut row = |what, measured, simulated| {
            rows.push(Row { load, scheduler, what, measured, simulated });
        };
        row("RT ÷ alone", mean(scheduler) / mean("rt-only"), totals.rt_mean_ms() / alone);
        if measured.iter().any(|row| row["be_kept_percent"].is_number()) {
            let kept = number(&measured, &kept, "be_kept_percent");
            row("BE kept %", kept, totals.be_kept() * 100.0);
        }
    }
}

/// Best-effort clients of DISB, which have their own work to do between inferences.
fn closed(networks: &[&str]) -> Vec<Client> {
    let arrivals = Arrivals::Closed { pause_us: 68.0 };
    networks.iter().map(|network| client(Class::Be, network, arrivals.clone())).collect()
}

/// DistilBERT was a ResNet-18 at first.
const FIVE: [&str; 5] = ["densenet201", "resnet18", "inception_v3", "resnet152", "vgg19"];
const WITH_TEXT: [&str; 5] = ["densenet201", "distilbert", "inception_v3", "resnet152", "vgg19"];

fn periodic(network: &str, per_second: f64, offset_ms: f64) -> Client {
    client(Class::Rt, network, Arrivals::Periodic { per_second, offset_ms })
}

/// DISB D's real-time clients, spread by what those before take alone; then the image's way to
/// the device. Both as the run itself says.
fn five_real_time(networks: &[&str; 5], measured: &[Value]) -> Vec<Client> {
    let names = ["densenet201_rt", "distilbert_rt", "inceptionv3_rt", "resnet152_rt", "vgg19_rt"];
    let mut taken = 0.0;
    let mut client = |(network, name): (&&str, &str)| {
        let is = |field| number(measured, &[("client", name), ("scheduler", "rt-only")], field);
        let offset = taken + is("preprocess_us") / 1e3;
        taken += is("mean_ms") / is("mean_over_alone");
        periodic(network, 20.0, offset)
    };
    networks.iter().zip(names).map(|of| client((of.0, of.1))).collect()
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    pair("pair 400/s", "2026-11-21-h200/pair/pair.json", 400.0, &mut rows);
    pair("pair 400/s, later", "2026-11-22-h200-beside/pair/pair.json", 400.0, &mut rows);
    let vgg = || periodic("vgg19", 100.0, 0.0);
    let disb_of = |name| format!("2026-11-21-h200-fourth/disb/{name}/disb.json");
    let a = [vec![vgg()], closed(&["resnet152"])].concat();
    disb("DISB A", &disb_of("A"), &a, &mut rows);
    let c = [vec![vgg()], closed(&FIVE)].concat();
    disb("DISB C", &disb_of("C"), &c, &mut rows);
    let d = [five_real_time(&FIVE, &results(&disb_of("D"))), closed(&FIVE)].concat();
    disb("DISB D", &disb_of("D"), &d, &mut rows);
    let later = |name| format!("2026-11-23-h200/disb-{name}/disb.json");
    let c = [vec![vgg()], closed(&WITH_TEXT)].concat();
    disb("DISB C, later", &later("C"), &c, &mut rows);
    let d = [five_real_time(&WITH_TEXT, &results(&later("D"))), closed(&WITH_TEXT)].concat();
    disb("DISB D, later", &later("D"), &d, &mut rows);
    rows
}

#[test]
fn measured_pairs_are_simulated_within_ten_percent() {
    let rows = rows();
    assert_eq!(rows.len(), 44, "numbers of all files");
    println!("| load | scheduler | | measured | simulated | off |\n|---|---|---|---|---|---|");
    for row in &rows {
        let Row { load, scheduler, what, measured, simulated } = row;
        let off = row.error() * 100.0;
        println!(
            "| {load} | {scheduler} | {what} | {measured:.3} | {simulated:.3} | {off:+.1} % |"
        );
    }
    for row in &rows {
        let Row { load, scheduler, what, .. } = row;
        let within = row.error().abs() <= MAX_ERROR;
        assert_eq!(
            within,
            !row.has_larger_error(),
            "{load}, {scheduler}, {what}: {:+.3}",
            row.error()
        );
    }
}
