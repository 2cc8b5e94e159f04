//! Models that are processes: real programs behind a real daemon.

mod auto;
mod backends;
mod batches;
mod faults;
mod limits;
mod lives;
mod requests;
mod sequences;
mod streams;
mod text;

use crate::daemon::Daemon;
use crate::wire::Http;
use crate::{SOON, within};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// A program that follows requests' identifiers, without the package.
const RAW: &str = include_str!("raw.py");
/// A program by the package `reef.serve`.
const SDK: &str = include_str!("sdk.py");

/// The flags of a daemon that starts programs.
const TRUSTED: &str = "models.processes=true";
/// The error of a request whose process has ended.
const PROCESS_ENDED: &str = "the model's process ended during the request";

/// Puts a model into the repository of a daemon: a program with these arguments, and further keys.
fn put(folder: &Path, name: &str, program: &str, args: &str, keys: &str) {
    let model = folder.join("models").join(name);
    std::fs::create_dir_all(model.join("1")).unwrap();
    std::fs::write(model.join("1/model.py"), program).unwrap();
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reef-python/python");
    let words: Vec<String> = args.split_whitespace().map(|word| format!(", {word:?}")).collect();
    let text = format!(
        "engine = \"process\"\n{keys}\n[process]\ncommand = [{:?}, \"-S\", \"model.py\"{}]\n\
         env = {{ PYTHONPATH = {package:?} }}\npass_env = [\"PATH\"]\n",
        python(),
        words.concat()
    );
    std::fs::write(model.join("model.toml"), text).unwrap();
}

/// The interpreter itself, in place of a script that finds it.
fn python() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let say = ["-c", "import sys; print(sys.executable)"];
        let said = Command::new("python3").args(say).output().expect("the tests have Python");
        String::from_utf8(said.stdout).expect("a path").trim().into()
    })
}

/// Starts a daemon with the model `echo`, which is `raw.py`.
fn with_echo(test: &str, args: &str, keys: &str) -> Daemon {
    let folder = Daemon::place(test);
    put(folder.path(), "echo", RAW, args, keys);
    Daemon::start_in(folder, &[TRUSTED, "models.load=[\"echo\"]"])
}

/// Sends JSON to a path of HTTP; returns the status and the body.
fn post(daemon: &Daemon, path: &str, body: &Value) -> (u16, Value) {
    let (status, body) = post_bytes(daemon, path, "", body.to_string().as_bytes());
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn post_bytes(daemon: &Daemon, path: &str, headers: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut http = Http::connect(daemon.folder()).expect("it listens");
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    http.ask(&[head.as_bytes(), body].concat()).expect("an answer")
}

/// Asks `echo`, or another `raw.py`, for what the identifier says.
fn ask(daemon: &Daemon, model: &str, id: &str) -> (u16, Value) {
    ask_as(daemon, model, id, 0, 0)
}

/// Asks with a priority, and a timeout in microseconds.
fn ask_as(daemon: &Daemon, model: &str, id: &str, priority: u64, timeout: u64) -> (u16, Value) {
    let body = json!({
        "id": id,
        "parameters": { "priority": priority, "timeout": timeout },
        "inputs": [{ "name": "x", "datatype": "FP32", "shape": [2], "data": [1.5, -2.0] }],
    });
    post(daemon, &format!("/v2/models/{model}/infer"), &body)
}

/// The numbers of an answer's only output.
fn numbers(said: &(u16, Value)) -> Vec<f64> {
    assert_eq!(said.0, 200, "{said:?}");
    let data = said.1["outputs"][0]["data"].as_array().expect("numbers");
    data.iter().map(|value| value.as_f64().expect("a number")).collect()
}

/// The process that answers.
fn pid(daemon: &Daemon, model: &str) -> u32 {
    numbers(&ask(daemon, model, "pid"))[0] as u32
}

/// The text of an error.
fn error(said: &(u16, Value)) -> (u16, String) {
    (said.0, said.1["error"].as_str().unwrap_or_default().to_owned())
}

/// Processes whose parent is the daemon.
fn children(daemon: &Daemon) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        rest.split(' ').nth(1).and_then(|parent| parent.parse().ok()) == Some(daemon.pid())
    };
    numbers.filter(is_child).collect()
}

/// True if a process runs: a zombie does not.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Waits until a model answers again.
fn answers_again(daemon: &Daemon, model: &str) {
    within(SOON, "an answer", || ask(daemon, model, "").0 == 200);
}
