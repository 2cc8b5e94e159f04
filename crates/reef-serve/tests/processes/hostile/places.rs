//! Connections that keep their slots without progress, and calls that are headers alone.

use crate::daemon::Daemon;
use crate::wire::{Http, infer_request, post};
use crate::{SOON, within};
use prost::Message;
use reef_serve::Class;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The kinds of HTTP/2's frames that are used here, and the flag that ends a part.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// The setting of the window for answers.
const INITIAL_WINDOW: [u8; 2] = [0, 4];

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), body].concat()
}

/// A header without an index, shorter than 16 KiB.
fn literal(name: &str, value: &[u8]) -> Vec<u8> {
    let number = |length: usize| match length.checked_sub(127) {
        None => vec![length as u8],
        Some(rest) => vec![0x7f, (rest & 127 | 128) as u8, (rest >> 7) as u8],
    };
    [&[0x10], &*number(name.len()), name.as_bytes(), &*number(value.len()), value].concat()
}

fn headers(call: &str, more: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let path = format!("/inference.GRPCInferenceService/{call}");
    let known = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", &*path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let known = known.into_iter().flat_map(|(name, value)| literal(name, value.as_bytes()));
    known.chain(more.iter().flat_map(|(name, value)| literal(name, value))).collect()
}

fn preface(settings: &[u8]) -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &*frame(SETTINGS, 0, 0, settings)].concat()
}

/// Reads frames and answers pings, until the daemon closes the connection or has sent `until`.
fn live(stream: &mut TcpStream, until: Option<u8>) -> std::io::Result<()> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut body = vec![0; length as usize];
        stream.read_exact(&mut body)?;
        if until == Some(head[3]) {
            return Ok(());
        }
        if head[3] == PING && head[4] & ACK == 0 {
            stream.write_all(&frame(PING, ACK, 0, &body))?;
        }
    }
}

/// Returns a connection with the head of the answer to a call, whose body may not come.
fn ask_without_window(daemon: &Daemon, call: &str, message: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(&daemon.grpc).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let length = (message.len() as u32).to_be_bytes();
    let message = [&[0_u8][..], &length[..], message].concat();
    let settings = [&INITIAL_WINDOW[..], &[0; 4]].concat();
    let bytes = [
        preface(&settings),
        frame(HEADERS, END_HEADERS, 1, &headers(call, &[])),
        frame(DATA, END_STREAM, 1, &message),
    ];
    stream.write_all(&bytes.concat()).unwrap();
    live(&mut stream, Some(HEADERS)).unwrap();
    stream
}

/// It pauses for longer than connections have to close.
#[test]
fn paused_client_has_its_whole_answer_at_the_end() {
    let mut daemon = Daemon::start("pause", &["times.write_ms=60000", "times.drain_ms=60000"]);
    let message = infer_request("tiny", Class::BestEffort).encode_to_vec();
    let mut stream = ask_without_window(&daemon, "ModelInfer", &message);
    daemon.terminate();
    std::thread::sleep(Duration::from_secs(3)); // sleep: pause of the client
    stream.write_all(&frame(WINDOW_UPDATE, 0, 1, &(1_u32 << 20).to_be_bytes())).unwrap();
    live(&mut stream, Some(DATA)).unwrap();
    live(&mut stream, Some(HEADERS)).unwrap(); // the trailers
    assert!(daemon.ends().success());
}

#[test]
fn client_that_reads_nothing_does_not_keep_the_daemon() {
    // The end may take less than the second one; the client answers within the first one.
    let times = ["times.write_ms=5000", "times.drain_ms=600000"];
    let mut daemon = Daemon::start("unread-end", &times);
    let message = infer_request("tiny", Class::BestEffort).encode_to_vec();
    let [_unread, mut begun] =
        [(); 2].map(|()| ask_without_window(&daemon, "ModelInfer", &message));
    begun.write_all(&frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes())).unwrap();
    live(&mut begun, Some(DATA)).unwrap(); // its first byte
    daemon.terminate();
    assert!(daemon.ends().success());
}

#[test]
fn answer_without_a_window_ends_its_connection() {
    let daemon = Daemon::start("window", &["times.write_ms=5000", "times.keepalive_ms=2000"]);
    let mut stream = ask_without_window(&daemon, "ServerMetadata", &[]);
    let said = live(&mut stream, None).unwrap_err();
    assert_ne!(said.kind(), std::io::ErrorKind::WouldBlock, "it may stay: {said}");
    within(SOON, "its slot is free", || daemon.clients() == 1.0);
}

#[test]
fn idle_stream_keeps_its_connection() {
    let daemon = Daemon::start("idle-stream", &["times.write_ms=2000", "times.idle_ms=1000"]);
    let call = [
        frame(HEADERS, END_HEADERS, 1, &headers("ModelStreamInfer", &[])),
        frame(DATA, 0, 1, &[0, 0, 0, 0, 3, 0x0a, 1, b'm']), // a model that there is not
    ];
    let mut answered = None;
    within(SOON, "a client that asks in time", || {
        let mut stream = TcpStream::connect(&daemon.grpc).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        // It may have been sent away.
        let _ = stream.write_all(&[preface(&[]), call.concat()].concat());
        answered = live(&mut stream, Some(DATA)).is_ok().then_some(stream);
        answered.is_some()
    });
    let mut stream = answered.expect("it has its answer");
    stream.set_read_timeout(Some(Duration::from_secs(4))).unwrap(); // longer than both
    let said = live(&mut stream, None).unwrap_err();
    assert_eq!(said.kind(), std::io::ErrorKind::WouldBlock, "{said}");
}

