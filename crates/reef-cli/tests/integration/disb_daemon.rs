//! `reef bench disb --daemon`: a process for each client of a running daemon.

use crate::common::daemon::{Daemon, metrics};
use crate::common::{Folder, prints, reef, refuses, text};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Each kind of load; `d_rt` depends on two others.
const WORKLOAD: &str = r#"{"time": 60, "tasks": [
    {"id": "a_rt", "load": {"type": "periodic", "priority": 0, "frequency": 50},
     "client": {"name": "a_rt", "model_name": "tiny", "batch_size": 1}},
    {"id": "b_be", "load": {"type": "continuous"},
     "client": {"name": "b_be", "model_name": "resnet18-imagenet", "batch_size": 1}},
    {"id": "c_rt", "load": {"type": "trace", "trace": [0, 50, 100, 150, 200, 250, 5000]},
     "client": {"name": "c_rt", "model_name": "tiny", "batch_size": 1}},
    {"id": "d_rt", "load": {"type": "dependent", "prev_task_ids": ["a_rt", "c_rt"]},
     "client": {"name": "d_rt", "model_name": "tiny", "batch_size": 1}},
    {"id": "e_be", "load": {"type": "poisson", "frequency": 30},
     "client": {"name": "e_be", "model_name": "tiny", "batch_size": 1}}]}"#;

/// A workload, and a daemon that has its network.
struct Stage {
    folder: Folder,
    file: String,
    daemon: Daemon,
}

impl Stage {
    fn new(test: &str) -> Self {
        let folder = Folder::new(test);
        let (daemon, file) = (Daemon::start(&folder), folder.file("W.json", WORKLOAD));
        Self { folder, file, daemon }
    }

    /// Arguments of a benchmark of `seconds` seconds.
    fn args(&self, seconds: &str) -> Vec<String> {
        let fixed = ["--json", "--warm-ups", "2", "--alone", "3", "--lead", "0.1s"];
        let named =
            ["bench", "disb", &self.file, "--daemon", "--socket-dir", &self.folder.path("")];
        let map = ["--map", "resnet18-imagenet=tiny", "--time", seconds];
        [&named[..], &map, &fixed].concat().into_iter().map(String::from).collect()
    }

