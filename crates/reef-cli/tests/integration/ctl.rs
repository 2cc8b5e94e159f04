//! `reef ctl` on a daemon, and configurations as it prints them.

use crate::common::daemon::Daemon;
use crate::common::{Folder, json, prints, reef, refuses, says, text};
use std::io::BufRead;

/// Runs `reef ctl` on the daemon in this folder; what it printed, or its line on stderr and exit
/// code.
fn ctl(folder: &Folder, args: &[&str]) -> Result<String, (Option<i32>, String)> {
    let place = ["--socket-dir", &folder.path("")];
    let output = reef(&[&["ctl"], args, &place].concat());
    if output.status.success() {
        return Ok(text(&output.stdout).to_owned());
    }
    Err((output.status.code(), text(&output.stderr).to_owned()))
}

#[test]
fn models_are_unloaded_and_loaded_again() {
    let folder = Folder::new("ctl");
    let _daemon = Daemon::start(&folder);
    let models = || json(&ctl(&folder, &["models", "--json"]).unwrap());
    assert_eq!((&models()[0]["name"], &models()[0]["state"]), (&"tiny".into(), &"READY".into()));
    assert_eq!(ctl(&folder, &["unload", "tiny"]).unwrap(), "tiny: unloaded\n");
    assert_ne!(models()[0]["state"], "READY");
    let said = ctl(&folder, &["models"]).unwrap();
    assert!(
        said.lines().any(|line| line.contains("tiny") && line.contains("not loaded")),
        "{said}"
    );
    let said = json(&ctl(&folder, &["load", "tiny", "--json"]).unwrap());
    assert_eq!((&said["model"], &said["state"]), (&"tiny".into(), &"loaded".into()));
    let said = ctl(&folder, &["models"]).unwrap();
    assert!(said.lines().any(|line| line.contains("tiny") && line.contains("ready")), "{said}");
    for (name, want) in [("nothing", "no model nothing"), ("../x?y", "400 Bad Request: ")] {
        let (code, said) = ctl(&folder, &["load", name]).unwrap_err();
        assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains(want), "{said}");
    }
}

#[test]
fn status_lists_devices_and_models() {
    let folder = Folder::new("ctl-status");
    let _daemon = Daemon::start(&folder);
    let status = json(&ctl(&folder, &["status", "--json"]).unwrap());
    assert_eq!(status["ready"], true, "{status}");
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["devices"][0]["name"], "cpu:0");
    assert_eq!(status["models"][0]["name"], "tiny");
    let said = ctl(&folder, &["status"]).unwrap();
    assert!(said.contains("/http.sock: ready, version ") && said.contains("serves"), "{said}");
    let nowhere = Folder::new("ctl-nowhere");
    let (code, said) = ctl(&nowhere, &["status"]).unwrap_err();
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    assert!(
        said.contains("no daemon at ") && said.contains("http.sock: start `reef serve` or name it"),
        "{said}"
    );
}

/// As if the variable was not set. The folder would be that of the working directory otherwise.
#[test]
fn empty_runtime_folder_is_that_of_the_user() {
    let folder = Folder::new("ctl-empty-variable");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_reef"));
    command.args(["ctl", "status"]).env("XDG_RUNTIME_DIR", "").current_dir(folder.path(""));
    let output = command.output().unwrap();
    let said = [text(&output.stdout), text(&output.stderr)].concat();
    assert!(said.contains("/reef-") && said.contains("/http.sock"), "{said}");
}

#[test]
fn drained_device_leaves_its_models_to_the_other_one() {
    let folder = Folder::new("ctl-drain");
    let two = ["--device", "cpu:0?units=1,cpu:1?units=1", "--set", "models.replicas=0"];
    let _daemon = Daemon::start_with(&folder, &two);
    let devices = || json(&ctl(&folder, &["status", "--json"]).unwrap())["devices"].clone();
    let name = devices()[1]["name"].as_str().unwrap().to_owned();
    let (code, said) = ctl(&folder, &["drain", "cpu:7"]).unwrap_err();
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    let said = ctl(&folder, &["drain", &name]).unwrap();
    assert!(said.contains("out: "), "{said}");
    assert!(devices()[1]["lost"].is_string() && devices()[0]["lost"].is_null(), "{}", devices());
    assert!(says(&["request", "tiny", "--socket-dir", &folder.path("")]).ends_with(" ms\n"));
}

