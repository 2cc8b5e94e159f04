//! Processes that end, in order or not, and overload.

use crate::daemon::Daemon;
use crate::wire::Http;
use crate::{ClientProcess, SOON, options, within};
use reef_serve::{Class, Client, Error};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Threads that come when metrics are asked for and stay for a while.
const PARSERS: u64 = 2;

/// Killed under load: its queue, memory and place are gone, and the others don't notice.
#[test]
fn a_client_that_is_killed_leaves_nothing() {
    let daemon = Daemon::start("client", &[]);
    let memory = daemon.metric("reef_memory_bytes");
    let (_, threads) = daemon.usage();
    let mut other =
        Client::connect("tiny", &options(daemon.folder(), Some(Class::RealTime))).unwrap();
    let input = vec![0.5; other.input_len()];
    let want = other.infer(&input).unwrap();
    for class in [Class::BestEffort, Class::RealTime, Class::BestEffort] {
        let one = daemon.metric("reef_memory_bytes");
        let client = ClientProcess::start(daemon.folder(), class);
        let there = || daemon.metric("reef_memory_bytes") > one;
        within(SOON, "the client", there);
        within(SOON, "its inferences", || client.inferences() > 0);
        drop(client);
        let gone = || daemon.metric("reef_memory_bytes") == one;
        let time = within(SOON, "its memory", gone);
        println!("{class}: gone after {time:?}");
        assert_eq!(other.infer(&input).unwrap(), want);
    }
    drop(other);
    within(SOON, "all memory", || daemon.metric("reef_memory_bytes") == memory);
    within(SOON, "all threads", || daemon.usage().1 <= threads + PARSERS);
}

/// Killed under load: clients get an error soon, and can go on with the next daemon.
#[test]
fn clients_of_a_killed_daemon_get_an_error_and_reconnect() {
    let daemon = Daemon::start("daemon", &[]);
    let clients: Vec<_> = Class::ALL
        .into_iter()
        .map(|class| Client::connect("tiny", &options(daemon.folder(), Some(class))).unwrap())
        .collect();
    let (told, errors) = std::sync::mpsc::channel();
    let served = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            let (told, served) = (told.clone(), served.clone());
            thread::spawn(move || {
                let input = vec![0.5; client.input_len()];
                let error = loop {
                    if let Err(error) = client.infer(&input) {
                        break error;
                    }
                    served.fetch_add(1, Ordering::Relaxed);
                };
                told.send(error).unwrap();
                client
            })
        })
        .collect();
    within(SOON, "inferences", || served.load(Ordering::Relaxed) >= 8);
    let folder = daemon.kill();
    for _ in &threads {
        let error = errors.recv_timeout(SOON).expect("an error of each, in time");
        assert!(matches!(error, Error::Unavailable(_)), "{error}");
    }
    let daemon = Daemon::start_in(folder, &[]); // over the sockets that are left
    for thread in threads {
        let mut client = thread.join().unwrap();
        let input = vec![0.5; client.input_len()];
        assert!(matches!(client.infer(&input), Err(Error::Unavailable(_))));
        client.reconnect().unwrap();
        client.infer(&input).unwrap();
    }
    drop(daemon);
}

/// SIGTERM: what was asked for is answered, then everybody is told, and nothing is left.
#[test]
fn a_daemon_that_is_ended_answers_what_is_open() {
    let mut daemon = Daemon::start("drain", &["limits.ring=16"]);
    let mut client =
        Client::connect("tiny", &options(daemon.folder(), Some(Class::BestEffort))).unwrap();
    let input = vec![0.5; client.input_len()];
    let want = client.infer(&input).unwrap();
    (0..16).for_each(|_| client.submit(&input).unwrap());
    daemon.terminate();
    let mut got = vec![0.0; want.len()];
    for n in 0..16 {
        client.receive(&mut got).unwrap_or_else(|e| panic!("request {n}: {e}"));
        assert_eq!(got, want);
    }
    let status = daemon.ends();
    assert!(status.success(), "{status}");
    assert!(matches!(client.infer(&input), Err(Error::Unavailable(_))));
    for socket in ["grpc.sock", "http.sock", "local.sock"] {
        assert!(!daemon.folder().join(socket).exists(), "{socket}");
    }
}