    /// A benchmark that lasts a minute, when its clients run.
    fn long(&self) -> Child {
        let long = Command::new(env!("CARGO_BIN_EXE_reef"))
            .args(self.args("60s"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary that this test was built with");
        within("five clients", || self.clients().len() == 5);
        // Beyond what each does before they run together: five inferences.
        within("clients at work", || self.served() > 100);
        long
    }

    /// Number of requests that the daemon has answered.
    fn served(&self) -> u64 {
        let text = metrics(&self.folder);
        let served = text.lines().filter(|line| line.starts_with("reef_requests_served_total{"));
        served.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Processes of clients, by the names of their tasks.
    fn clients(&self) -> Vec<(String, u32)> {
        let all = std::fs::read_dir("/proc").expect("Linux").filter_map(Result::ok);
        all.filter_map(|entry| self.client(&entry.path())).collect()
    }

    fn client(&self, process: &Path) -> Option<(String, u32)> {
        let pid = process.file_name()?.to_str()?.parse().ok()?;
        let line = std::fs::read_to_string(process.join("cmdline")).ok()?;
        let (before, id) = line.split_once("--as-client\0")?;
        before.contains(&self.file).then(|| (id.trim_end_matches('\0').into(), pid))
    }

    /// The end of a benchmark that went wrong: one error and no client left.
    #[track_caller]
    fn fails(&self, long: Child) -> String {
        let Output { status, stderr, .. } = long.wait_with_output().expect("it has started");
        let said = text(&stderr).to_owned();
        assert_eq!((status.code(), said.lines().count()), (Some(1), 1), "{said}");
        within("all are gone", || self.clients().is_empty());
        said
    }
}

#[track_caller]
fn within(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(10)); // sleep: poll of a condition
    }
}

fn kill(pid: u32) {
    let sent = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill {pid}");
}

#[test]
fn workload_on_a_daemon_reports_as_without_one() {
    let stage = Stage::new("disb-daemon");
    let out = stage.folder.path("out");
    let begin = Instant::now();
    // On a busy machine a short run may have no preemption in it, or nothing of a client.
    while !report_of_a_run(&stage, &out) {
        assert!(begin.elapsed() < Duration::from_secs(120), "no run with some of everything");
    }
    let text =
        std::fs::read_to_string(PathBuf::from(&out).join("daemon.W.json")).expect("a report");
    let disb: Value = serde_json::from_str(&text).expect("JSON");
    let basic = &disb["results"][0]["analyzers"][0];
    for key in ["avgThroughput(req/s)", "standAloneTotalLatency(us)", "avgTotalLatency(us)"] {
        assert!(basic[key].as_f64().is_some_and(|value| value > 0.0), "{key}: {basic}");
    }
    for file in ["disb.json", "disb.csv", "disb.svg", "BEalone.W.json", "RTalone.W.json"] {
        assert!(PathBuf::from(&out).join(file).is_file(), "{file}");
    }
    within("all have ended", || stage.clients().is_empty());
}

/// Runs the workload and checks its report; whether each client had requests, and there were
/// preemptions.
fn report_of_a_run(stage: &Stage, out: &str) -> bool {
    let mut args = stage.args("0.6s");
    args.extend(["--baseline", "all", "--out", out].map(String::from));
    let said = prints(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let report: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(report["facts"]["networks"]["resnet18-imagenet"], "tiny");
    let rows = report["rows"].as_array().expect("rows");
    let find = |scheduler: &str, client: &str| {
        rows.iter().find(|row| row["scheduler"] == scheduler && row["client"] == client)
    };
    let number = |scheduler, client, what: &str| {
        let row = find(scheduler, client).unwrap_or_else(|| panic!("{scheduler}, {client}"));
        row[what].as_u64().unwrap_or_else(|| panic!("{what}: {row}"))
    };
    for together in ["RT alone", "daemon"] {
        let both =
            |client| [number(together, client, "requests"), number(together, client, "skipped")];
        let ([a, a_skipped], [c, c_skipped]) = (both("a_rt"), both("c_rt"));
        assert_eq!(a + a_skipped, 30, "50 a second, for 0.6 s");
        assert_eq!(c + c_skipped, 6, "the seventh comes after the end");
        let [d, _] = both("d_rt");
        assert!(d <= a.min(c), "{d} results of {a} and {c}");
    }
    assert!(find("BE alone", "a_rt").is_none() && find("RT alone", "b_be").is_none());
    assert!(find("daemon", "all BE").expect("a row")["be_kept_percent"].is_number());
    let some = [("d_rt", "requests"), ("b_be", "requests"), ("e_be", "requests")];
    number("RT alone", "d_rt", "requests") > 0
        && some.into_iter().all(|(client, what)| number("daemon", client, what) > 0)
        && number("daemon", "all RT", "preemptions") > 0
}

#[test]
fn a_client_that_is_killed_ends_the_benchmark() {
    let stage = Stage::new("disb-client");
    let long = stage.long();
    let clients = stage.clients();
    let (_, pid) = clients.iter().find(|(id, _)| id == "b_be").expect("a client");
    kill(*pid);
    assert_eq!(stage.fails(long), "reef: b_be: its process ended: signal: 9 (SIGKILL)\n");
}

#[test]
fn a_daemon_that_is_killed_ends_the_benchmark() {
    let mut stage = Stage::new("disb-dead");
    let long = stage.long();
    stage.daemon.0.kill().expect("it runs");
    let said = stage.fails(long);
    assert!(said.ends_with(": the daemon is gone\n"), "{said}");
}

#[test]
fn clients_do_not_outlive_the_benchmark() {
    let stage = Stage::new("disb-orphans");
    let mut long = stage.long();
    kill(long.id());
    long.wait().expect("it has started");
    within("no clients", || stage.clients().is_empty());
}

#[test]
fn daemon_workload_that_cannot_run_is_refused() {
    let stage = Stage::new("disb-refused");
    let args = stage.args("1s");
    let mut wrong: Vec<&str> = args.iter().map(String::as_str).collect();
    let map = wrong.iter().position(|arg| arg.contains("=tiny")).expect("a map");
    wrong[map] = "resnet18-imagenet=nothing";
    assert_eq!(refuses(&wrong), "b_be: no model nothing in the repository");
    let nowhere = stage.folder.path("nowhere");
    let output =
        reef(&["bench", "disb", &stage.file, "--daemon", "--socket-dir", &nowhere, "--json"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(
        said,
        format!(
            "reef: no daemon at {nowhere}/http.sock: start `reef serve` or name it with --socket-dir\n"
        )
    );
    let output = reef(&["bench", "disb", &stage.file, "--daemon", "--device", "cpu"]);
    assert_eq!(output.status.code(), Some(2), "the daemon has its own device");
}
