//! `reef doctor` on a driver made of functions, on none, and on broken ones.

use crate::common::daemon::Daemon;
use crate::common::http::on_socket;
use crate::common::{Folder, json, text};
use crate::exec::may_bind;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Path of a library that cargo built.
fn library(name: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let path: PathBuf = program.parent().unwrap().join(name);
    assert!(path.is_file(), "no {path:?}");
    path.to_str().unwrap().to_owned()
}

/// A machine with a driver, no MPS, and everything of its own in a folder.
fn doctor(folder: &Folder, args: &[&str], set: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reef"));
    command.args(["doctor", "--socket-dir", &folder.path("")]).args(args);
    command.env("REEF_CUDA", library("libfake_libcuda.so"));
    command.env("REEF_SHIM", library("libreef_cuda_shim.so"));
    command
        .env("REEF_ACCOUNTS", folder.path("accounts"))
        .env("CUDA_MPS_PIPE_DIRECTORY", folder.path("mps"));
    command.envs(set.iter().copied()).output().unwrap()
}

/// `ok` of the report, and state and text of each check.
fn checks(folder: &Folder, args: &[&str], set: &[(&str, &str)]) -> (bool, Value) {
    let output = doctor(folder, &[args, &["--json"]].concat(), set);
    let all = json(text(&output.stdout));
    let ok = all["ok"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!ok)), "{}", text(&output.stderr));
    let checks = all["checks"].as_array().unwrap();
    let names: Vec<_> = checks.iter().map(|check| check["check"].as_str().unwrap()).collect();
    assert_eq!(names, ["driver", "gpu", "mps", "daemon", "rights", "limits", "library"]);
    for check in checks {
        assert!(check["state"] == "ok" || check["remedy"].is_string(), "no remedy: {check}");
    }
    let by_name = checks.iter().map(|one| (one["check"].as_str().unwrap().to_owned(), one.clone()));
    (ok, Value::Object(by_name.collect()))
}

#[test]
fn machine_with_driver_and_daemon_is_well() {
    let folder = Folder::new("doctor");
    let _daemon = Daemon::start_with(&folder, &["--guests"]);
    let (ok, found) = checks(&folder, &["--need", "driver,gpu,daemon,rights,limits,library"], &[]);
    assert!(ok, "{found}");
    let said = |check: &str| found[check]["found"].as_str().unwrap();
    assert!(said("driver").contains("libfake_libcuda.so"), "{found}");
    assert!(said("gpu").starts_with("1: ") || said("gpu").starts_with("2: "), "{found}");
    assert!(said("daemon").contains("ready") && said("daemon").contains("cpu:0"), "{found}");
    assert_eq!(found["mps"]["state"], "absent");
    let (ok, found) = checks(&folder, &["--need", "mps"], &[]);
    assert!(!ok && found["mps"]["state"] == "wrong", "{found}");
    assert_eq!(found["mps"]["remedy"], "nvidia-cuda-mps-control -d");
}

/// It says what `reef exec --bind always` finds.
#[test]
fn mounts_over_the_driver_are_tried() {
    let folder = Folder::new("doctor-mounts");
    let (ok, found) = checks(&folder, &[], &[]);
    assert!(ok, "{found}");
    let said = found["library"]["found"].as_str().unwrap();
    let (allowed, refused) = (said.ends_with("files: allowed"), said.contains("files: refused ("));
    assert_eq!((allowed, refused), (may_bind(&folder), !may_bind(&folder)), "{said}");
    assert_eq!(found["library"]["remedy"].is_string(), refused, "{found}");
}

#[test]
fn refused_class_names_its_key() {
    let folder = Folder::new("doctor-rights");
    let _daemon = Daemon::start_with(&folder, &["--guests", "--set", "rights.owner.rt=false"]);
    let (ok, found) = checks(&folder, &[], &[]);
    assert!(ok && found["rights"]["state"] == "absent", "{found}");
    assert!(found["rights"]["found"].as_str().unwrap().contains("rights.\"user "), "{found}");
    assert!(!checks(&folder, &["--need", "rights"], &[]).0);
    let output = doctor(&folder, &["--fix", "--json", "--need", "rights"], &[]);
    assert_eq!(json(text(&output.stdout))["started"], json("[]"));
    let said = "reef: nothing that --fix starts is missing\nreef: wrong: rights\n";
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), said), "it grants nothing");
}

#[test]
fn absent_daemon_is_wrong_only_if_needed() {
    let folder = Folder::new("doctor-alone");
    let (ok, found) = checks(&folder, &[], &[]);
    assert!(ok && found["daemon"]["state"] == "absent", "{found}");
    let output = doctor(&folder, &["--need", "daemon"], &[]);
    let said = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), "reef: wrong: daemon\n"));
    assert!(said.lines().count() <= 24, "more than a screen: {said}");
    assert!(
        said.contains("WRONG daemon") && said.contains("→ reef serve --guests --socket-dir "),
        "{said}"
    );
    assert!(!said.contains('\x1b'), "colours are for terminals: {said}");
}

