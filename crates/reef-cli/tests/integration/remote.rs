//! `reef remote serve`, and commands that use its devices.

use crate::common::{Folder, json, prints, refuses, says};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that ends with the test.
struct Server {
    child: Child,
    /// The name of its device.
    device: String,
}

impl Server {
    fn start(folder: &Folder, options: &[&str]) -> Self {
        let address = format!("unix:{}", folder.path("socket"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_reef"));
        command.args(["remote", "serve", "--listen", &address]).args(options);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let line = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        assert_eq!(line, format!("listening on {address}"));
        Self { child, device: format!("remote:{address}/cpu:0") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reef-models/tests");
    folder.join(name).to_str().expect("UTF-8").into()
}

#[test]
fn remote_device_gives_the_output_of_a_local_one() {
    let folder = Folder::new("run-remote");
    let server = Server::start(&folder, &[]);
    let device = server.device.clone();
    let args = |device: &str| {
        ["run", &file("onnx/resnet-13.onnx"), &file("images/photo.jpg"), "--device", device]
            .map(str::to_owned)
    };
    let run = |device: &str| {
        let args = args(device);
        let args: Vec<&str> = args.iter().map(String::as_str).chain(["--json"]).collect();
        let mut report: Value = serde_json::from_str(&says(&args)).expect("JSON");
        report["images"][0]["top"].take()
    };
    let classes = run(&device);
    assert_eq!(classes, run("cpu:0"));
    assert_eq!(classes.as_array().map(Vec::len), Some(5));
    let demo = ["demo", "--device", &device, "--time", "100ms"];
    let said = refuses(&demo);
    assert!(said.contains("level All asked"), "a shared device is the server's to preempt: {said}");
    assert!(said.contains("`reef remote serve --own`"), "the remedy: {said}");
    drop(server);
    let args = args(&device);
    let said = refuses(&args.each_ref().map(String::as_str));
    assert!(said.contains("socket"), "{said}");
    let said = refuses(&["remote", "serve", "--listen", "0.0.0.0:0"]);
    assert!(said.contains("must have a token and TLS"), "{said}");
}

/// The demo's rows and REEF's preemptions, on a device of the client's own.
#[test]
fn demo_preempts_at_every_level_of_a_remote_device() {
    let folder = Folder::new("demo-remote");
    let server = Server::start(&folder, &["--own"]);
    let out = folder.path("out");
    let report = json(&prints(&[
        "demo",
        "--device",
        &server.device,
        "--be-model",
        "resnet18",
        "--size",
        "32",
        "--time",
        "400ms",
        "--out",
        &out,
        "--json",
    ]));
    let named = |part: &str, name: &str| {
        let rows = report[part].as_array().expect("rows");
        rows.iter().find(|row| row["name"] == name).expect("a row").clone()
    };
    for (part, name) in [
        ("measurements", "reef"),
        ("starts", "level HostQueue"),
        ("starts", "level DeviceQueue"),
        ("starts", "level All"),
    ] {
        assert!(named(part, name)["preemptions"].as_u64() > Some(0), "{name}: {report}");
    }
    let trace = std::fs::read_to_string(Path::new(&out).join("trace.json")).unwrap();
    assert!(trace.contains("conv"), "the server's blocks are in the trace");
}

/// Each best-effort block took effect once, in order, whatever the bench stopped.
#[cfg(feature = "bench")]
#[test]
fn bench_measures_a_remote_device() {
    let folder = Folder::new("bench-remote");
    let server = Server::start(&folder, &["--own"]);
    let options = ["--device", &server.device, "--json"];
    let report = json(&prints(&[&crate::bench::PREEMPT[..], &options].concat()));
    let rows = report["rows"].as_array().expect("rows");
    for scheduler in ["All", "DeviceQueue", "HostQueue/1"] {
        let row = rows.iter().find(|row| row["scheduler"] == scheduler).expect("a row");
        assert_eq!(row["be_right"], true, "{scheduler}: {report}");
        assert!(row["be_tasks"].as_u64() > Some(0), "{scheduler}: {report}");
    }
}