#[test]
fn calls_without_bodies_are_charged_and_refused() {
    let daemon = Daemon::start("heads", &["memory.requests_mib=32", "limits.message_mib=16"]);
    let before = daemon.usage().0;
    let long: Vec<_> = ["x-1", "x-2", "x-3", "x-4"].map(|name| (name, vec![b'v'; 3000])).into();
    let head = headers("ModelInfer", &long);
    let calls = (0..128).flat_map(|n| frame(HEADERS, END_HEADERS, 2 * n + 1, &head));
    let bytes: Vec<u8> = preface(&[]).into_iter().chain(calls).collect();
    let mut all: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(&daemon.grpc).unwrap();
            stream.write_all(&bytes).unwrap();
            stream
        })
        .collect();
    let charged = || daemon.metric_for_owner("reef_request_memory_bytes");
    within(SOON, "calls are charged", || charged() > f64::from(10 << 20));
    // The memory is for the calls of a few of them: those that the daemon reads first.
    let is_refused = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        live(stream, Some(HEADERS)).is_ok() // before its body comes
    };
    let refused = all.iter_mut().rev().map(is_refused).filter(|&refused| refused);
    assert_eq!(refused.take(5).count(), 5);
    assert!(charged() <= f64::from(17 << 20), "a user's part, and this answer: {}", charged());
    let grown = (daemon.usage().0 - before) >> 20;
    assert!(grown < 100, "{grown} MiB more, of 5,120 calls");
    drop(all);
    within(SOON, "they have gone", || charged() < 1e6);
}

/// A client without a token connects all the time, from the address of one that has it.
#[test]
fn client_with_token_connects_next_to_unauthenticated_peers() {
    let folder = Daemon::place("connects");
    let (path, token) = (folder.path().join("token"), "t".repeat(32));
    std::fs::write(&path, &token).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let file = format!("listen.token_file={}", path.display());
    let daemon = Daemon::start_in(folder, &[&file, "limits.connects_per_second=20"]);
    let ask = |more: &str| {
        daemon.say(
            format!("GET /v2 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{more}\r\n")
                .as_bytes(),
        )
    };
    let is_over = AtomicBool::new(false);
    let refused = std::thread::scope(|scope| {
        let outsider = scope.spawn(|| {
            let mut refused = 0;
            // Twenty a second: the second one may begin after the client has all of its answers.
            for _ in 0..10_000 {
                if is_over.load(Ordering::Relaxed) && refused > 20 {
                    break;
                }
                refused += usize::from(ask("").starts_with("HTTP/1.1 401"));
                std::thread::sleep(Duration::from_millis(2)); // sleep: pace of the attack
            }
            refused
        });
        let shown = format!("authorization: Bearer {token}\r\n");
        let answered = (0..100).filter(|_| ask(&shown).starts_with("HTTP/1.1 200")).count();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(answered, 100, "of the client with the token");
        outsider.join().unwrap()
    });
    assert!(refused > 20, "{refused} outsiders were refused with the reason");
}

#[test]
fn unknown_path_is_answered_after_its_body() {
    let daemon = Daemon::start("unknown", &[]);
    let mut http = Http::connect_to(&daemon.http).unwrap();
    let body = "x".repeat(50_000);
    let request = |connection: &str, path: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\n{connection}content-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    for _ in 0..3 {
        let (status, said) = http.ask(request("", "/v2/nothing").as_bytes()).unwrap();
        assert_eq!((status, &*said), (404, &br#"{"error":"unknown path"}"#[..]));
    }
    assert_eq!(http.ask(&post(Class::BestEffort)).unwrap().0, 200, "the connection goes on");
    let waits = "POST /v2/nothing HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n\
                 content-length: 9\r\n\r\n";
    let said = daemon.say(waits.as_bytes());
    assert!(said.starts_with("HTTP/1.1 404"), "{said}");
    assert!(said.to_lowercase().contains("connection: close"), "its body was not read: {said}");
}

#[test]
fn wrong_method_is_answered_after_its_body() {
    let daemon = Daemon::start("method", &[]);
    let body = "x".repeat(50_000);
    let head = "POST /metrics HTTP/1.1\r\nhost: localhost\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    // On a busy machine the rest may come too late to be read.
    within(SOON, "the connection goes on", || {
        let mut http = Http::connect_to(&daemon.http).unwrap();
        let mut says =
            |request: &[u8], code: u16| http.ask(request).is_ok_and(|(said, _)| said == code);
        (0..3).all(|_| says(request.as_bytes(), 405)) && says(&post(Class::BestEffort), 200)
    });
    let said =
        daemon.say(b"POST /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert!(said.to_lowercase().contains("allow: get"), "{said}");
}