#[test]
fn broken_check_is_wrong_even_if_not_needed() {
    let folder = Folder::new("doctor-broken");
    let (text_file, nowhere) = (folder.file("words.so", "words"), folder.path("nowhere.so"));
    for (set, check) in [
        (("REEF_CUDA", &*nowhere), "driver"),
        (("REEF_CUDA", &*text_file), "driver"),
        // It finds the machine's own driver, or none.
        (("REEF_CUDA", &*library("libreef_cuda_shim.so")), ""),
        (("REEF_SHIM", &*nowhere), "library"),
        (("REEF_ACCOUNTS", "/proc/accounts"), "limits"),
        (("CUDA_DEVICE_MEMORY_LIMIT", "8GB"), "limits"),
    ] {
        let (ok, found) = checks(&folder, &[], &[set]);
        assert!(check.is_empty() || (!ok && found[check]["state"] == "wrong"), "{set:?}: {found}");
    }
    // A socket without a listener was left by a daemon that died.
    drop(std::os::unix::net::UnixListener::bind(folder.path("http.sock")).unwrap());
    let (ok, found) = checks(&folder, &[], &[]);
    assert!(!ok && found["daemon"]["state"] == "wrong", "{found}");
}

#[test]
fn machine_without_a_driver_is_not_wrong() {
    let folder = Folder::new("doctor-none");
    let (_, found) = checks(&folder, &[], &[("REEF_CUDA", ""), ("REEF_SHIM", "")]);
    if std::path::Path::new("/dev/nvidiactl").exists() || found["driver"]["state"] == "ok" {
        return reef_conformance::skip("this machine has a driver");
    }
    assert_eq!(
        (&found["driver"]["state"], &found["gpu"]["state"]),
        (&"absent".into(), &"absent".into())
    );
    let start = format!("reef serve --socket-dir {} &", folder.path(""));
    assert_eq!(found["daemon"]["remedy"], start);
    assert_eq!(found["daemon"]["found"], format!("no daemon at {}", folder.path("http.sock")));
    assert!(!checks(&folder, &["--need", "gpu"], &[("REEF_CUDA", "")]).0);
}

/// The page shows the first lines.
#[test]
fn report_on_the_page_of_installation_is_that_of_today() {
    let folder = Folder::new("doctor-page");
    let (_, found) = checks(&folder, &[], &[("REEF_CUDA", ""), ("REEF_SHIM", "")]);
    if Path::new("/dev/nvidiactl").exists() || found["driver"]["state"] == "ok" {
        return reef_conformance::skip("this machine has a driver");
    }
    let runtime = folder.path("run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_reef"));
    command.arg("doctor").env("XDG_RUNTIME_DIR", &runtime).env("REEF_CUDA", "");
    let output = command.output().unwrap();
    let page = include_str!("../../../../docs/start/install.md");
    let (_, report) = page.split_once("Without a GPU and a daemon it prints:").expect("a report");
    let shown = report.lines().skip_while(|line| !line.starts_with("```")).skip(1);
    let shown =
        shown.take_while(|line| *line != "…").map(|l| l.replace("/run/user/1000", &runtime));
    let shown: Vec<String> = shown.collect();
    let said = text(&output.stdout).lines().take(shown.len());
    let said: Vec<String> = said.map(String::from).collect();
    assert_eq!((shown.len(), said), (8, shown));
}

/// Ends a process that a doctor has started.
struct Ends(u32);

impl Drop for Ends {
    fn drop(&mut self) {
        let number = rustix::process::Pid::from_raw(self.0 as i32).unwrap();
        let _ = rustix::process::kill_process(number, rustix::process::Signal::TERM);
    }
}

/// The daemon that a report says was started, alone.
fn started(all: &Value) -> Ends {
    let [daemon] = &all["started"].as_array().unwrap()[..] else { panic!("{all}") };
    assert_eq!(daemon["check"], "daemon", "{all}");
    assert!(Path::new(daemon["log"].as_str().unwrap()).is_file(), "{all}");
    Ends(daemon["process"].as_u64().unwrap() as u32)
}

/// Control program of MPS that leaves what the driver's would.
const CONTROLS: &str =
    "mkdir -p \"$CUDA_MPS_PIPE_DIRECTORY\"\n: > \"$CUDA_MPS_PIPE_DIRECTORY/control\"\n";

/// Value of `PATH` with a control program of MPS that notes its words, then does this.
fn mps_in_path(folder: &Folder, does: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(folder.path("bin")).unwrap();
    let script = format!("#!/bin/sh\necho \"$@\" >> \"$0.calls\"\n{does}");
    let file = folder.file("bin/nvidia-cuda-mps-control", script);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.path("bin"), std::env::var("PATH").unwrap())
}

/// Words of the calls of the control program, each in a line; `None` without a call.
fn mps_calls(folder: &Folder) -> Option<String> {
    std::fs::read_to_string(folder.path("bin/nvidia-cuda-mps-control.calls")).ok()
}

