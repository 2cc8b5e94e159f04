//! Starts and ends of processes, with models and with the daemon.

use super::{
    RAW, SDK, TRUSTED, ask, ask_as, children, error, numbers, pid, post, put, python, runs,
};
use crate::daemon::Daemon;
use crate::wire::Grpc;
use crate::{SOON, options, within};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reef_serve::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

fn load(daemon: &Daemon, name: &str) -> (u16, Value) {
    post(daemon, &format!("/v2/repository/models/{name}/load"), &json!({}))
}

fn unload(daemon: &Daemon, name: &str) {
    let (status, said) = post(daemon, &format!("/v2/repository/models/{name}/unload"), &json!({}));
    assert_eq!(status, 200, "{said}");
}

#[test]
fn programs_start_only_where_the_operator_trusts_them() {
    let folder = Daemon::place("process-trust");
    put(folder.path(), "echo", RAW, "", "");
    let daemon = Daemon::start_in(folder, &[]);
    let said = error(&load(&daemon, "echo"));
    let want = "model echo/1: engine: models.processes = true starts programs of the repository, but none that a client sends";
    assert_eq!(said, (403, want.into()));
    assert!(children(&daemon).is_empty());
    let folder = daemon.kill();
    let daemon = Daemon::start_in(folder, &[TRUSTED]);
    for (path, mode) in
        [("echo", 0o777), ("echo/1", 0o775), ("echo/1/model.py", 0o666), ("echo/model.toml", 0o646)]
    {
        let at = daemon.folder().join("models").join(path);
        let before = at.metadata().unwrap().permissions();
        std::fs::set_permissions(&at, PermissionsExt::from_mode(mode)).unwrap();
        let (status, said) = error(&load(&daemon, "echo"));
        let want = format!("must be writable by its owner only, got mode {mode:o}");
        assert!(status == 403 && said.ends_with(&want), "{path}: {status} {said}");
        std::fs::set_permissions(&at, before).unwrap();
    }
    assert!(children(&daemon).is_empty());
    let config = json!({ "parameters": { "config": "{ \"max_batch_size\": 4, \"dynamic_batching\": {} }" } });
    let (status, said) = post(&daemon, "/v2/repository/models/echo/load", &config);
    assert!(
        status == 400 && said["error"].as_str().unwrap().contains("batches of a process must be"),
        "{said}"
    );
    assert_eq!(load(&daemon, "echo").0, 200);
    assert_eq!(children(&daemon).len(), 2);
}

#[test]
fn program_is_listed_loaded_and_unloaded_by_both_protocols() {
    let folder = Daemon::place("process-index");
    put(folder.path(), "echo", RAW, "", "");
    let daemon = Daemon::start_in(folder, &[TRUSTED]);
    let state = |ready: bool| {
        let (_, said) = post(&daemon, "/v2/repository/index", &json!({ "ready": ready }));
        let mut models = said.as_array().unwrap().iter();
        let echo = models.find(|model| model["name"] == "echo")?;
        Some(echo["state"].as_str().unwrap().to_owned())
    };
    let mut grpc = Grpc::connect(daemon.folder());
    for round in 0..2 {
        assert_eq!(state(false).as_deref(), Some("UNAVAILABLE"));
        assert_eq!(state(true), None);
        match round {
            0 => grpc.load("echo", true).unwrap(),
            _ => assert_eq!(load(&daemon, "echo").0, 200),
        }
        assert_eq!(state(true).as_deref(), Some("READY"));
        assert_eq!(children(&daemon).len(), 2);
        match round {
            0 => unload(&daemon, "echo"),
            _ => grpc.load("echo", false).unwrap(),
        }
        within(SOON, "the end of its processes", || children(&daemon).is_empty());
    }
    assert_eq!(state(true), None);
}

#[test]
fn model_is_refused_with_the_reason_of_its_program() {
    let folder = Daemon::place("process-load");
    put(folder.path(), "silent", RAW, "silent", "");
    put(folder.path(), "leaves", RAW, "leaves", "");
    put(folder.path(), "newer", RAW, "newer", "");
    put(
        folder.path(),
        "raises",
        &SDK.replace("self.device = device", "raise OSError('no weights')"),
        "",
        "",
    );
    put(folder.path(), "missing", RAW, "", "");
    put(folder.path(), "keys", RAW, "", "size = 32");
    let toml = folder.path().join("models/missing/model.toml");
    let text = std::fs::read_to_string(&toml)
        .unwrap()
        .replace(&format!("{:?}", python()), "\"./nothing\"");
    std::fs::write(&toml, text).unwrap();
    let daemon = Daemon::start_in(folder, &[TRUSTED]);
    let files = daemon.files();
    for (name, want) in [
        ("silent", "model silent/1: the model's process ended before it was ready"),
        ("leaves", "model leaves/1: the model's process ended before it was ready"),
        ("newer", "model newer/1: protocol must be 1, got 2"),
        ("raises", "model raises/1: OSError: no weights"),
        ("missing", "model missing/1: process.command: "),
        ("keys", "size cannot be set with engine = \"process\""),
    ] {
        let (status, said) = error(&load(&daemon, name));
        assert!(status >= 400 && said.contains(want), "{name}: {status} {said}");
    }
    within(SOON, "no process", || children(&daemon).is_empty());
    within(SOON, "no file", || daemon.files() == files);
}