/// SIGTERM: clients that never stop asking keep no daemon alive.
#[test]
fn busy_clients_do_not_keep_a_daemon() {
    let mut daemon = Daemon::start("busy", &["times.drain_ms=600000"]); // longer than it may take
    let clients = Class::ALL.map(|class| ClientProcess::start(daemon.folder(), class));
    within(SOON, "clients", || clients.iter().all(|client| client.inferences() > 0));
    daemon.terminate();
    let status = daemon.ends();
    assert!(status.success(), "{status}");
}

/// Bytes that are not HTTP, HTTP/2 or protobuf end their connection and nothing else.
#[test]
fn noise_over_tcp_is_no_end() {
    let daemon = Daemon::start("noise-tcp", &["limits.message_mib=1"]);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    println!("seed {state}");
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let infer = b"POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\n".to_vec();
    for n in 0..150 {
        let mut bytes = [preface.clone(), infer.clone(), Vec::new()][n % 3].clone();
        if n % 3 == 1 {
            let (json, all) = (random() % 99, random() % 99);
            let head =
                format!("inference-header-content-length: {json}\r\ncontent-length: {all}\r\n\r\n");
            bytes.extend(head.into_bytes());
        }
        bytes.extend((0..random() % 300).map(|_| random() as u8));
        for address in [&daemon.grpc, &daemon.http] {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            let _ = std::io::Write::write_all(&mut stream, &bytes); // it may have been refused
        }
    }
    // As long as the daemon has not read that they left, they have the slots of this user.
    within(SOON, "all are gone", || daemon.clients() == 1.0);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(1 << 20));
    daemon.say(long.as_bytes());
    let large = "POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                 content-length: 2000000\r\n\r\n";
    let large = [large.as_bytes(), &vec![b' '; 2_000_000]].concat();
    assert!(!daemon.say(&large).starts_with("HTTP/1.1 200"));
    for path in ["/v2/models/..%2f..%2fetc", "/v2/models/%00", "/v2/models/tiny/versions/0", "/x"] {
        let said = daemon.get(path);
        assert!(said.starts_with("HTTP/1.1 4") && said.contains("error"), "{path}: {said}");
    }
    within(SOON, "all are gone", || daemon.clients() == 1.0);
    let mut client = Client::connect("tiny", &options(daemon.folder(), None)).unwrap();
    client.infer(&vec![0.0; client.input_len()]).unwrap();
}

