//! `reef top` and `reef ctl trace` with a daemon that answers as the test tells it.

use crate::common::{Folder, http, prints, reef, refuses, text};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Ten RT and five BE requests, and a preemption, from one poll to the next.
fn metrics(number: u64, head: &str) -> (u16, String) {
    if !head.starts_with("GET /metrics HTTP/1.1\r\n") {
        return (404, String::new());
    }
    let [rt, be] = ["rt", "be"].map(|class| format!("model=\"m\",version=\"1\",class=\"{class}\""));
    let numbers = format!(
        "reef_requests_served_total{{{rt}}} {}\nreef_requests_served_total{{{be}}} {}\n\
         reef_rt_start_seconds_bucket{{{rt},le=\"2e-06\"}} {}\n\
         reef_rt_start_seconds_bucket{{{rt},le=\"+Inf\"}} {}\n\
         reef_preemptions {number}\nreef_clients 3\n",
        10 * number,
        5 * number,
        10 * number,
        10 * number
    );
    (200, numbers)
}

#[test]
fn top_prints_an_object_for_each_interval() {
    let folder = Folder::new("top");
    http::on_socket(&folder.path("http.sock"), metrics);
    let top = ["top", "--socket-dir", &folder.path(""), "--interval", "50ms", "--count", "3"];
    let said = prints(&[&top[..], &["--json"]].concat());
    let views: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(views.len(), 3, "{said}");
    for view in &views {
        let rate = |name: &str| view[name].as_f64().expect("a number");
        assert!(rate("seconds") > 0.0, "{view}");
        assert!((rate("rt_per_second") * rate("seconds") - 10.0).abs() < 1e-6, "{view}");
        assert!((rate("rt_per_second") / rate("be_per_second") - 2.0).abs() < 1e-6, "{view}");
        assert!((rate("preemptions_per_second") * rate("seconds") - 1.0).abs() < 1e-6, "{view}");
        assert!((rate("rt_start_p50_us") - 1.0).abs() < 1e-6, "{view}");
        assert_eq!(view["connections"], 3);
        assert_eq!(view["models"][1]["class"], "rt");
        assert_eq!(view["devices"], Value::Array(Vec::new()), "it doesn't say");
    }
    let said = prints(
        &["top", "--socket", &folder.path("http.sock"), "--interval", "50ms"]
            .into_iter()
            .chain(["--count", "1"])
            .collect::<Vec<_>>(),
    );
    assert_eq!(said.lines().count(), 1);
    assert!(said.contains(" RT ") && said.contains(" connections 3 preempted "), "{said}");
}

#[test]
fn top_waits_for_a_daemon_and_says_so_once() {
    let folder = Folder::new("top-waits");
    let socket = folder.path("http.sock");
    let mut top = Command::new(env!("CARGO_BIN_EXE_reef"))
        .args(["top", "--socket", &socket, "--interval", "50ms", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stderr, mut said) = (BufReader::new(top.stderr.take().unwrap()), String::new());
    stderr.read_line(&mut said).unwrap();
    // sleep: time for a second line; none fails a right program
    thread::sleep(Duration::from_millis(300));
    let hidden = folder.path("hidden.sock");
    http::on_socket(&hidden, metrics);
    std::fs::rename(&hidden, &socket).unwrap(); // from the first moment on it listens
    let (mut stdout, mut view) = (BufReader::new(top.stdout.take().unwrap()), String::new());
    stdout.read_line(&mut view).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&view).unwrap()["connections"], 3);
    top.kill().unwrap();
    top.wait().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.starts_with(&format!("reef: no daemon at {socket}: start `reef serve` or ")),
        "{said}"
    );
    assert!(said.ends_with("; waiting for a daemon\n"), "{said}");
}

#[test]
fn counted_top_without_a_daemon_ends_with_the_shared_error() {
    let folder = Folder::new("top-counted");
    let top = ["top", "--socket-dir", &folder.path(""), "--count", "1"];
    for more in [&[][..], &["--json"]] {
        let output = reef(&[&top[..], more].concat());
        let socket = folder.path("http.sock");
        let want = format!(
            "reef: no daemon at {socket}: start `reef serve` or name it with --socket-dir\n"
        );
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), &*want));
        assert_eq!(text(&output.stdout), "");
    }
}

/// Wants the token of the test.
fn with_token(number: u64, head: &str) -> (u16, String) {
    if head.to_lowercase().contains("\r\nauthorization: bearer 0123456789abcdef\r\n") {
        return metrics(number, head);
    }
    (401, "{\"error\":\"a token is required\"}".into())
}

