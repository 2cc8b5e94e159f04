//! Clients that keep a place without using it, or say more than there is to say.

use crate::daemon::Daemon;
use crate::wire::{Grpc, Http, infer_request, post, request};
use crate::{SOON, options, within};
use reef_serve::{Class, Client};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Long enough for a test on a busy machine, short enough to wait for.
const IDLE: &str = "times.idle_ms=1000";

/// Sends a byte now and then, until there is an answer or the connection has ended.
fn drip(mut stream: TcpStream, bytes: &[u8]) -> String {
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (mut answer, begin) = (Vec::new(), Instant::now());
    for byte in bytes.iter().cycle() {
        assert!(begin.elapsed() < SOON, "it may go on: {}", String::from_utf8_lossy(&answer));
        let is_over = stream.write_all(&[*byte]).is_err(); // an answer may be there nevertheless
        match stream.read_to_end(&mut answer) {
            Err(e) if !is_over && matches!(e.kind(), ErrorKind::WouldBlock) => {}
            _ => break,
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Waits until the daemon has ended a connection, whatever it says before that.
fn wait_until_sent_away(stream: &mut impl Read) {
    let mut bytes = [0; 1024];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock) => panic!("not within {SOON:?}"),
            Err(_) => return,
        }
    }
}

/// A connection over TCP on which waiting ends.
fn tcp(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// A gRPC client that has asked for something before it was sent away.
pub(crate) fn connect_and_ask(folder: &Path) -> Grpc {
    let mut asked = None;
    within(SOON, "a client that asks in time", || {
        let mut grpc = Grpc::connect(folder);
        asked = grpc.live().is_ok().then_some(grpc);
        asked.is_some()
    });
    asked.expect("it has asked")
}

#[test]
fn places_are_not_kept_by_saying_nothing_or_little() {
    let daemon = Daemon::start("slow", &[IDLE, "limits.clients=16"]);
    let tcp = TcpStream::connect(&daemon.http).unwrap();
    let unix = UnixStream::connect(daemon.folder().join("http.sock")).unwrap();
    let mut head = TcpStream::connect(&daemon.http).unwrap();
    head.write_all(b"GET /v2 HTTP/1.1\r\nhost: ").unwrap();
    drip(head, b"x");
    within(SOON, "all are sent away", || daemon.clients() == 1.0);
    drop((tcp, unix));
}

#[test]
fn a_body_that_drips_is_cut_off_and_its_request_counts_no_more() {
    let daemon = Daemon::start("slow-body", &[IDLE]);
    let head = "POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let head = format!("{head}content-length: 100000\r\n\r\n");
    let mut said = String::new();
    within(SOON, "a client that asks in time", || {
        let mut body = TcpStream::connect(&daemon.http).unwrap();
        let _ = body.write_all(head.as_bytes()); // it may have been sent away
        said = drip(body, b" ");
        !said.is_empty()
    });
    assert!(
        said.starts_with("HTTP/1.1 504") && said.contains("the body must arrive within"),
        "{said}"
    );
    within(SOON, "no open request", || daemon.metric("reef_open_requests") == 0.0);
}

/// The preface and empty settings, with which a client of HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A connection that has made a request may be idle; others lose their slots, whatever else they
/// send.
#[test]
fn grpc_clients_that_ask_for_nothing_are_sent_away() {
    let daemon = Daemon::start("slow-grpc", &[IDLE]);
    let mut silent = tcp(&daemon.grpc);
    let mut unix = UnixStream::connect(daemon.folder().join("grpc.sock")).unwrap();
    unix.set_read_timeout(Some(SOON)).unwrap();
    let mut preface = tcp(&daemon.grpc);
    preface.write_all(PREFACE).unwrap();
    let idle = Grpc::connect(daemon.folder());
    let asked = connect_and_ask(daemon.folder());
    wait_until_sent_away(&mut silent);
    wait_until_sent_away(&mut unix);
    wait_until_sent_away(&mut preface);
    asked.rest(Duration::from_secs(3));
    let left = || {
        idle.rest(Duration::from_millis(20));
        asked.rest(Duration::from_millis(20));
        daemon.clients() == 2.0 // the one that has asked, and the one that asks
    };
    within(SOON, "the one that has asked is left", left);
}

/// A client whose machine is gone says nothing for ever; one that answers pings is there.
#[test]
fn grpc_clients_that_answer_no_ping_are_sent_away() {
    let daemon = Daemon::start("dead-grpc", &["times.keepalive_ms=3000"]);
    let alive = connect_and_ask(daemon.folder());
    let mut dead = tcp(&daemon.grpc);
    dead.write_all(PREFACE).unwrap();
    std::thread::scope(|scope| {
        let sent_away = scope.spawn(|| wait_until_sent_away(&mut dead));
        while !sent_away.is_finished() {
            alive.rest(Duration::from_millis(20));
        }
        sent_away.join().unwrap();
    });
    alive.rest(Duration::from_secs(9));
    within(SOON, "the living one is left", || {
        alive.rest(Duration::from_millis(20));
        daemon.clients() == 2.0
    });
}

/// A message that is too long is refused as soon as that is known.
#[test]
fn messages_have_a_largest_size() {
    let daemon = Daemon::start("long-messages", &["limits.message_mib=1"]);
    let mut grpc = Grpc::connect(daemon.folder());
    let mut long = infer_request("tiny", Class::BestEffort);
    grpc.infer(long.clone()).unwrap();
    long.raw_input_contents.push(vec![0; 1 << 20].into());
    let said = grpc.infer(long).unwrap_err();
    assert_eq!(said.code(), tonic::Code::OutOfRange, "{said}");
    assert!(said.message().ends_with("(limits.message_mib)"), "{said}");
    let body = vec![b' '; (1 << 20) + 1];
    let (mut status, mut said) = (0, Vec::new());
    // The daemon listens for a while only, in which a busy machine may not send all.
    within(SOON, "it may send all of it and hears why not", || {
        let http = Http::connect(daemon.folder());
        let asked = http.and_then(|mut http| http.ask(&request(None, &body)));
        (status, said) = asked.unwrap_or_default();
        status != 0
    });
    let said = String::from_utf8_lossy(&said);
    assert!(
        status == 413 && said.contains("at most 1048576 bytes (limits.message_mib)"),
        "{status} {said}"
    );
    let endless =
        b"POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n";
    let said = daemon.say(endless);
    assert!(said.starts_with("HTTP/1.1 413"), "before anything has come: {said}");
}

/// The client sends all of it before it reads the reason.
#[test]
fn connection_goes_on_after_a_body_that_grows_too_long() {
    let daemon = Daemon::start("middle", &["limits.message_mib=1"]);
    let head = "POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\n";
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let chunks = chunk.repeat(24); // 1.5 MiB
    let request = format!("{head}transfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n");
    // On a busy machine the rest may come too late to be read.
    within(SOON, "an answer after the refusal", || {
        let mut http = Http::connect_to(&daemon.http).unwrap();
        let refused = http.ask(request.as_bytes());
        refused.is_ok_and(|(status, _)| status == 413)
            && http.ask(&post(Class::BestEffort)).is_ok_and(|(status, _)| status == 200)
    });
}

/// A body for which there is no memory is refused before it comes, and takes none.
#[test]
fn body_that_finds_no_memory_is_refused_unread() {
    let keys = ["limits.message_mib=2", "memory.requests_mib=5", "limits.principal_percent=100"];
    let daemon = Daemon::start("full", &keys);
    let charged = || daemon.metric("reef_request_memory_bytes");
    let head = |length: usize, more: &str| {
        let head = "POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\n";
        format!("{head}{more}content-length: {length}\r\n\r\n").into_bytes()
    };
    let mut holders = [tcp(&daemon.http), tcp(&daemon.http)];
    // Answers about metrics take memory as well, so some is left.
    let most = vec![b' '; (2 << 20) - (500 << 10)];
    for holder in &mut holders {
        holder.write_all(&[head(2 << 20, ""), most.clone()].concat()).unwrap();
    }
    within(SOON, "most of the memory is taken", || charged() > 3.1e6);
    let said = daemon.say(&head(2 << 20, "expect: 100-continue\r\n"));
    assert!(said.starts_with("HTTP/1.1 503") && said.contains("of all clients"), "{said}");
    drop(holders);
    within(SOON, "it is free", || charged() < 1e6);
    Http::connect(daemon.folder()).unwrap();
    Grpc::connect(daemon.folder()).infer(infer_request("tiny", Class::BestEffort)).unwrap();
}

/// An error quotes a client's wrong text, but not all of it.
#[test]
fn errors_are_short_whatever_was_said() {
    let daemon = Daemon::start("long", &[]);
    let long = "x".repeat(1 << 20);
    for json in [
        format!("{{\"inputs\": [], \"parameters\": {{\"priority\": \"{}\"}}}}", &long[..4096]),
        format!("{{\"inputs\": \"{long}\"}}"),
    ] {
        let head =
            "POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        let request = format!("{head}content-length: {}\r\n\r\n{json}", json.len());
        let said = daemon.say(request.as_bytes());
        assert!(said.starts_with("HTTP/1.1 400") && said.contains("xxxx"), "{}", said.len());
        assert!(said.len() < 2000, "{} bytes", said.len());
    }
}

/// The regions that it has registered end with its connection.
#[test]
fn http_client_that_has_asked_may_be_idle() {
    let daemon = Daemon::start("slow-http", &[IDLE]);
    let live = b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let is_live = |http: &mut Http| http.ask(live).is_ok_and(|(status, _)| status == 200);
    let mut asked = None;
    within(SOON, "a client that asks in time", || {
        let mut http = Http::connect(daemon.folder()).unwrap();
        asked = is_live(&mut http).then_some(http);
        asked.is_some()
    });
    wait_until_sent_away(&mut tcp(&daemon.http)); // it came later, and has asked for nothing
    assert!(is_live(&mut asked.unwrap()), "it was sent away");
}

/// Idle connections don't lock others out, neither on another endpoint nor on their own.
#[test]
fn idle_connections_make_room() {
    let daemon = Daemon::start("idle", &["limits.clients=16"]);
    let idle: Vec<_> = (0..40)
        .flat_map(|_| [TcpStream::connect(&daemon.http), TcpStream::connect(&daemon.grpc)])
        .map(Result::unwrap)
        .collect();
    let local = Client::connect("tiny", &options(daemon.folder(), Some(Class::RealTime)));
    local.unwrap().ping().unwrap();
    // Each has some time to authenticate, which begins when the daemon accepts it.
    let in_time = Duration::from_secs(30); // half of what makes room anyway
    let lives = || daemon.get("/v2/health/live").starts_with("HTTP/1.1 200");
    within(in_time, "room by gRPC", || Grpc::connect(daemon.folder()).live().is_ok());
    within(in_time, "room by HTTP", lives);
    within(in_time, "room for all that come", || (0..20).all(|_| lives()));
    // Clients that have asked for something and rest make room for one that asks, likewise.
    let mut resting: Vec<_> =
        (0..16).filter_map(|_| TcpStream::connect(&daemon.http).ok()).collect();
    for stream in &mut resting {
        let _ = stream.write_all(b"GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n"); // some got none
    }
    within(in_time, "room among those that rest", lives);
    drop(idle);
}

/// It would be answered without end, and hold what it doesn't take.
#[test]
fn clients_that_read_nothing_are_sent_away() {
    let daemon = Daemon::start("unread", &["times.write_ms=1000"]);
    let mut stream = TcpStream::connect(&daemon.http).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let begin = Instant::now();
    // Of what is answered at once: metrics are made now and then only, so their answers fill no
    // socket for a long time. A write that takes long may be the daemon's pause; it is over when
    // the connection is.
    let ask = b"GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut at = 0;
    loop {
        assert!(begin.elapsed() < SOON, "it may stay and read nothing");
        match stream.write(&ask[at..]) {
            Ok(count) => at = (at + count) % ask.len(),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    within(SOON, "it is sent away", || daemon.clients() == 1.0);
}
