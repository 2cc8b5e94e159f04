//! Sequences of programs, which keep the state themselves.

use super::batches::{ask_together, text, while_held};
use super::{PROCESS_ENDED, TRUSTED, error, post, put, with_echo};
use crate::daemon::Daemon;
use crate::{SOON, within};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Flags of a request: whether it starts its sequence, and ends it.
const FIRST: [bool; 2] = [true, false];
const NEXT: [bool; 2] = [false, false];
const LAST: [bool; 2] = [false, true];

/// Error of a request after the process with its sequence's state has ended.
const ENDED: &str = "sequence: must begin with sequence_start: its process has ended";

/// Starts a daemon with the model `sums`, which is `sequences.py`.
fn with_sums(test: &str, keys: &str) -> Daemon {
    let folder = Daemon::place(test);
    put(folder.path(), "sums", include_str!("sequences.py"), "", keys);
    Daemon::start_in(folder, &[TRUSTED, "models.load=[\"sums\"]"])
}

/// A request of a sequence, which adds 1.
fn body(id: &str, sequence: &str, flags: [bool; 2]) -> Value {
    json!({
        "id": id,
        "parameters": {
            "sequence_id": sequence, "sequence_start": flags[0], "sequence_end": flags[1],
        },
        "inputs": [{ "name": "x", "datatype": "FP32", "shape": [1], "data": [1.0] }],
    })
}

fn infer(daemon: &Daemon, body: &Value) -> (u16, Value) {
    post(daemon, "/v2/models/sums/infer", body)
}

fn step(daemon: &Daemon, sequence: &str, flags: [bool; 2]) -> (u16, Value) {
    infer(daemon, &body("", sequence, flags))
}

/// The data of an output.
fn output(said: &(u16, Value), name: &str) -> Value {
    assert_eq!(said.0, 200, "{said:?}");
    let outputs = said.1["outputs"].as_array().expect("outputs");
    let named = outputs.iter().find(|output| output["name"] == name);
    named.expect("an output of this name")["data"].clone()
}

/// The sum of a sequence so far, and the process that has it.
fn sum_and_pid(said: &(u16, Value)) -> (f64, u64) {
    let sum = output(said, "sum")[0].as_f64().expect("a number");
    (sum, output(said, "pid")[0].as_u64().expect("a number"))
}

#[test]
fn requests_of_a_sequence_have_the_process_with_its_state() {
    let daemon = with_sums("process-sequence", "instances.be = 2\nmax_sequences = 8");
    let others = while_held(&daemon, "sums", &body("hold", "a", FIRST), || {
        sum_and_pid(&step(&daemon, "b", FIRST))
    });
    let (held, (_, of_b)) = (sum_and_pid(&others.0), others.1);
    assert_ne!(held.1, of_b, "the other process was free");
    for count in 2..10 {
        assert_eq!(sum_and_pid(&step(&daemon, "a", NEXT)), (f64::from(count), held.1));
        assert_eq!(sum_and_pid(&step(&daemon, "b", NEXT)), (f64::from(count), of_b));
    }
}

/// The process knows a sequence by a number of the daemon's, which is free again after its end.
#[test]
fn process_hears_where_a_sequence_begins_and_ends() {
    let daemon = with_sums("process-sequence-flags", "max_sequences = 8");
    for (sequence, flags, number) in [
        ("a", FIRST, 1),
        ("b", FIRST, 2),
        ("a", NEXT, 1),
        ("a", LAST, 1),
        ("c", [true, true], 1),
        ("b", FIRST, 2),
    ] {
        let said = step(&daemon, sequence, flags);
        let got = (output(&said, "number"), output(&said, "flags"));
        assert_eq!(got, (json!([number]), json!(flags)), "{sequence} {flags:?}");
    }
    let said = error(&step(&daemon, "a", NEXT));
    assert!(said.0 == 400 && said.1.contains("must begin with sequence_start"), "{said:?}");
    assert_eq!(sum_and_pid(&step(&daemon, "b", NEXT)).0, 2.0, "it has started again");
}

