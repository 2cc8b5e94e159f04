//! Traces on demand.

use crate::daemon::Daemon;
use crate::{ClientProcess, SOON, within};
use reef_serve::Class;
use serde_json::Value;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}")).1
}

fn trace(daemon: &Daemon, seconds: &str) -> Vec<Value> {
    let answer = daemon.get(&format!("/reef/trace?seconds={seconds}"));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut trace: Value = serde_json::from_str(body(&answer)).unwrap();
    match trace["traceEvents"].take() {
        Value::Array(events) => events,
        other => panic!("{other}"),
    }
}

/// A connection on which a long trace is being taken. One that comes after another trace's begin is
/// refused, so it is tried until a short one is. An earlier try that is still there would refuse
/// both.
fn long(daemon: &Daemon) -> TcpStream {
    let mut taken = None;
    within(SOON, "a trace", || {
        within(SOON, "no earlier one", || daemon.clients() == 1.0);
        let mut stream = TcpStream::connect(&daemon.http).unwrap();
        stream
            .write_all(b"GET /reef/trace?seconds=60 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .unwrap();
        // sleep: so that it is the first to come; it is tried again where it is not
        std::thread::sleep(Duration::from_millis(300));
        let refused = daemon.get("/reef/trace?seconds=0.01").starts_with("HTTP/1.1 409");
        taken = refused.then_some(stream);
        refused
    });
    taken.expect("within the time")
}

/// The trace shows the client of each request, its run, the units' work, and preemptions of
/// best-effort work.
#[test]
fn a_trace_shows_requests_blocks_and_preemptions() {
    let daemon = Daemon::start("trace", &[]);
    let clients = Class::ALL.map(|class| ClientProcess::start(daemon.folder(), class));
    let preempted = || daemon.metric("reef_preemptions") > 20.0;
    within(SOON, "preemptions", preempted);
    let is = |event: &Value, key: &str, value: &str| event[key] == value;
    let requests = |events: &[Value], class: &str| -> Vec<Value> {
        let of = |e: &&Value| is(e, "name", "tiny/1") && is(e, "cat", class);
        events.iter().filter(of).cloned().collect()
    };
    let mut events = Vec::new();
    // On a busy machine a second may be too short for what is preempted again and again.
    within(SOON, "a trace with requests of both classes and a preemption", || {
        events = trace(&daemon, "1");
        let preempts = |e: &Value| is(e, "name", "preemption") && is(e, "ph", "i");
        let has_block = |e: &Value| is(e, "cat", "RT") && e["args"]["block"].is_number();
        ["rt", "be"].iter().all(|class| !requests(&events, class).is_empty())
            && events.iter().any(preempts)
            && events.iter().any(has_block)
    });
    for class in ["rt", "be"] {
        for one in requests(&events, class) {
            assert!(one["args"]["client"].as_str().unwrap().starts_with("local "), "{one}");
            assert_eq!((&one["args"]["outcome"], &one["ph"]), (&"ok".into(), &"X".into()));
            let (ts, dur) = (one["ts"].as_f64().unwrap(), one["dur"].as_f64().unwrap());
            assert!(ts >= 0.0 && dur > 0.0 && ts + dur < 30e6, "{one}");
        }
    }
    let named: Vec<_> = events.iter().filter_map(|e| e["args"]["name"].as_str()).collect();
    for name in ["unit 0", "preemptions", "lanes"] {
        assert!(named.contains(&name), "{name} in {named:?}");
    }
    drop(clients);
    within(SOON, "the clients' end", || daemon.clients() == 1.0);
    let quiet = trace(&daemon, "0.1");
    assert!(quiet.iter().all(|e| !is(e, "name", "tiny/1")), "nothing is left of the last one");
}

#[test]
fn there_is_one_trace_at_a_time_and_who_goes_away_ends_it() {
    let daemon = Daemon::start("trace-one", &[]);
    for bad in ["", "?seconds=0", "?seconds=61", "?seconds=x", "?seconds=1&more=1"] {
        let said = daemon.get(&format!("/reef/trace{bad}"));
        assert!(said.starts_with("HTTP/1.1 400") && said.contains("at most 60"), "{bad}: {said}");
    }
    let first = long(&daemon);
    assert!(daemon.get("/reef/trace?seconds=0.01").contains("another trace is in progress"));
    drop(first);
    let free = || daemon.get("/reef/trace?seconds=0.01").starts_with("HTTP/1.1 200");
    within(SOON, "the place to be free", free);
}

/// A daemon that ends does not wait for a trace.
#[test]
fn the_end_of_the_daemon_ends_a_trace() {
    let mut daemon = Daemon::start("trace-end", &[]);
    let mut stream = long(&daemon);
    daemon.terminate();
    let (mut answer, begin) = (String::new(), Instant::now());
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(30), "half of the trace's time");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("traceEvents"), "{answer}");
    assert!(daemon.ends().success());
}