#[test]
fn a_token_is_shown_over_tcp() {
    let folder = Folder::new("top-token");
    let url = http::on_port(with_token);
    let right = folder.file("right", "0123456789abcdef\n");
    let top = ["top", "--url", &url, "--interval", "50ms", "--count", "1"];
    prints(&[&top[..], &["--token-file", &right]].concat());
    let output = reef(&top);
    assert_eq!(output.status.code(), Some(1));
    let want = "reef: 401 Unauthorized: a token is required; --token-file names a file with ";
    assert!(text(&output.stderr).starts_with(want), "{}", text(&output.stderr));
    let empty = folder.file("empty", "\n");
    let said = refuses(&[&top[..], &["--token-file", &empty]].concat());
    assert_eq!(said, format!("--token-file {empty}: its first line is not a token"));
}

#[test]
fn bad_addresses_and_times_are_refused() {
    for (args, want) in [
        (
            &["top", "--url", "localhost:1"][..],
            "--url must be http://HOST:PORT, got \"localhost:1\"",
        ),
        (&["top", "--interval", "0"], "--interval must be from 10 ms to 3600 s, got 0"),
        (&["top", "--interval", "2h"], "--interval must be from 10 ms to 3600 s, got 7200 s"),
        (&["ctl", "trace", "--time", "0"], "--time must be greater than 0 and at most 60 s, got 0"),
        (
            &["ctl", "trace", "--time", "61s"],
            "--time must be greater than 0 and at most 60 s, got 61 s",
        ),
        (
            &["ctl", "trace", "--out", "/no/such/file"],
            "--out /no/such/file: its folder doesn't exist",
        ),
        (&["ctl", "trace", "--out", "/"], "--out /: must be a file, got a folder"),
    ] {
        assert_eq!(refuses(args), want);
    }
}

fn trace(_: u64, head: &str) -> (u16, String) {
    match head.lines().next() {
        Some("GET /reef/trace?seconds=0.5 HTTP/1.1") => (
            200,
            "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[{\"ph\":\"M\"},{\"ph\":\"X\"}]}".into(),
        ),
        Some("GET /reef/trace?seconds=1 HTTP/1.1") => (200, "<html>".into()),
        Some("GET /reef/trace?seconds=2 HTTP/1.1") => {
            (503, "{\"error\":\"a trace is being made\"}".into())
        }
        _ => (404, String::new()),
    }
}

#[test]
fn a_trace_lands_in_its_file_or_not_at_all() {
    let folder = Folder::new("trace");
    let socket = folder.path("http.sock");
    http::on_socket(&socket, trace);
    let out = folder.path("out.json");
    let run = |seconds: &str, more: &[&str]| {
        let args = ["ctl", "trace", "--socket", &socket, "--out", &out, "--time", seconds];
        reef(&[&args[..], more].concat())
    };
    for (seconds, want) in [
        ("1s", "the answer is not a trace: "),
        ("2s", "503 Service Unavailable: a trace is being made"),
        ("3s", "the daemon gives no traces (it has no /reef/trace)"),
    ] {
        let output = run(seconds, &["--json"]);
        assert_eq!(output.status.code(), Some(1), "{seconds}");
        let said = text(&output.stderr);
        assert!(said.contains(want) && said.lines().count() == 1, "{seconds}: {said}");
        assert!(!std::path::Path::new(&out).exists(), "{seconds}: nothing was written");
    }
    let output = run("0.5s", &["--json"]);
    assert_eq!(text(&output.stderr), "");
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&said["events"], &said["file"]), (&2.into(), &out.as_str().into()));
    let file = std::fs::read(&out).expect("it was written");
    assert_eq!(said["bytes"], file.len());
    serde_json::from_slice::<Value>(&file).expect("what the daemon sent");
    let output = run("0.5s", &[]);
    assert_eq!(text(&output.stderr), format!("1/1 tracing {socket} for 500 ms\n"));
    assert_eq!(text(&output.stdout), format!("{out}: 2 events; open it in ui.perfetto.dev\n"));
}

#[test]
fn a_daemon_that_is_not_there_is_said_at_once() {
    let folder = Folder::new("trace-gone");
    let begin = Instant::now();
    let output = reef(&[
        "ctl",
        "trace",
        "--socket-dir",
        &folder.path(""),
        "--out",
        &folder.path("x"),
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let socket = folder.path("http.sock");
    let want =
        format!("reef: no daemon at {socket}: start `reef serve` or name it with --socket-dir\n");
    assert_eq!(text(&output.stderr), want);
    let output = reef(&["request", "tiny", "--socket-dir", &folder.path(""), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), want.replace("http.sock", "local.sock"));
    assert!(begin.elapsed() < Duration::from_secs(60));
}
