//! Processes that end, break the protocol or never answer.

use super::{PROCESS_ENDED, answers_again, ask, ask_as, error, numbers, pid, runs, with_echo};
use crate::{SOON, within};
use std::process::Command;

#[test]
fn crash_costs_its_own_request_only() {
    let daemon = with_echo("process-crash", "", "");
    let before = pid(&daemon, "echo");
    assert_eq!(error(&ask(&daemon, "echo", "crash")), (503, PROCESS_ENDED.into()));
    assert_eq!(numbers(&ask(&daemon, "echo", "")), [1.5, -2.0], "the next one waits for the start");
    let process = pid(&daemon, "echo");
    assert_ne!(process, before);
    assert_eq!(numbers(&ask(&daemon, "echo", "crash after")), [1.5, -2.0]);
    within(SOON, "its end", || !runs(process));
    assert_eq!(
        numbers(&ask(&daemon, "echo", "")),
        [1.5, -2.0],
        "nor does a crash between requests"
    );
    let process = pid(&daemon, "echo");
    let killed = Command::new("kill").args(["-s", "KILL", &process.to_string()]).status();
    assert!(killed.unwrap().success());
    within(SOON, "its end", || !runs(process));
    assert_eq!(numbers(&ask(&daemon, "echo", "")), [1.5, -2.0]);
    assert_eq!(error(&ask(&daemon, "echo", "half")), (503, PROCESS_ENDED.into()));
    answers_again(&daemon, "echo");
}

#[test]
fn process_that_breaks_the_protocol_is_killed() {
    let daemon = with_echo("process-garbage", "", "");
    for (id, want) in [
        (
            "garbage",
            "the model's process: a frame: a header must be at most 1048576 bytes, got 1667330644",
        ),
        ("not json", "the model's process: a header: expected value at line 1 column 1"),
        ("huge", "the model's process: a frame: tensors must be at most "),
        (
            "long header",
            "the model's process: a frame: a header must be at most 1048576 bytes, got 2147483648",
        ),
        ("other", "the model's process must answer request "),
    ] {
        let before = pid(&daemon, "echo");
        let said = error(&ask(&daemon, "echo", id));
        assert!(said.0 == 500 && said.1.starts_with(want), "{id}: {said:?}");
        within(SOON, "its end", || !runs(before));
        answers_again(&daemon, "echo");
    }
}

/// The second answer goes to no request: the process is replaced before the next one is sent.
#[test]
fn second_answer_belongs_to_no_request() {
    let daemon = with_echo("process-twice", "", "");
    let before = pid(&daemon, "echo");
    assert_eq!(numbers(&ask(&daemon, "echo", "twice")), [1.5, -2.0]);
    let after = pid(&daemon, "echo");
    assert_ne!(after, before);
    within(SOON, "its end", || !runs(before));
}

#[test]
fn process_that_closes_its_socket_is_killed() {
    let daemon = with_echo("process-closes", "", "");
    let before = pid(&daemon, "echo");
    assert_eq!(error(&ask(&daemon, "echo", "close")), (503, PROCESS_ENDED.into()));
    within(SOON, "its end", || !runs(before));
    answers_again(&daemon, "echo");
}

/// Its child has the socket, which would stay open.
#[test]
fn child_of_a_process_that_crashes_ends_with_it() {
    let daemon = with_echo("process-forks", "", "");
    assert_eq!(error(&ask(&daemon, "echo", "fork")), (503, PROCESS_ENDED.into()));
    let child = std::fs::read_to_string(daemon.folder().join("models/echo/1/child")).unwrap();
    let child = child.parse().unwrap();
    within(SOON, "the end of its child", || !runs(child));
    answers_again(&daemon, "echo");
}

/// The program that it has left behind has the socket, which stays open: the request would take all
/// of its time, and others would wait for it.
#[test]
fn crash_that_leaves_a_program_behind_costs_one_request() {
    let daemon = with_echo("process-leaves", "", "");
    assert_eq!(error(&ask(&daemon, "echo", "leave")), (503, PROCESS_ENDED.into()));
    answers_again(&daemon, "echo");
}

/// More than a pipe holds, of which nothing may be taken for an answer.
#[test]
fn process_that_floods_the_log_answers() {
    let daemon = with_echo("process-floods", "", "");
    let before = pid(&daemon, "echo");
    assert_eq!(numbers(&ask(&daemon, "echo", "flood")), [1.5, -2.0]);
    assert_eq!(pid(&daemon, "echo"), before);
}

#[test]
fn process_that_never_answers_is_killed() {
    let daemon = with_echo("process-never", "", "");
    let before = pid(&daemon, "echo");
    // Long enough to reach the process on a busy machine: only then it is killed.
    let said = error(&ask_as(&daemon, "echo", "never", 0, 5_000_000));
    assert!(said.0 == 504 && said.1.starts_with("timed out after 5s"), "{said:?}");
    within(SOON, "its end", || !runs(before));
    answers_again(&daemon, "echo");
}

#[test]
fn process_hears_that_a_request_is_cancelled() {
    let daemon = with_echo("process-cancel", "", "");
    let before = pid(&daemon, "echo");
    let said = error(&ask_as(&daemon, "echo", "until cancelled", 0, 200_000));
    assert_eq!(said.0, 504, "{said:?}");
    assert_eq!(pid(&daemon, "echo"), before, "it reacted, so it goes on");
}