#[test]
fn sequence_starts_again_after_its_process_has_ended() {
    let daemon = with_sums("process-sequence-end", "max_sequences = 8");
    let (_, before) = sum_and_pid(&step(&daemon, "a", FIRST));
    let killed = Command::new("kill").args(["-s", "KILL", &before.to_string()]).status();
    assert!(killed.unwrap().success());
    // Its number is free only once the daemon has noted the end of all its threads.
    within(SOON, "its end", || !Path::new(&format!("/proc/{before}")).exists());
    assert_eq!(error(&step(&daemon, "a", NEXT)), (400, ENDED.into()));
    assert_eq!(error(&step(&daemon, "a", LAST)), (400, ENDED.into()), "and for as long");
    let (sum, after) = sum_and_pid(&step(&daemon, "a", FIRST));
    assert!(sum == 1.0 && after != before, "{sum} {before} {after}");
    let gone = (503, PROCESS_ENDED.to_owned());
    assert_eq!(error(&infer(&daemon, &body("crash", "a", NEXT))), gone);
    assert_eq!(error(&step(&daemon, "a", NEXT)), (400, ENDED.into()));
    assert_eq!(sum_and_pid(&step(&daemon, "a", FIRST)).0, 1.0);
    assert_eq!(sum_and_pid(&step(&daemon, "a", NEXT)).0, 2.0);
}

#[test]
fn two_sequences_run_in_one_batch() {
    let daemon = with_sums("process-sequence-batch", "max_batch = 4\nmax_sequences = 8");
    let bodies = [body("", "a", FIRST), body("", "b", FIRST)];
    let said = ask_together(&daemon, "sums", &body("hold", "c", FIRST), &bodies);
    for (said, number) in said.iter().zip([2, 3]) {
        let got = (output(said, "together"), output(said, "number"), output(said, "sum"));
        assert_eq!(got, (json!([2]), json!([number]), json!([1.0])));
    }
    for (sequence, sum) in [("a", 2.0), ("b", 2.0), ("c", 2.0)] {
        assert_eq!(sum_and_pid(&step(&daemon, sequence, NEXT)).0, sum, "{sequence}");
    }
}

/// Another sequence that begins drops those that are unused.
#[test]
fn unused_sequence_of_a_process_is_forgotten() {
    let daemon = with_sums("process-sequence-idle", "sequence_idle_us = 1");
    assert_eq!(output(&step(&daemon, "a", FIRST), "number"), json!([1]));
    assert_eq!(output(&step(&daemon, "b", FIRST), "number"), json!([1]), "it is free again");
    let said = error(&step(&daemon, "a", NEXT));
    assert!(said.0 == 400 && said.1.contains("was unused for 1µs"), "{said:?}");
}

#[test]
fn sequence_is_refused_where_it_cannot_be() {
    let daemon = with_sums("process-sequence-misuse", "max_sequences = 8");
    let mut without = body("", "", NEXT);
    let said = error(&infer(&daemon, &without));
    assert_eq!(said.1, "parameter sequence_id: must be given, as sums/1 has sequences");
    assert_eq!(error(&infer(&daemon, &body("wrong", "a", FIRST))).1, "not this one");
    let said = error(&step(&daemon, "a", NEXT));
    assert!(said.1.contains("must begin with sequence_start"), "it has not begun: {said:?}");
    assert_eq!(step(&daemon, "a", FIRST).0, 200);
    let mut urgent = body("", "a", NEXT);
    urgent["parameters"]["priority"] = json!(1);
    let said = error(&infer(&daemon, &urgent));
    assert_eq!(said, (400, "sequence: must stay in its class be, got rt".into()));
    assert_eq!(sum_and_pid(&step(&daemon, "a", NEXT)).0, 2.0, "it goes on in its own");
    let echo = with_echo("process-sequence-none", "", "");
    without["parameters"] = json!({ "sequence_id": 7, "sequence_start": true });
    let said = error(&post(&echo, "/v2/models/echo/infer", &without));
    let want = "cannot be used with echo/1, which has no sequences (model.toml: max_sequences)";
    assert_eq!(said, (400, format!("parameter sequence_id: {want}")));
}

#[test]
fn configuration_sent_back_leaves_sequences() {
    let daemon = with_sums("process-sequence-config", "max_sequences = 8");
    let load = |config: &str| {
        let body = json!({ "parameters": { "config": config } });
        post(&daemon, "/v2/repository/models/sums/load", &body)
    };
    let (status, said) = load(&text(&daemon, "/v2/models/sums/config"));
    assert_eq!(status, 200, "{said}");
    assert_eq!(step(&daemon, "a", FIRST).0, 200);
    let more = r#"{ "sequence_batching": { "oldest": { "max_candidate_sequences": 9 } } }"#;
    let said = error(&load(more));
    let want = "sequences of a process must be as in its own files";
    assert!(said.0 == 400 && said.1.ends_with(want), "{said:?}");
}
