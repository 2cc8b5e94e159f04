//! Clients that keep a place without using it, or say more than there is to say.

use crate::daemon::Daemon;
use crate::within;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Long enough for a test on a busy machine, short enough to wait for.
const IDLE: &str = "times.idle_ms=1000";
const TIME: Duration = Duration::from_secs(20);

/// Sends a byte now and then, until that fails or there is an answer.
fn drip(mut stream: TcpStream, bytes: &[u8]) -> String {
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut answer = Vec::new();
    for byte in bytes.iter().cycle() {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        match stream.read_to_end(&mut answer) {
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock) => {}
            _ => break,
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn places_are_not_kept_by_saying_nothing_or_little() {
    let daemon = Daemon::start("slow", &[IDLE, "limits.clients=16"]);
    let tcp = TcpStream::connect(&daemon.http).unwrap();
    let unix = UnixStream::connect(daemon.folder().join("http.sock")).unwrap();
    let begin = Instant::now();
    let mut head = TcpStream::connect(&daemon.http).unwrap();
    head.write_all(b"GET /v2 HTTP/1.1\r\nhost: ").unwrap();
    drip(head, b"x");
    assert!(begin.elapsed() < TIME, "{:?}", begin.elapsed());
    within(TIME, "all are sent away", || daemon.clients() == 1.0);
    drop((tcp, unix));
}

#[test]
fn a_body_that_drips_is_cut_off_and_its_request_counts_no_more() {
    let daemon = Daemon::start("slow-body", &[IDLE]);
    let mut body = TcpStream::connect(&daemon.http).unwrap();
    let head = "POST /v2/models/tiny/infer HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    body.write_all(format!("{head}content-length: 100000\r\n\r\n").as_bytes()).unwrap();
    let begin = Instant::now();
    let said = drip(body, b" ");
    assert!(said.starts_with("HTTP/1.1 504") && said.contains("took longer"), "{said}");
    assert!(begin.elapsed() < TIME, "{:?}", begin.elapsed());
    within(TIME, "no open request", || daemon.metric("reef_open_requests") == 0.0);
}

/// What a client says wrong comes back, but not all of it.
#[test]
fn errors_are_short_whatever_was_said() {
    let daemon = Daemon::start("long", &[]);
    let long = "x".repeat(1 << 20);
    for json in [
        format!("{{\"inputs\": [], \"parameters\": {{\"priority\": \"{long}\"}}}}"),
        format!("{{\"inputs\": \"{long}\"}}"),
    ] {
        let head = "POST /v2/models/tiny/infer HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
        let request = format!("{head}content-length: {}\r\n\r\n{json}", json.len());
        let said = daemon.say(request.as_bytes());
        assert!(said.starts_with("HTTP/1.1 400") && said.contains("xxxx"), "{}", said.len());
        assert!(said.len() < 2000, "{} bytes", said.len());
    }
}
