//! Batches of requests to processes.

use super::{
    PROCESS_ENDED, RAW, SDK, TRUSTED, ask, error, numbers, pid, post, put, runs, with_echo,
};
use crate::daemon::Daemon;
use crate::{SOON, within};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;

/// Keys of a model with batches and one process for them.
const KEYS: &str = "max_batch = 4";

/// Asks a model, whose process answers `hold` only when all of `bodies` wait. Returns their answers
/// in that order.
pub(super) fn ask_together(
    daemon: &Daemon,
    model: &str,
    hold: &Value,
    bodies: &[Value],
) -> Vec<(u16, Value)> {
    let path = format!("/v2/models/{model}/infer");
    let ask = |body: &Value| post(daemon, &path, body);
    thread::scope(|scope| {
        let (held, all) = while_held(daemon, model, hold, || {
            let mut all = Vec::new();
            for body in bodies {
                all.push(scope.spawn(move || ask(body)));
                within(SOON, "a queued request", || waiting(daemon) == all.len());
            }
            all
        });
        assert_eq!(held.0, 200);
        all.into_iter().map(|answer| answer.join().unwrap()).collect()
    })
}

/// Calls `then` while a process of the model answers `hold`. Returns both answers.
pub(super) fn while_held<T>(
    daemon: &Daemon,
    model: &str,
    hold: &Value,
    then: impl FnOnce() -> T,
) -> ((u16, Value), T) {
    let path = format!("/v2/models/{model}/infer");
    thread::scope(|scope| {
        let held = scope.spawn(|| post(daemon, &path, hold));
        within(SOON, "the first request", || file(daemon, model, "held").exists());
        let made = then();
        std::fs::write(file(daemon, model, "go"), "").unwrap();
        (held.join().unwrap(), made)
    })
}

/// A file of a model's process.
fn file(daemon: &Daemon, model: &str, name: &str) -> PathBuf {
    daemon.folder().join("models").join(model).join("1").join(name)
}

/// Requests that wait in all queues.
fn waiting(daemon: &Daemon) -> usize {
    let metrics = daemon.get("/metrics");
    let depths = metrics.lines().filter(|line| line.starts_with("reef_queue_depth{"));
    let depths = depths.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    depths.sum::<f64>() as usize
}

/// A request to `echo`.
fn echo(id: &str) -> Value {
    json!({
        "id": id,
        "inputs": [{ "name": "x", "datatype": "FP32", "shape": [2], "data": [1.5, -2.0] }],
    })
}

/// Asks `echo` with these identifiers at a time.
fn echo_together(daemon: &Daemon, ids: &[&str]) -> Vec<(u16, Value)> {
    let bodies: Vec<Value> = ids.iter().map(|id| echo(id)).collect();
    ask_together(daemon, "echo", &echo("hold"), &bodies)
}

/// The JSON at a path of HTTP, as text.
pub(super) fn text(daemon: &Daemon, path: &str) -> String {
    let said = daemon.get(path);
    said.split_once("\r\n\r\n").expect("a body").1.into()
}

#[test]
fn requests_of_a_batch_have_their_own_answers() {
    let daemon = with_echo("process-batch", "batches", KEYS);
    let said = echo_together(&daemon, &["", "error", "", "", ""]);
    assert_eq!(error(&said[1]), (500, "out of luck".into()));
    for of in [0, 2, 3] {
        assert_eq!(numbers(&said[of]), [4.0], "the first four run together");
    }
    assert_eq!(numbers(&said[4]), [1.5, -2.0], "the fifth one runs alone");
    let stats: Value = serde_json::from_str(&text(&daemon, "/v2/models/echo/stats")).unwrap();
    let stats = &stats["model_stats"][0];
    let counts = [&stats["inference_count"], &stats["execution_count"]];
    assert_eq!(counts, [&json!(5), &json!(3)], "successes, and runs that had any");
}