#[test]
fn loads_and_unloads_leave_nothing() {
    let folder = Daemon::place("process-loads");
    put(folder.path(), "echo", RAW, "", "");
    let daemon = Daemon::start_in(folder, &[TRUSTED]);
    assert_eq!(load(&daemon, "echo").0, 200);
    unload(&daemon, "echo");
    let (files, threads) = (daemon.files(), daemon.usage().1);
    for round in 0..100 {
        assert_eq!(load(&daemon, "echo").0, 200);
        if round % 10 == 0 {
            assert_eq!(ask(&daemon, "echo", "crash").0, 503);
        }
        unload(&daemon, "echo");
    }
    within(SOON, "no process", || children(&daemon).is_empty());
    // One of the first round may still have been open when they were counted.
    within(SOON, "no descriptor", || daemon.files().len() <= files.len());
    // Threads of the runtime come and go; 10 of the rounds had a crash.
    within(SOON, "no thread", || daemon.usage().1 < threads + 8);
}

#[test]
fn processes_end_with_the_daemon() {
    for signal in ["TERM", "KILL"] {
        let folder = Daemon::place(&format!("process-end-{signal}"));
        put(folder.path(), "stubborn", RAW, "stubborn", "");
        put(folder.path(), "all", SDK, "", "");
        let mut daemon =
            Daemon::start_in(folder, &[TRUSTED, "models.load=[\"stubborn\", \"all\"]"]);
        let processes = children(&daemon);
        assert_eq!(processes.len(), 4);
        daemon.signal(signal);
        daemon.ends();
        within(SOON, "their end", || processes.iter().all(|pid| !runs(*pid)));
        let has_unloaded = daemon.folder().join("models/all/1/unloaded").exists();
        assert_eq!(has_unloaded, signal == "TERM");
    }
}

#[test]
fn daemon_ends_while_a_process_loads() {
    let folder = Daemon::place("process-loading");
    put(folder.path(), "slow", RAW, "slow", "");
    let mut daemon = Daemon::start_in(folder, &[TRUSTED]);
    let processes = thread::scope(|scope| {
        let body = b"POST /v2/repository/models/slow/load HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
        let asked = &daemon;
        scope.spawn(move || asked.say(body));
        within(SOON, "its start", || children(&daemon).len() == 2);
        let processes = children(&daemon);
        daemon.terminate();
        processes
    });
    daemon.ends();
    within(SOON, "their end", || processes.iter().all(|pid| !runs(*pid)));
}

/// A client of the local endpoint waits for a model that is loaded for it.
#[test]
fn daemon_ends_while_a_process_loads_on_demand() {
    let folder = Daemon::place("process-on-demand");
    put(folder.path(), "slow", RAW, "slow", "");
    let mut daemon = Daemon::start_in(folder, &[TRUSTED]);
    let options = options(daemon.folder(), None);
    let client = thread::spawn(move || Client::connect("slow", &options).map(drop));
    within(SOON, "its start", || children(&daemon).len() == 2);
    daemon.terminate();
    daemon.ends();
    assert!(client.join().unwrap().is_err(), "the daemon has ended");
}

/// The first one waits for open requests, for up to `times.drain_ms`.
#[test]
fn second_signal_ends_the_wait_for_open_requests() {
    let folder = Daemon::place("process-signals");
    put(folder.path(), "echo", RAW, "", "");
    let long = ["times.request_ms=600000", "times.drain_ms=600000"];
    let flags = [TRUSTED, "models.load=[\"echo\"]", long[0], long[1]];
    let mut daemon = Daemon::start_in(folder, &flags);
    let body = json!({
        "id": "never",
        "inputs": [{ "name": "x", "datatype": "FP32", "shape": [1], "data": [0.0] }],
    });
    let text = body.to_string();
    let head = "POST /v2/models/echo/infer HTTP/1.1\r\nhost: localhost\r\n";
    let mut open = TcpStream::connect(&daemon.http).unwrap();
    let request = format!("{head}content-length: {}\r\n\r\n{text}", text.len());
    open.write_all(request.as_bytes()).unwrap();
    within(SOON, "the request", || daemon.metric("reef_open_requests") == 1.0);
    daemon.terminate();
    let refuses = || !daemon.get("/v2/health/ready").starts_with("HTTP/1.1 200");
    within(SOON, "the first signal", refuses);
    daemon.terminate();
    assert!(daemon.ends().success());
}

