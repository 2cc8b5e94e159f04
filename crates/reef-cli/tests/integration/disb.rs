//! `reef bench disb`, with the least that shows that it measures.

use crate::common::{Folder, prints, reef, refuses, text};
use serde_json::Value;
use std::path::Path;

/// A steady real-time task, a best-effort one in a closed loop, and one that depends on the first.
const WORKLOAD: &str = r#"{"time": 60, "tasks": [
    {"id": "a_rt", "load": {"type": "periodic", "priority": 0, "frequency": 50},
     "client": {"name": "a_rt", "model_name": "vgg19-imagenet", "batch_size": 1}},
    {"id": "b_be", "load": {"type": "continuous"},
     "client": {"name": "b_be", "model_name": "resnet18", "batch_size": 1}},
    {"id": "c_rt", "load": {"type": "dependent", "prev_task_ids": ["a_rt"]},
     "client": {"name": "c_rt", "model_name": "resnet18", "batch_size": 1}}]}"#;

const QUICK: [&str; 10] =
    ["--size", "32", "--time", "0.6s", "--warm-ups", "1", "--alone", "2", "--lead", "0.05s"];

fn disb<'a>(file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["bench", "disb", file], &QUICK[..], more].concat()
}

fn shipped(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("disb").join(name).to_str().expect("UTF-8").into()
}

/// DISB's keys, all of them.
const KEYS: [&str; 11] = [
    "type",
    "avgThroughput(req/s)",
    "standAloneTotalLatency(us)",
    "avgPrepareInputLatency(us)",
    "avgPreprocessLatency(us)",
    "avgCopyInputLatency(us)",
    "avgInferLatency(us)",
    "avgCopyOutputLatency(us)",
    "avgPostprocessLatency(us)",
    "avgTotalLatency(us)",
    "avgTotalLatencyIncrease(us)",
];

#[test]
fn workload_runs_under_every_baseline_and_reports_like_disb() {
    let folder = Folder::new("disb");
    let file = folder.file("W.json", WORKLOAD);
    let out = folder.path("out");
    let map = ["--map", "vgg19-imagenet=resnet18", "--baseline", "all", "--json", "--out", &out];
    let report: Value = serde_json::from_str(&prints(&disb(&file, &map))).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    let find = |scheduler: &str, client: &str| {
        rows.iter().find(|row| row["scheduler"] == scheduler && row["client"] == client)
    };
    let all = [
        "BE alone",
        "rt-only",
        "sequential",
        "streams",
        "stream-priority",
        "wait-based",
        "reset",
        "reef",
    ];
    for scheduler in all {
        assert_eq!(find(scheduler, "a_rt").is_some(), scheduler != "BE alone", "{scheduler}");
        assert_eq!(find(scheduler, "b_be").is_some(), scheduler != "rt-only", "{scheduler}");
    }
    for scheduler in &all[1..] {
        let number = |client, what: &str| find(scheduler, client).expect("a row")[what].as_u64();
        let [launched, skipped] =
            ["requests", "skipped"].map(|what| number("a_rt", what).unwrap_or(0));
        assert_eq!(launched + skipped, 30, "50 a second, for 0.6 s, under {scheduler}");
        assert!(number("c_rt", "requests") <= Some(launched), "at most one for each result");
    }
    assert!(find("rt-only", "c_rt").expect("a row")["requests"].as_u64() > Some(0));
    let reef = |client, what: &str| &find("reef", client).expect("a row")[what];
    assert!(reef("all BE", "be_kept_percent").is_number());
    let [launched, due] = ["p99_ms", "due_p99_ms"].map(|what| reef("a_rt", what).as_f64());
    assert!(launched > Some(0.0) && due >= launched, "{launched:?} {due:?}");

    let text = std::fs::read_to_string(Path::new(&out).join("reef.W.json")).expect("a report");
    let disb: Value = serde_json::from_str(&text).expect("JSON");
    let results = disb["results"].as_array().expect("results");
    let names: Vec<_> = results.iter().map(|result| result["clientName"].as_str()).collect();
    assert_eq!(names, [Some("a_rt"), Some("b_be"), Some("c_rt")]);
    for key in KEYS {
        assert!(!results[0]["analyzers"][0][key].is_null(), "{key}");
    }
    for file in ["disb.json", "disb.csv", "disb.svg", "BEalone.W.json", "streams.W.json"] {
        assert!(Path::new(&out).join(file).is_file(), "{file}");
    }
}

#[test]
fn one_scheduler_shows_each_client() {
    let folder = Folder::new("disb-one");
    let file = folder.file("W.json", WORKLOAD);
    let output = reef(&disb(&file, &["--map", "vgg19-imagenet=resnet18", "--schedulers", "reset"]));
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let steps = text(&output.stderr);
    assert!(steps.contains("\nreef: and 3 requests of each of 3 tasks alone ("), "{steps}");
    assert!(said.contains("resnet18 is resnet18, vgg19-imagenet is resnet18"), "{said}");
    for client in ["a_rt", "b_be", "c_rt", "all RT", "all BE"] {
        assert!(said.lines().any(|line| line.contains(&format!(" {client} "))), "{client}: {said}");
    }
}

#[test]
fn invalid_workloads_are_refused() {
    let folder = Folder::new("disb-bad");
    let real = shipped("REAL.json");
    let unknown = folder.file("unknown.json", WORKLOAD.replace("vgg19-imagenet", "lenet"));
    let error = refuses(&["bench", "disb", &unknown]);
    assert!(error.starts_with("no network \"lenet\" here: put another in its place"), "{error}");
    let error = refuses(&["bench", "disb", &real, "--map", "bert=resnet50"]);
    assert_eq!(error, "--map bert: the workload has no such network");
    let error = refuses(&["bench", "disb", &shipped("A.json"), "--schedulers", "luck"]);
    assert!(error.starts_with("no scheduler \"luck\" (have: rt-only, "), "{error}");
    let missing = folder.path("missing.json");
    assert!(refuses(&["bench", "disb", &missing]).starts_with(&format!("{missing}: No such file")));
    let cut = folder.file("cut.json", &WORKLOAD[..50]);
    assert!(refuses(&["bench", "disb", &cut]).starts_with(&format!("{cut}: EOF while parsing")));
}