#[test]
fn missing_daemon_is_started_once_and_said() {
    let folder = Folder::new("doctor-fix");
    let path = mps_in_path(&folder, CONTROLS);
    let set = [("PATH", &*path)];
    let output = doctor(&folder, &["--fix", "--json", "--need", "daemon,rights"], &set);
    let (all, said) = (json(text(&output.stdout)), text(&output.stderr).to_owned());
    let ends = started(&all);
    assert!(said.contains(&format!("is process {}: `kill {0}` ends it\n", ends.0)), "{said}");
    assert_eq!((output.status.code(), &all["ok"]), (Some(0), &true.into()), "{all} {said}");
    assert!(said.starts_with("reef: starting a daemon: reef serve --guests "), "{said}");
    let output = doctor(&folder, &["--fix", "--json"], &set);
    assert_eq!(json(text(&output.stdout))["started"], json("[]"));
    assert_eq!(text(&output.stderr), "reef: nothing that --fix starts is missing\n");
    assert_eq!(mps_calls(&folder), None);
    let output = doctor(&folder, &["--fix", "--mps", "--json"], &set);
    let all = json(text(&output.stdout));
    assert_eq!(all["started"][0]["check"], "mps", "{all}");
    assert!(text(&output.stderr).contains("quarter"), "{}", text(&output.stderr));
    let output = doctor(&folder, &["--fix", "--mps"], &set);
    assert_eq!(text(&output.stderr), "reef: nothing that --fix starts is missing\n");
    assert_eq!(mps_calls(&folder).as_deref(), Some("-d\n"), "once");
}

#[test]
fn daemon_that_died_is_started_again() {
    let folder = Folder::new("doctor-left");
    drop(std::os::unix::net::UnixListener::bind(folder.path("http.sock")).unwrap());
    let output = doctor(&folder, &["--fix", "--json", "--need", "daemon"], &[]);
    let all = json(text(&output.stdout));
    let _ends = started(&all);
    assert_eq!(output.status.code(), Some(0), "{all} {}", text(&output.stderr));
}

#[test]
fn daemon_that_is_not_ready_is_not_started_again() {
    let folder = Folder::new("doctor-loading");
    on_socket(&folder.path("http.sock"), |_, _| (503, "{\"error\": \"loading\"}".into()));
    let output = doctor(&folder, &["--fix", "--json"], &[]);
    let (all, said) = (json(text(&output.stdout)), text(&output.stderr));
    assert_eq!((output.status.code(), &all["started"]), (Some(1), &json("[]")), "{all} {said}");
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].starts_with("reef: a daemon answers in "), "{said}");
    assert_eq!(lines[1..], ["reef: wrong: daemon"]);
}

#[test]
fn daemon_that_cannot_start_is_not_fixed() {
    let folder = Folder::new("doctor-unfixed");
    let path = mps_in_path(&folder, CONTROLS);
    let set = [("REEF_SERVE__SCHEDULER", "reaf"), ("PATH", &*path)];
    let output = doctor(&folder, &["--fix"], &set);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("not fixed: the daemon ended: ") && said.contains("reaf"), "{said}");
    assert!(text(&output.stdout).contains("daemon"), "the findings come first");
    let output = doctor(&folder, &["--fix", "--mps", "--json"], &set);
    let all = json(text(&output.stdout));
    assert_eq!((output.status.code(), &all["ok"]), (Some(1), &false.into()), "{all}");
    let started = all["started"].as_array().unwrap();
    assert!(started.len() == 1 && started[0]["check"] == "mps", "it runs: {all}");
    let none = doctor(&Folder::new("doctor-mps"), &["--mps"], &[]);
    assert_eq!(none.status.code(), Some(2), "--mps alone starts nothing");
}

#[test]
fn mps_that_cannot_start_is_not_fixed() {
    let folder = Folder::new("doctor-no-mps");
    let (fails, nowhere) = (mps_in_path(&folder, "exit 3\n"), folder.path("nowhere"));
    for (path, why) in [(&fails, "-d: exit status: 3"), (&nowhere, "No such file or directory")] {
        let output = doctor(&folder, &["--fix", "--mps", "--json"], &[("PATH", &**path)]);
        let (all, said) = (json(text(&output.stdout)), text(&output.stderr));
        assert_eq!((output.status.code(), &all["started"]), (Some(1), &json("[]")), "{all} {said}");
        assert!(said.contains("reef: not fixed: nvidia-cuda-mps-control"), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(!Path::new(&folder.path("http.sock")).exists(), "a daemon would not use it");
    }
}

#[test]
fn mps_is_not_started_without_a_driver() {
    let folder = Folder::new("doctor-no-driver");
    let (path, nowhere) = (mps_in_path(&folder, CONTROLS), folder.path("nowhere.so"));
    let set = [("PATH", &*path), ("REEF_CUDA", &*nowhere)];
    let output = doctor(&folder, &["--fix", "--mps", "--json"], &set);
    let (all, said) = (json(text(&output.stdout)), text(&output.stderr));
    let _ends = started(&all);
    assert_eq!(output.status.code(), Some(1), "the driver is still wrong: {all}");
    assert!(said.starts_with("reef: MPS is not started: there must be a driver that works\n"));
    assert!(said.contains("reef: starting a daemon: reef serve --socket-dir "), "{said}");
    assert_eq!(mps_calls(&folder), None);
}
