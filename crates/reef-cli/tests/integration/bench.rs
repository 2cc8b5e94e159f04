//! `reef bench` and `reef model profile`, with the least that shows that they measure.

use crate::common::daemon::Daemon;
use crate::common::{Folder, json, prints, reef, refuses, text};
use reef::models::profile::Latencies;
use serde_json::Value;
use std::path::Path;

/// The least of `reef bench start`, but for the options that a test is about.
pub(crate) const PREEMPT: [&str; 12] = [
    "bench",
    "start",
    "--samples",
    "2",
    "--pause",
    "200us",
    "--be-model",
    "none",
    "--blocks",
    "20us",
    "--queued",
    "2",
];

/// Columns of `reef bench colocate`.
const PAIR: [&str; 12] = [
    "bench",
    "colocate",
    "--rt-model",
    "resnet18",
    "--be-model",
    "resnet18",
    "--size",
    "64",
    "--time",
    "0.1s",
    "--windows",
    "2",
];

/// The options, each instead of one of the same name in `base`.
fn with<'a>(base: &[&'a str], options: &[&'a str]) -> Vec<&'a str> {
    let named = |pair: &[&str]| options.chunks(2).all(|option| option[0] != pair[0]);
    let kept = base.chunks(2).filter(|pair| named(pair)).flatten().copied();
    kept.chain(options.iter().copied()).collect()
}

fn read(folder: &str, name: &str) -> String {
    std::fs::read_to_string(Path::new(folder).join(name)).unwrap()
}

fn rows(report: &Value) -> &Vec<Value> {
    report["rows"].as_array().expect("rows")
}

/// Every file is there and says the same as what was printed.
fn check_files(out: &str, bench: &str, report: &Value) {
    check_tables(out, bench, report);
    let plot = read(out, &format!("{bench}.svg"));
    assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"));
}

/// As [`check_files`], of a bench that draws nothing.
fn check_tables(out: &str, bench: &str, report: &Value) {
    let file = |ending: &str| read(out, &format!("{bench}.{ending}"));
    assert_eq!(&json(&file("json")), report);
    assert_eq!(file("csv").lines().count(), 1 + rows(report).len());
    assert!(report["date"].as_str().unwrap().starts_with("20"), "{}", report["date"]);
    assert!(report["command"].as_str().unwrap().contains(" bench "));
    assert!(report["device"]["asked"].as_str().unwrap().starts_with("cpu"));
}

#[test]
fn preemption_is_measured_at_every_level_and_next_to_baselines() {
    let folder = Folder::new("preempt");
    let out = folder.path("new/out");
    let network = ["--be-model", "resnet18", "--size", "64", "--windows", "1,3"];
    let mut args = with(&PREEMPT, &network);
    args.extend(["--out", &out, "--json"]);
    let report = json(&prints(&args));
    check_files(&out, "start", &report);
    let policies = ["All", "DeviceQueue", "streams", "stream-priority", "wait-based"];
    let policies = policies.into_iter().chain(["HostQueue/1", "HostQueue/3"]);
    let want: Vec<_> = ["resnet18", "20 µs blocks"]
        .into_iter()
        .flat_map(|load| policies.clone().map(move |policy| (load, policy)))
        .collect();
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let named = |row: &Value| (text(row, "load"), text(row, "scheduler"));
    let [bare, first, rest @ .., last] = &rows(&report)[..] else {
        panic!("too few rows: {report}")
    };
    let loads = [bare, first, last].map(|row| text(row, "load"));
    assert_eq!(loads, ["one bare launch", "idle device", "idle device, again"]);
    let have: Vec<_> = rest.iter().map(named).collect();
    let have: Vec<_> = have.iter().map(|(load, policy)| (&**load, &**policy)).collect();
    assert_eq!(have, want);
    for row in rest {
        assert_eq!((&row["be_right"], &row["requests"]), (&true.into(), &2.into()), "{row}");
        assert!(row["ran_p50_us"].as_f64().unwrap() > 0.0, "{row}");
        let is_level = row["scheduler"].as_str().unwrap().contains(char::is_uppercase);
        assert_eq!(row["quiesced_p50_us"].is_f64(), is_level, "{row}");
        assert_eq!(row["preemptions"].as_u64().unwrap() > 0, {
            is_level || row["scheduler"] == "wait-based"
        });
    }
    let loads = report["facts"]["loads"].as_array().unwrap();
    assert!(loads.iter().all(|load| load["guarded_over_plain"].as_f64().unwrap() > 0.0));
    assert!(loads[1]["block_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_pair_is_measured_under_each_scheduler_and_arrival() {
    let folder = Folder::new("pair");
    let out = folder.path("out");
    let mut args = with(&PAIR, &["--rates", "50"]);
    args.extend(["--closed", "--cold", "1MiB", "--out", &out, "--json"]);
    let report = json(&prints(&args));
    check_files(&out, "colocate", &report);
    let each = "sequential,streams,stream-priority,wait-based,reset,reef,HostQueue/2";
    let mut want = vec![(None, "BE alone")];
    for (arrivals, alone) in
        [("50/s", "rt-only (alone)"), ("closed loop", "rt-only (alone),rt-only (caches emptied)")]
    {
        let policies = alone.split(',').chain(each.split(','));
        want.extend(policies.map(|policy| (Some(arrivals), policy)));
    }
    let named = |row| {
        let row: &Value = row;
        (row["arrivals"].as_str(), row["scheduler"].as_str().unwrap())
    };
    assert_eq!(rows(&report).iter().map(named).collect::<Vec<_>>(), want);
    for row in rows(&report) {
        let (arrivals, policy) = named(row);
        assert_eq!(row["rt_p99_ms"].is_f64(), arrivals.is_some(), "{row}");
        assert_eq!(row["be_kept_percent"].is_f64(), !policy.contains("rt-only"), "{row}");
    }
}

/// The requests are the same for all, however long the device takes for them.
#[test]
fn requests_arrive_whatever_became_of_those_before() {
    let args = with(&PAIR, &["--rates", "2000", "--schedulers", "streams,reef", "--time", "0.05s"]);
    let report = json(&prints(&[&args[..], &["--json"]].concat()));
    let asked: Vec<_> = rows(&report)[1..].iter().map(|row| &row["requests"]).collect();
    assert!(asked[0].as_u64().unwrap() > 50, "{asked:?}");
    assert!(asked.iter().all(|requests| *requests == asked[0]), "{asked:?}");
    for row in &rows(&report)[1..] {
        assert!(row["dropped"].as_u64().unwrap() > 0, "far too many for this device: {row}");
    }
}

#[test]
fn whole_inferences_are_measured() {
    let networks = ["bench", "networks", "resnet18", "--size", "64", "--time", "0.1s", "--json"];
    let report = json(&prints(&networks));
    let row = &rows(&report)[0];
    assert_eq!(row["network"], "resnet18");
    assert!(row["device_p50_ms"].as_f64() <= row["total_p50_ms"].as_f64(), "{row}");
    let [plain, stoppable, ratio] = ["best_effort_ms", "stoppable_ms", "stoppable_ratio"]
        .map(|key| row[key].as_f64().expect("a number"));
    assert!(plain > 0.0 && (stoppable / plain - ratio).abs() < 1e-6 * ratio, "{row}");
    assert!(refuses(&["bench", "networks", "resnet19"]).contains("resnet19"));
}

#[test]
fn commands_that_do_nothing_are_measured_each_way() {
    let folder = Folder::new("launch");
    let out = folder.path("out");
    let launch = ["bench", "launch", "--samples", "3", "--burst", "8", "--windows", "1,4"];
    let report = json(&prints(&[&launch[..], &["--out", &out, "--json"]].concat()));
    check_files(&out, "launch", &report);
    let ways: Vec<_> = rows(&report).iter().map(|row| row["way"].as_str().unwrap()).collect();
    let mut want = vec!["device's queue".to_owned(), "device's queue, All".into()];
    for window in [1, 4] {
        let levels = ["HostQueue", "DeviceQueue", "All"];
        want.extend(levels.map(|level| format!("virtual queue, {level}, window {window}")));
    }
    assert_eq!(ways, want);
    for row in rows(&report) {
        let number = |name: &str| row[name].as_f64().expect("a number");
        assert!(number("each_p50_us") > 0.0 && number("alone_p50_us") > 0.0, "{row}");
        assert!(number("call_p50_us") <= number("each_p99_us"), "{row}");
        assert_eq!(row["samples"], 3);
        let way = row["way"].as_str().unwrap();
        let is_plain = way == "device's queue" || way.contains("HostQueue");
        assert_eq!(row["guarded_over_plain"].is_null(), is_plain, "{row}");
    }
    let of = |way: &str| rows(&report).iter().find(|row| row["way"] == way).expect("its row");
    let [plain, guarded] = ["device's queue", "device's queue, All"].map(of);
    let ratio = guarded["each_p50_us"].as_f64().unwrap() / plain["each_p50_us"].as_f64().unwrap();
    assert!((guarded["guarded_over_plain"].as_f64().unwrap() / ratio - 1.0).abs() < 1e-9);
}

#[test]
fn saturate_measures_work_next_to_real_time() {
    let folder = Folder::new("pad");
    let out = folder.path("out");
    let small =
        ["--rt-model", "resnet18", "--be-model", "resnet18", "--size", "64", "--time", "0.2s"];
    let pad =
        [&["bench", "saturate"], &small[..], &["--slo", "1.5", "--out", &out, "--json"]].concat();
    let report = json(&prints(&pad));
    check_files(&out, "saturate", &report);
    let policies: Vec<_> = rows(&report).iter().map(|row| &row["policy"]).collect();
    let rivals = ["none", "padded", "streams", "stream-priority", "target 1.5"];
    assert_eq!(policies, [&["BE alone", "rt-only (alone)"][..], &rivals].concat());
    for row in rows(&report) {
        let policy = row["policy"].as_str().unwrap();
        assert_eq!(row["rt_p99_ms"].is_f64(), policy != "BE alone", "{row}");
        assert_eq!(row["be_kept_percent"].is_f64(), policy != "rt-only (alone)", "{row}");
        let is_padded = policy == "padded" || policy == "target 1.5";
        assert!(is_padded || row["padded_launches"] == 0, "{row}");
        // A short run may end before requests last for 10 ms.
        let widths = row["widths"].as_str();
        assert!(widths.is_none() || policy == "target 1.5", "{row}");
    }
    let alone = &rows(&report)[1];
    assert_eq!(
        (&alone["rt_p50_over_alone"], &alone["rt_p99_over_alone"]),
        (&1.0.into(), &1.0.into())
    );
    for (side, policy, figure) in
        [("rt", "rt-only (alone)", "rt_p99_ms"), ("be", "BE alone", "be_inferences_per_second")]
    {
        let side = [&["bench", "saturate"], &small[..], &["--class", side, "--json"]].concat();
        let report = json(&prints(&side));
        let [row] = &rows(&report)[..] else { panic!("one row: {report}") };
        assert_eq!(row["policy"], policy);
        assert!(row[figure].as_f64().is_some_and(|figure| figure > 0.0), "{row}");
    }
}

#[test]
fn people_get_a_table_and_a_line_for_each_step() {
    let output = reef(&with(&PREEMPT, &["--schedulers", "All"]));
    let (said, steps) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{steps}");
    assert!(said.contains("20 µs blocks: ") && said.contains("guarded ÷ plain"), "{said}");
    assert!(said.contains("exactly once") && said.contains(" yes "), "{said}");
    let steps: Vec<_> = steps.lines().collect();
    assert_eq!(steps.len(), 5, "{steps:?}");
    let expected = "3 measurements of up to 10 s, so up to 30 s and the time to load";
    assert_eq!(steps[0], format!("reef: {expected}"));
    assert_eq!(steps[3], "3/4 20 µs blocks, 2 queued, All");
}

#[test]
fn a_profile_is_what_models_read() {
    let folder = Folder::new("profile");
    let path = folder.path("small.profile.json");
    let output = reef(&["model", "profile", "resnet18", "--size", "64", "--out", &path]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let latencies = Latencies::load(&path).unwrap();
    let kernels = latencies.kernels.len();
    assert!(said.starts_with(&format!("{path}: {kernels} kernels, ")), "{said}");
    assert_eq!(text(&output.stderr).lines().count(), kernels);
    assert!(latencies.micros > 0 && latencies.kernels.values().all(|kernel| kernel.micros > 0));
}

#[test]
fn bad_bench_arguments_are_refused() {
    let folder = Folder::new("bad-bench");
    let file = folder.file("file", "");
    let preempt: [(&[&str], &str); 15] = [
        (&["--device", "rocm"], "no backend \"rocm\" (have: cpu"),
        (&["--samples", "0"], "--samples must be from 1 to 1000000, got 0"),
        (&["--time", "0"], "--time must be greater than 0 and at most 600 s, got 0"),
        (&["--be-model", "resnet19"], "no network \"resnet19\" (have: "),
        (&["--be-model", "resnet18", "--size", "5"], "resnet18: input size 5, possible are "),
        (
            &["--blocks", "20"],
            "--blocks: must be a number with us, ms, s, min or h, such as 20us, got \"20\"",
        ),
        (&["--blocks", "1us,2d"], "--blocks: must be a number "),
        (&["--blocks", "2s"], "--blocks must be at most 1 s, got 2s"),
        (&["--blocks", "none"], "nothing to measure: --be-model none and --blocks none"),
        (&["--queued", "0"], "--queued must be from 1 to 1024, got 0"),
        (&["--windows", "1,4096"], "--windows must be from 1 to 1024, got 4096"),
        (
            &["--schedulers", "all"],
            "no scheduler \"all\" (without --schedulers every row is measured; have: All, DeviceQueue, ",
        ),
        (&["--schedulers", "deep"], "no scheduler \"deep\" (have: All, DeviceQueue, "),
        (&["--schedulers", "All,DeviceQeue"], "no scheduler \"DeviceQeue\" (have: All, "),
        (&["--out", &file], &format!("--out {file}: must be a folder, got a file")),
    ];
    for (options, want) in preempt {
        let said = refuses(&with(&PREEMPT, options));
        assert!(said.starts_with(want), "{options:?}: {said}");
        let is_near = options.concat().contains("Qeue");
        assert_eq!(said.ends_with(": did you mean DeviceQueue?"), is_near, "{said}");
    }
    for (args, want) in [
        (&["launch", "--burst", "0"][..], "--burst must be from 1 to 1024, got 0"),
        (&["launch", "--windows", "0"], "--windows must be from 1 to 1024, got 0"),
        (&["launch", "--samples", "0"], "--samples must be from 1 to 1000000, got 0"),
        (
            &["launch", "--time", "601s"],
            "--time must be greater than 0 and at most 600 s, got 601 s",
        ),
        (&["launch", "--device", "rocm"], "no backend \"rocm\" (have: cpu"),
        (&["saturate", "--colocated-blocks", "4"], "cpu option \"colocated_blocks\": unknown"),
        (&["saturate", "--slo", "1"], "--slo: latency target: must be a ratio from 1.01 to 10"),
        (&["saturate", "--rt-model", "lenet"], "no network \"lenet\" (have: "),
        (&["saturate", "--window", "0"], "--window must be from 1 to 1024, got 0"),
        (&["churn", "--rate", "0"], "--rate must be greater than 0 and at most 10000, got 0"),
        (&["cluster", "--rate", "0"], "--rate must be greater than 0 and at most 10000, got 0"),
        (&["saturate", "--out", &file], "--out "),
        (&["launch", "--device", "cpu:0?units=1", "--out", "/proc"], "--out /proc: "),
        (&["cluster"], "--device must name several devices, such as cuda:* or cpu:0?units=1,cpu:1"),
        (&["cluster", "--device", "cpu,cuda:0"], "devices \"cpu,cuda:0\": must be of one backend"),
        (&["cluster", "--repeat", "0"], "--repeat must be from 1 to 1000, got 0"),
        (&["churn", "--repeat", "0"], "--repeat must be from 1 to 1000, got 0"),
        (&["churn", "--window", "0"], "--window must be from 1 to 1024, got 0"),
        (&["hung", "--repeat", "0"], "--repeat must be from 1 to 1000, got 0"),
        (
            &["hung", "--timeout", "0"],
            "--timeout must be greater than 0 and shorter than 6 s, got 0",
        ),
        (&["cluster", "--rate", "inf"], "--rate must be greater than 0 and at most 10000, got inf"),
    ] {
        let said = refuses(&[&["bench"], args].concat());
        assert!(said.starts_with(want), "{args:?}: {said}");
    }
    let pair: [(&[&str], &str); 6] = [
        (&["--rates", "0"], "--rates must be greater than 0 and at most 100000, got 0"),
        (&["--rates", "10,inf"], "--rates must be greater than 0 and at most 100000, got inf"),
        (&["--time", "11min"], "--time must be "),
        (&["--rt-model", "lenet"], "no network \"lenet\" (have: "),
        (&["--window", "0"], "--window must be from 1 to 1024, got 0"),
        (&["--schedulers", "reef,fifo"], "no scheduler \"fifo\" (have: sequential, "),
    ];
    for (options, want) in pair {
        let said = refuses(&with(&PAIR, options));
        assert!(said.starts_with(want), "{options:?}: {said}");
    }
}

#[test]
fn bad_profile_arguments_are_refused() {
    let folder = Folder::new("bad-profile");
    let lost = folder.path("no/such/file.json");
    let here = folder.path("");
    let table: [(&[&str], &str); 5] = [
        (&["resnet19"], "no network \"resnet19\" (have: "),
        (&["resnet18", "--device", "cpu:99"], "no device cpu:99 "),
        (&["resnet18", "--size", "5"], "resnet18: input size 5, possible are "),
        (&["resnet18", "--out", &lost], &format!("--out {lost}: its folder doesn't exist")),
        (&["resnet18", "--out", &here], &format!("--out {here}: must be a file, got a folder")),
    ];
    for (args, want) in table {
        let said = refuses(&[&["model", "profile"], args].concat());
        assert!(said.starts_with(want), "{args:?}: {said}");
    }
}

#[test]
fn clients_come_and_go_next_to_real_time_requests() {
    let folder = Folder::new("churn");
    let out = folder.path("out");
    let mut args =
        vec!["bench", "churn", "--rt-model", "resnet18", "--be-model", "resnet18", "--size", "64"];
    args.extend(["--time", "0.5s", "--repeat", "2", "--stay", "register,load,run"]);
    args.extend(["--rate", "20", "--clients", "20", "--out", &out, "--json"]);
    let report = json(&prints(&args));
    check_tables(&out, "churn", &report);
    let named =
        |row: &Value| (row["round"].as_u64(), row["clients_do"].as_str().unwrap().to_owned());
    let rows = rows(&report);
    let each = ["calm", "register", "load", "run"].map(str::to_owned);
    let want: Vec<_> =
        [1, 2].iter().flat_map(|&round| each.clone().map(|each| (Some(round), each))).collect();
    assert_eq!(rows.iter().map(named).collect::<Vec<_>>(), want);
    for row in rows {
        let is_calm = row["clients_do"] == "calm";
        assert_eq!(row["clients"].as_u64().unwrap() == 0, is_calm, "{row}");
        assert_eq!(row["rt_p99_over_calm"].is_f64(), !is_calm, "{row}");
        assert!(row["requests"].as_u64().unwrap() > 0, "{row}");
    }
    assert!(report["facts"]["p99_over_calm"]["run"].is_f64());
}

#[test]
fn several_devices_each_have_a_client_of_each_class() {
    let folder = Folder::new("cluster");
    let out = folder.path("out");
    let mut args = vec![
        "bench",
        "cluster",
        "--rt-model",
        "resnet18",
        "--be-model",
        "resnet18",
        "--size",
        "32",
    ];
    args.extend(["--device", "cpu:0?units=1,cpu:1?units=1", "--time", "0.3s", "--repeat", "1"]);
    args.extend(["--rate", "20", "--out", &out, "--json"]);
    let report = json(&prints(&args));
    check_tables(&out, "cluster", &report);
    let rows = rows(&report);
    let devices: Vec<_> = rows.iter().map(|row| row["devices"].as_u64().unwrap()).collect();
    assert_eq!(devices, [1, 2]);
    for row in rows {
        assert!(row["requests"].as_u64().unwrap() > 0, "{row}");
        assert!(row["be_alone_per_second"].as_f64().unwrap() >= 0.0, "{row}");
        assert_eq!(row["rt_p99_over_one"].is_number(), row["devices"] == 2, "{row}");
    }
}

/// The parts of a request by a daemon are there, and make up no more than all of it.
#[test]
fn the_way_to_a_daemon_is_measured_next_to_the_library() {
    let folder = Folder::new("local");
    let out = folder.path("out");
    let network =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../reef-models/tests/onnx/mobilenet-13.onnx");
    let least = ["--requests", "3", "--repeat", "2", "--period", "1ms", "--spin", "1ms"];
    let device = ["--device", "cpu:0?units=1", "--out", &out, "--json"];
    let args = [&["bench", "local", network], &least[..], &device[..]].concat();
    let report = json(&prints(&args));
    check_tables(&out, "local", &report);
    let names = ["in process", "daemon, defaults", "daemon, both spin"];
    let staged = names.map(|name| format!("{name}, input staged"));
    let want: Vec<_> = names.into_iter().chain(staged.iter().map(String::as_str)).collect();
    let named: Vec<_> = rows(&report).iter().map(|row| row["way"].as_str().unwrap()).collect();
    assert_eq!(named, want);
    for row in rows(&report) {
        assert_eq!(row["requests"], 6, "{row}");
        let is_daemon = row["way"].as_str().unwrap().starts_with("daemon");
        assert_eq!(row["p50_more_ms"].is_f64(), is_daemon, "{row}");
        assert_eq!(row["way_out_p50_us"].is_f64(), is_daemon, "{row}");
        let [all, infer] = ["p99_ms", "infer_p50_us"].map(|name| row[name].as_f64().unwrap());
        assert!(infer > 0.0 && infer <= all * 1e3 * 1.01, "{row}"); // three digits of each
    }
    let other = ["bench", "local", network, "--requests", "0"];
    assert_eq!(refuses(&other), "--requests must be from 1 to 1000000, got 0");
    let other = ["bench", "local", "no-such-network"];
    assert!(refuses(&other).contains("no-such-network"));
}

#[test]
fn killed_bench_leaves_no_daemon() {
    let network =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../reef-models/tests/onnx/mobilenet-13.onnx");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_reef"));
    command.args(["bench", "local", network, "--device", "cpu:0?units=1", "--json"]);
    command.args(["--requests", "1000000"]).stdout(std::process::Stdio::null());
    let mut bench = Daemon(command.spawn().unwrap());
    let folder = |name: &str| {
        let name = format!("reef-bench-local-{}-{name}", bench.0.id());
        std::env::temp_dir().join(name)
    };
    let folders = ["defaults", "spinning"].map(folder);
    let answers = |is_there: bool| {
        let begin = std::time::Instant::now();
        let socket = folders[0].join("local.sock");
        while std::os::unix::net::UnixStream::connect(&socket).is_ok() != is_there {
            assert!(begin.elapsed() < std::time::Duration::from_secs(600), "{is_there}");
            std::thread::sleep(std::time::Duration::from_millis(10)); // sleep: poll of a condition
        }
    };
    answers(true);
    bench.0.kill().unwrap();
    bench.0.wait().unwrap();
    answers(false);
    folders.iter().for_each(|folder| drop(std::fs::remove_dir_all(folder)));
}

/// Clients next to a kernel that doesn't end go on as without it, and its own client gets an error.
#[test]
fn hung_kernel_costs_its_own_client_alone() {
    let folder = Folder::new("hung");
    let out = folder.path("out");
    let mut args =
        vec!["bench", "hung", "--device", "cpu:0?units=3&pin=0", "--out", &out, "--json"];
    args.extend(["--time", "1500ms", "--timeout", "500ms", "--repeat", "1", "--pause", "10ms"]);
    // On a busy machine best-effort work may get next to nothing in so short a time.
    let goes_on = |report: &Value| {
        rows(report).iter().all(|row| {
            let resumes_soon = row["resume_p50_us"].as_f64().is_some_and(|us| us < 100_000.0);
            row["be_tasks_per_s"].as_f64() > Some(1.0) && resumes_soon
        })
    };
    let mut report = json(&prints(&args));
    for _ in 0..4 {
        if !goes_on(&report) {
            report = json(&prints(&args));
        }
    }
    assert!(goes_on(&report), "{report}");
    check_tables(&out, "hung", &report);
    let rows = rows(&report);
    assert_eq!(
        rows.iter().map(|row| row["neighbour"].as_str()).collect::<Vec<_>>(),
        [Some("nothing"), Some("hung")]
    );
    let (alone, hung) = (&rows[0], &rows[1]);
    assert!(alone["error_after_ms"].is_null());
    assert!(hung["error_after_ms"].as_f64().unwrap() >= 500.0, "{hung}");
}