#[test]
fn printed_configuration_is_one_that_says_the_same() {
    let folder = Folder::new("ctl-config");
    let here = folder.path("x");
    let right = ["--set", "rights.address 127.0.0.1.rt=true", "--set", "limits.queue=7"];
    let with = |what: &[&str]| prints(&[what, &["--socket-dir", &here], &right].concat());
    let shown = with(&["ctl", "config", "show"]);
    assert!(
        shown.contains("queue = 7\n") && shown.contains("[rights.\"address 127.0.0.1\"]"),
        "{shown}"
    );
    assert!(!shown.contains("Some(") && !shown.contains("Config {"), "{shown}");
    assert_eq!(with(&["serve", "--check"]), shown);
    assert_eq!(with(&["ctl", "config", "check"]), "ok\n");
    let file = folder.file("reef.toml", &shown);
    assert_eq!(prints(&["ctl", "config", "show", "--config", &file]), shown);
    let default = prints(&["ctl", "config", "default"]);
    let file = folder.file("default.toml", &default);
    assert_eq!(prints(&["ctl", "config", "show", "--config", &file]), default);
    let said = refuses(&["ctl", "config", "check", "--set", "limits.qeue=1"]);
    assert!(said.contains("qeue") && said.ends_with(": did you mean queue?"), "{said}");
    let file = folder.file("wrong.toml", "[guest]\nsuspend = true\n");
    let said = refuses(&["ctl", "config", "check", "--config", &file]);
    assert!(said.contains("wrong.toml") && said.ends_with(": did you mean guests?"), "{said}");
    let said = refuses(&["ctl", "config", "check", "--set", "scheduler=reaf"]);
    assert!(said.ends_with(": did you mean reef?"), "{said}");
}

#[test]
fn request_prints_quantiles_of_all_inferences() {
    let folder = Folder::new("request-quantiles");
    let _daemon = Daemon::start(&folder);
    let place = folder.path("");
    let request =
        |more: &[&str]| says(&[&["request", "tiny", "--socket-dir", &place], more].concat());
    let said = request(&["--requests", "5"]);
    let lines: Vec<_> = said.lines().collect();
    let times = lines[..5].iter().map(|line| {
        let time = line.strip_suffix(" ms").and_then(|line| line.rsplit_once(' '));
        time.expect(line).1.parse::<f64>().expect(line)
    });
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    let words: Vec<_> = lines[5].split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let ["5", "inferences:", "p50", p50, "ms", "p99", p99, "ms"] = words[..] else {
        panic!("{said}")
    };
    let is_near =
        |text: &str, time: f64| (text.parse::<f64>().unwrap() - time).abs() <= 0.002 * time + 0.001;
    assert!(is_near(p50, times[2]) && is_near(p99, times[4]), "{said}");
    assert_eq!(lines.len(), 6, "{said}");
    assert_eq!(request(&[]).lines().count(), 1, "one time has no quantiles");
    let each = request(&["--requests", "3", "--json"]);
    assert!(each.lines().all(|line| json(line)["latency_ms"].is_f64()), "{each}");
}

/// Ctrl-C ends a run without an end, which then says what it measured.
#[test]
fn interrupted_request_prints_its_quantiles() {
    let folder = Folder::new("request-interrupted");
    let _daemon = Daemon::start(&folder);
    let place = folder.path("");
    let line = ["request", "tiny", "--socket-dir", &place, "--continuous", "--sleep", "1h"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_reef"));
    let mut child = command.args(line).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().map(|line| line.unwrap());
    assert!(next().unwrap().ends_with(" ms"));
    let number = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(number, rustix::process::Signal::INT).unwrap();
    assert_eq!(next(), None, "one time has no quantiles");
    assert!(child.wait().unwrap().success());
}

#[test]
fn request_without_any_time_is_refused() {
    let said = refuses(&["request", "tiny", "--timeout", "0"]);
    assert_eq!(said, "--timeout must be greater than 0, got 0");
}

/// A client in another folder would not find what a daemon has there.
#[test]
fn relative_runtime_folder_is_ignored() {
    let folder = Folder::new("ctl-relative");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_reef"));
    command.args(["ctl", "status"]).current_dir(folder.path(""));
    command.env("XDG_RUNTIME_DIR", "run").env("TMPDIR", folder.path(""));
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains(&format!("no daemon at {}", folder.path("reef-"))), "{said}");
}

/// A key is pasted from a refusal as it stands there, and as a shell hands it over.
#[test]
fn key_that_a_refusal_names_can_be_set() {
    for key in [
        "rights.\"address 127.0.0.1\".rt",
        "rights.address 127.0.0.1.rt",
        "rights.\"token a=b\".control",
    ] {
        let said = prints(&["ctl", "config", "show", "--set", &format!("{key}=true")]);
        let (_, right) = key.rsplit_once('.').unwrap();
        assert!(said.contains(&format!("{right} = true")), "{key}: {said}");
    }
    for wrong in ["limits.queue", "=1", "rights.somebody.rt=true"] {
        let output = reef(&["ctl", "config", "show", "--set", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", text(&output.stderr));
    }
}