/// An inference over HTTP, as JSON.
fn http_request() -> String {
    let body = format!(
        "{{\"inputs\": [{{\"name\": \"input\", \"datatype\": \"FP32\", \"shape\": [1, 3, 32, 32], \
         \"data\": [{}]}}]}}",
        vec!["0.5"; 3072].join(",")
    );
    format!(
        "POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The code of a whole answer; "none" if the connection was closed without one.
fn code_of(answer: &str) -> &str {
    if answer.is_empty() {
        return "none";
    }
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("torn: {answer}"));
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let whole: usize = length.expect("an answer says how long it is").parse().unwrap();
    assert_eq!(body.len(), whole, "torn: {answer}");
    head.split(' ').nth(1).expect("a status line")
}

/// Asks again and again until it is sent away; counts what was answered, and says how it was sent
/// away.
fn ask_on(daemon: &Daemon, request: &str, served: &AtomicUsize) -> String {
    loop {
        let answer = daemon.say(request.as_bytes());
        let code = code_of(&answer);
        if code != "200" {
            return code.to_owned();
        }
        served.fetch_add(1, Ordering::Relaxed);
    }
}

/// SIGTERM: requests over HTTP that came in are answered, whatever is asked later is not.
#[test]
fn requests_that_came_in_are_answered_at_the_end() {
    const CLIENTS: usize = 8; // never done, so that something is open whenever the end comes
    let mut daemon = Daemon::start("drain-http", &["limits.queue=64"]);
    let (request, served) = (http_request(), AtomicUsize::new(0));
    let codes: Vec<String> = thread::scope(|scope| {
        let ask = || ask_on(&daemon, &request, &served);
        let all: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
        within(SOON, "answers", || served.load(Ordering::Relaxed) >= 2 * CLIENTS);
        daemon.terminate();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    println!("{} served, then {codes:?}", served.into_inner());
    assert!(codes.iter().all(|code| ["503", "none"].contains(&&**code)), "{codes:?}");
    assert!(daemon.ends().success());
}

/// SIGTERM: a request that takes longer than connections get to close is waited for, and no other
/// is begun; but not for longer than is configured.
#[test]
fn the_end_waits_for_requests_that_take_their_time() {
    let endless = "scheduler=rt-only"; // best-effort requests end with their time
    for (time, drain, code) in [
        ("times.request_ms=12000", "times.drain_ms=60000", "504"),
        ("times.request_ms=60000", "times.drain_ms=100", "none"),
    ] {
        let flags = [endless, time, drain];
        let mut daemon = Daemon::start("drain-long", &flags);
        let request = http_request();
        let mut other = Http::connect(daemon.folder()).unwrap();
        let is_live = b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n";
        assert_eq!(other.ask(is_live).unwrap().0, 200);
        let said = thread::scope(|scope| {
            let one = scope.spawn(|| daemon.say(request.as_bytes()));
            let open = || daemon.metric("reef_open_requests") == 1.0;
            within(SOON, "a request", open);
            daemon.terminate();
            if code == "504" {
                let is_ready = b"GET /v2/health/ready HTTP/1.1\r\nhost: localhost\r\n\r\n";
                within(SOON, "the end's begin", || other.ask(is_ready).unwrap().0 != 200);
                let late = request.replace("connection: close\r\n", "");
                assert_eq!(other.ask(late.as_bytes()).unwrap().0, 503);
            }
            one.join().unwrap()
        });
        assert_eq!(code_of(&said), code, "{drain}: {said}");
        assert!(daemon.ends().success());
    }
}

/// More requests than may wait are refused at once; those that were taken are answered.
#[test]
fn overload_is_refused_at_once() {
    let daemon = Daemon::start("overload", &["limits.queue=2"]);
    let request = http_request();
    let codes: Vec<String> = thread::scope(|scope| {
        let ask = || daemon.say(request.as_bytes()).split(' ').nth(1).unwrap_or("none").to_owned();
        let all: Vec<_> = (0..40).map(|_| scope.spawn(ask)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let count = |code: &str| codes.iter().filter(|c| *c == code).count();
    println!("{} served, {} refused", count("200"), count("429"));
    assert_eq!(count("200") + count("429"), 40, "{codes:?}");
    assert!(count("200") >= 2, "as many as may wait: {codes:?}");
    within(SOON, "no open request", || daemon.metric("reef_open_requests") == 0.0);
    assert!(daemon.say(request.as_bytes()).starts_with("HTTP/1.1 200"));
}

/// More connections than are allowed are closed at once, and there is room again when some have
/// gone.
#[test]
fn connections_are_limited() {
    let daemon = Daemon::start("connections", &["limits.clients=4"]);
    let connect = || Client::connect("tiny", &options(daemon.folder(), None));
    let mut clients: Vec<_> = (0..4).map(|_| connect().unwrap()).collect();
    let Err(Error::Exhausted(said)) = connect() else { panic!("a fifth was let in") };
    assert_eq!(said, "open connections must be at most 4: all are in use");
    clients.pop();
    within(SOON, "a place", || connect().is_ok());
}

/// Clients that come and go leave memory and threads as they were.
#[test]
fn two_hundred_clients_leave_nothing() {
    let daemon = Daemon::start("many", &[]);
    let round = || {
        let mut client = Client::connect("tiny", &options(daemon.folder(), None)).unwrap();
        client.infer(&vec![0.5; client.input_len()]).unwrap();
    };
    (0..100).for_each(|_| round());
    within(SOON, "the first to go", || daemon.clients() == 1.0);
    // Memory that clients leave grows each time; that of the allocator for a thread doesn't.
    let grows = |_| {
        let (memory, threads) = daemon.usage();
        (0..200).for_each(|_| round());
        within(SOON, "all to go", || daemon.clients() == 1.0);
        within(SOON, "their threads' end", || daemon.usage().1 <= threads + PARSERS);
        let (after, _) = daemon.usage();
        println!("{memory} and {after} bytes resident");
        after >= memory + (2 << 20)
    };
    assert!(!(0..3).all(grows), "memory grew with each 200 clients");
}