/// Requests of both classes have processes of their own.
#[test]
fn real_time_request_waits_for_no_other_class() {
    let folder = Daemon::place("process-classes");
    put(folder.path(), "echo", RAW, "", "instances = { rt = 1, be = 2 }");
    let flags = [TRUSTED, "models.load=[\"echo\"]", "times.request_ms=600000"];
    let daemon = Daemon::start_in(folder, &flags);
    assert_eq!(children(&daemon).len(), 3);
    let body = json!({
        "id": "never",
        "parameters": { "priority": 2 },
        "inputs": [{ "name": "x", "datatype": "FP32", "shape": [1], "data": [0.0] }],
    });
    let text = body.to_string();
    let head = "POST /v2/models/echo/infer HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{text}", text.len());
    thread::scope(|scope| {
        let (daemon, request) = (&daemon, request.as_bytes());
        let slow: Vec<_> = (0..8).map(|_| scope.spawn(move || daemon.say(request))).collect();
        within(SOON, "requests", || daemon.metric("reef_open_requests") == 8.0);
        for _ in 0..5 {
            assert_eq!(numbers(&ask_as(daemon, "echo", "", 1, 0)), [1.5, -2.0]);
        }
        assert_eq!(daemon.metric("reef_open_requests"), 8.0, "all of these are still there");
        daemon.signal("KILL"); // they would never end
        slow.into_iter().for_each(|one| assert_eq!(one.join().unwrap(), ""));
    });
}

/// Requests of several clients to several models, some of which crash.
#[test]
fn every_request_gets_its_own_answer() {
    let folder = Daemon::place("process-random");
    let models: Vec<String> = (0..4).map(|number| format!("echo{number}")).collect();
    models.iter().for_each(|name| put(folder.path(), name, RAW, "", ""));
    let list = serde_json::to_string(&models).unwrap();
    let daemon = Daemon::start_in(folder, &[TRUSTED, &format!("models.load={list}")]);
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    let one = |client: u64| {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ client);
        let mut answers = (0, 0);
        for number in 0..250u64 {
            let model = &models[random.random_range(0..models.len())];
            let crashes = random.random_ratio(1, 50);
            let value = (client * 1000 + number) as f64;
            let body = json!({
                "id": if crashes { "crash" } else { "" },
                "parameters": { "priority": random.random_range(1..3) },
                "inputs": [{ "name": "x", "datatype": "FP32", "shape": [1], "data": [value] }],
            });
            let said = post(&daemon, &format!("/v2/models/{model}/infer"), &body);
            match said.0 {
                200 => assert_eq!(numbers(&said), [value], "another request's answer"),
                // After three crashes in a row requests don't wait for a start.
                _ => assert!(crashes || error(&said).1.contains("does not start"), "{said:?}"),
            }
            answers =
                if said.0 == 200 { (answers.0 + 1, answers.1) } else { (answers.0, answers.1 + 1) };
        }
        answers
    };
    let all: Vec<(u32, u32)> = thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|client| scope.spawn(move || one(client))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(all.iter().map(|(ok, failed)| ok + failed).sum::<u32>(), 1000);
    let text = daemon.get("/metrics");
    let served: u32 = text
        .lines()
        .filter_map(|line| line.strip_prefix("reef_requests_served_total{"))
        .map(|line| line.split(' ').nth(1).unwrap().parse::<u32>().unwrap())
        .sum();
    assert_eq!(served, all.iter().map(|(ok, _)| ok).sum::<u32>(), "each is counted once");
    let processes: BTreeSet<u32> = models.iter().map(|model| pid(&daemon, model)).collect();
    assert_eq!(processes.len(), models.len());
}

fn write_token(folder: &Path, token: &str) -> PathBuf {
    let path = folder.join("token");
    std::fs::write(&path, token).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path
}

/// Its new program is never ready, for which the daemon waits for minutes.
#[test]
fn hangup_reads_tokens_while_a_program_starts() {
    let folder = Daemon::place("process-hangup");
    put(folder.path(), "echo", RAW, "", "");
    let token = write_token(folder.path(), "0123456789abcdef");
    let token = format!("listen.token_file={}", token.display());
    let daemon = Daemon::start_in(folder, &[TRUSTED, "models.load=[\"echo\"]", &token]);
    let program = daemon.folder().join("models/echo/1/model.py");
    std::fs::write(program, "import time\ntime.sleep(200)\n").unwrap();
    let before = children(&daemon).len();
    daemon.signal("HUP");
    within(SOON, "its program starts", || children(&daemon).len() > before);
    write_token(daemon.folder(), "fedcba9876543210");
    daemon.signal("HUP");
    let head = "GET /v2 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let shown = format!("{head}authorization: Bearer fedcba9876543210\r\n\r\n");
    let is_known = || daemon.say(shown.as_bytes()).starts_with("HTTP/1.1 200");
    within(SOON, "the new token", is_known);
}
