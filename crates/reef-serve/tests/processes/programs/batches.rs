//! Batches of requests to processes.

use super::{RAW, SDK, TRUSTED, ask, ask_as, error, numbers, pid, post, put, runs, with_echo};
use crate::daemon::Daemon;
use crate::{SOON, within};
use serde_json::{Value, json};
use std::thread;

/// Keys of a model with batches and one process for them.
const KEYS: &str = "max_batch = 4";

/// Asks `echo` for all of these together: its process is busy until all wait. Returns the answers
/// in that order.
fn ask_together(daemon: &Daemon, asks: &[(&str, u64)]) -> Vec<(u16, Value)> {
    let version = daemon.folder().join("models/echo/1");
    let is_there = |file: &str| version.join(file).exists();
    thread::scope(|scope| {
        let hold = scope.spawn(|| ask(daemon, "echo", "hold"));
        within(SOON, "the first request", || is_there("held"));
        let all: Vec<_> = asks
            .iter()
            .enumerate()
            .map(|(index, (id, timeout))| {
                let answer = scope.spawn(move || ask_as(daemon, "echo", id, 0, *timeout));
                within(SOON, "a queued request", || waiting(daemon) == index + 1);
                answer
            })
            .collect();
        std::fs::write(version.join("go"), "").unwrap();
        assert_eq!(numbers(&hold.join().unwrap()), [1.5, -2.0]);
        all.into_iter().map(|answer| answer.join().unwrap()).collect()
    })
}

/// Requests that wait in all queues.
fn waiting(daemon: &Daemon) -> usize {
    let metrics = daemon.get("/metrics");
    let depths = metrics.lines().filter(|line| line.starts_with("reef_queue_depth{"));
    let depths = depths.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    depths.sum::<f64>() as usize
}

#[test]
fn requests_of_a_batch_have_their_own_answers() {
    let daemon = with_echo("process-batch", "batches", KEYS);
    let said = ask_together(&daemon, &[("", 0), ("error", 0), ("", 0), ("", 0), ("", 0)]);
    assert_eq!(error(&said[1]), (500, "out of luck".into()));
    for of in [0, 2, 3] {
        assert_eq!(numbers(&said[of]), [4.0], "the first four run together");
    }
    assert_eq!(numbers(&said[4]), [1.5, -2.0], "the fifth one runs alone");
}

/// Answers come in reverse: one is there when the process ends, and three are not.
#[test]
fn crash_costs_open_requests_of_its_batch_only() {
    let daemon = with_echo("process-batch-crash", "batches", KEYS);
    let before = pid(&daemon, "echo");
    let said = ask_together(&daemon, &[("", 0), ("", 0), ("crash", 0), ("", 0)]);
    assert_eq!(numbers(&said[3]), [4.0]);
    let gone = (503, "the model's process ended during the request".to_owned());
    for of in &said[..3] {
        assert_eq!(error(of), gone);
    }
    within(SOON, "its end", || !runs(before));
    assert_eq!(numbers(&ask(&daemon, "echo", "")), [1.5, -2.0]);
}

/// The process hears of it, goes on, and answers the other requests.
#[test]
fn cancelled_request_leaves_its_batch() {
    let daemon = with_echo("process-batch-cancel", "batches", KEYS);
    let before = pid(&daemon, "echo");
    let said = ask_together(&daemon, &[("", 0), ("slow", 3_000_000)]);
    assert_eq!(said[1].0, 504, "{said:?}");
    assert_eq!(numbers(&said[0]), [2.0]);
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