/// A configuration in Triton's form has batches of rows alone.
#[test]
fn configuration_sent_back_leaves_batches_of_requests() {
    let daemon = with_echo("process-batch-config", "batches", KEYS);
    let config = text(&daemon, "/v2/models/echo/config");
    let load = |config: &str| {
        let body = json!({ "parameters": { "config": config } });
        post(&daemon, "/v2/repository/models/echo/load", &body)
    };
    let (status, said) = load(&config);
    assert_eq!(status, 200, "{said}");
    let said = error(&load(r#"{ "max_batch_size": 8, "dynamic_batching": {} }"#));
    assert!(said.0 == 400 && said.1.contains("batches of a process must be"), "{said:?}");
    for said in echo_together(&daemon, &["", ""]) {
        assert_eq!(numbers(&said), [2.0]);
    }
}

/// Answers come in reverse: one is there when the process ends, and three are not.
#[test]
fn crash_costs_open_requests_of_its_batch_only() {
    let daemon = with_echo("process-batch-crash", "batches", KEYS);
    let before = pid(&daemon, "echo");
    let said = echo_together(&daemon, &["", "", "crash", ""]);
    assert_eq!(numbers(&said[3]), [4.0]);
    let gone = (503, PROCESS_ENDED.to_owned());
    for of in &said[..3] {
        assert_eq!(error(of), gone);
    }
    within(SOON, "its end", || !runs(before));
    assert_eq!(numbers(&ask(&daemon, "echo", "")), [1.5, -2.0]);
}

/// The second answer is to no open request: the process is killed, and those before it count.
#[test]
fn second_answer_costs_the_rest_of_its_batch() {
    let daemon = with_echo("process-batch-twice", "batches", KEYS);
    let before = pid(&daemon, "echo");
    let said = echo_together(&daemon, &["", "twice", ""]);
    let want = "the model's process must answer an open request of its batch, got another message";
    assert_eq!(error(&said[0]), (500, want.into()));
    for of in &said[1..] {
        assert_eq!(numbers(of), [3.0]);
    }
    within(SOON, "its end", || !runs(before));
}

/// The process hears that a client has gone, goes on, and answers the other request.
#[test]
fn cancelled_request_leaves_its_batch() {
    let daemon = with_echo("process-batch-cancel", "batches", KEYS);
    let before = pid(&daemon, "echo");
    let body = echo("until cancelled").to_string();
    let head = "POST /v2/models/echo/infer HTTP/1.1\r\nhost: localhost\r\n";
    thread::scope(|scope| {
        let held = scope.spawn(|| ask(&daemon, "echo", "hold"));
        within(SOON, "the first request", || file(&daemon, "echo", "held").exists());
        let mut client = TcpStream::connect(&daemon.http).unwrap();
        write!(client, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        within(SOON, "a queued request", || waiting(&daemon) == 1);
        let other = scope.spawn(|| ask(&daemon, "echo", ""));
        within(SOON, "another one", || waiting(&daemon) == 2);
        std::fs::write(file(&daemon, "echo", "go"), "").unwrap();
        within(SOON, "their batch", || file(&daemon, "echo", "begun").exists());
        drop(client);
        assert_eq!(numbers(&other.join().unwrap()), [2.0]);
        assert_eq!(held.join().unwrap().0, 200);
    });
    assert_eq!(pid(&daemon, "echo"), before);
}

#[test]
fn batches_are_refused_for_a_program_without_them() {
    let folder = Daemon::place("process-batch-refused");
    put(folder.path(), "echo", RAW, "", KEYS);
    put(folder.path(), "all", SDK, "", KEYS);
    let daemon = Daemon::start_in(folder, &[TRUSTED]);
    for model in ["echo", "all"] {
        let path = format!("/v2/repository/models/{model}/load");
        let (status, said) = error(&post(&daemon, &path, &json!({})));
        let want = "max_batch must be 0 or 1 for a program that takes requests alone, got 4";
        assert!(status == 400 && said.ends_with(want), "{status} {said}");
    }
}
