//! Sessions over connections that break, and peers that break the rules.

use crate::support::{self, ADD, Bench, ECHO, NEVER, PUSH, SCHEMA, sessions_end};
use reef_wire::{Address, Error, Limits, Line, Link, Server, ServerOptions, Token};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A recorded session: messages of every sort in both directions.
fn record(bench: &Bench, payload: usize) -> Vec<u64> {
    let client = bench.open_again_and_again();
    let mut expected = Vec::new();
    for number in 0..6_u64 {
        client.post(ADD, 3, &[&number.to_le_bytes()]).unwrap();
        expected.push(number);
        if number % 2 == 0 {
            let body: Vec<u8> = (0..payload).map(|i| (i as u64 * 7 + number) as u8).collect();
            let echo = client.call(ECHO, 0, &[&body[..payload / 3], &body[payload / 3..]]).unwrap();
            assert!(echo == body, "the reply is whole");
        }
        client.post(PUSH, 0, &[&number.to_le_bytes()]).unwrap();
    }
    client.call(ECHO, 0, &[]).unwrap();
    assert_eq!(bench.pushed(), expected, "pushed frames came once, in order");
    expected
}

/// The connection breaks after each number of bytes in turn, and once more in the next one: nothing
/// is handled twice, and nothing is lost.
#[test]
fn session_cut_at_every_byte_runs_each_message_once() {
    let mut cuts = 0;
    for cut_after in 1.. {
        let line = Line { cut_after: Some(cut_after), ..Line::default() };
        let bench = Bench::with_cuts(move |connection| match connection {
            0 => Some(line),
            1 => Some(Line { cut_after: Some(cut_after / 2 + 150), ..line }),
            _ => None,
        });
        let expected = record(&bench, 40);
        assert_eq!(bench.added(), expected, "cut after {cut_after} bytes");
        if bench.connections() == 1 {
            break;
        }
        cuts = cut_after;
    }
    assert!(cuts > 1000, "the whole session was cut, {cuts} bytes");
}

#[test]
fn payload_cut_midway_is_completed() {
    for cut_after in (1..17).map(|part| part * 237_001) {
        let line = Line { cut_after: Some(cut_after), ..Line::default() };
        let bench = Bench::with_cuts(move |connection| (connection == 0).then_some(line));
        let expected = record(&bench, 700_000);
        assert_eq!(bench.added(), expected, "cut after {cut_after} bytes");
        assert!(bench.connections() > 1);
    }
}

/// Many threads, an unreliable line: each thread's messages come once and in its order.
#[test]
fn threads_share_an_unreliable_session() {
    let bench = Bench::with_cuts(|connection| {
        let cut_after = (connection < 12).then_some(3_000 + 919 * connection as u64);
        let jitter = Duration::from_micros(200);
        Some(Line { cut_after, jitter, seed: connection as u64, ..Line::default() })
    });
    let client = bench.open().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let client = &client;
            scope.spawn(move || {
                for number in 0..500_u64 {
                    let value = thread << 32 | number;
                    client.post(ADD, thread as u32, &[&value.to_le_bytes()]).unwrap();
                    if number % 7 == thread {
                        let body = value.to_le_bytes();
                        assert_eq!(client.call(ECHO, 0, &[&body]).unwrap(), body);
                    }
                }
            });
        }
    });
    client.call(ECHO, 0, &[]).unwrap();
    for thread in 0..4_u64 {
        let added: Vec<u64> = bench.added().into_iter().filter(|v| v >> 32 == thread).collect();
        assert!(added.iter().map(|v| v & 0xffff_ffff).eq(0..500), "thread {thread}");
    }
    assert!(bench.connections() > 3, "{}", bench.connections());
}

#[test]
fn call_waits_one_round_trip_and_posts_none() {
    let rtt = Duration::from_millis(200);
    let bench = Bench::new(move |_| Some(Line { rtt, ..Line::default() }));
    let client = bench.open().unwrap();
    let begin = Instant::now();
    for number in 0..1000_u64 {
        client.post(ADD, 0, &[&number.to_le_bytes()]).unwrap();
    }
    let posted = begin.elapsed();
    client.call(ECHO, 0, &[]).unwrap();
    let called = begin.elapsed();
    assert!(posted < rtt * 500, "{posted:?}"); // a wait for each would be twice as long
    assert!(called >= rtt, "{called:?}");
    assert_eq!(bench.added().len(), 1000);
    // On a busy machine a call may be late.
    let waits_once = || {
        let begin = Instant::now();
        client.call(ECHO, 0, &[]).unwrap();
        begin.elapsed() < rtt * 2
    };
    assert!((0..300).any(|_| waits_once()), "a call waits for one round trip");
}

#[test]
fn error_reply_is_the_callers_alone() {
    let bench = Bench::new(|_| None);
    let client = bench.open().unwrap();
    let error = client.call(NEVER, 0, &[b"x"]).unwrap_err();
    assert_eq!(error, Error::Remote { code: 7, text: "cannot".into() });
    assert_eq!(client.call(ECHO, 0, &[b"still there"]).unwrap(), b"still there");
}

#[test]
fn message_waits_for_credit_and_is_at_most_half_of_it() {
    let mut options = ServerOptions::new(SCHEMA);
    options.limits = Limits { frames: 16, bytes: 400_000 };
    let bench = Bench::with(options, |_| None);
    let client = bench.open().unwrap();
    for number in 0..500_u64 {
        client.post(ADD, 0, &[&number.to_le_bytes()]).unwrap();
    }
    for _ in 0..10 {
        assert_eq!(client.call(ECHO, 0, &[&[1; 190_000]]).unwrap().len(), 190_000);
        client.post(ADD, 0, &[&[0; 8], &[2; 190_000]]).unwrap();
    }
    let said = client.post(ADD, 0, &[&[1; 300_000]]).unwrap_err().to_string();
    assert!(said.contains("at most 200000 bytes, got 300000"), "{said}");
    client.call(ECHO, 0, &[]).unwrap();
    assert_eq!(bench.added().len(), 510);
}

/// Bytes of frames as a program of someone else might send them.
fn raw_frame(op: u16, flags: u16, seq: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(op.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    bytes.extend(seq.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// Sends bytes in a session of their own, and returns the text with which the server ends it.
fn answer_to(options: ServerOptions, bytes: impl Fn(&mut UnixStream)) -> String {
    let bench = Bench::with(options, |_| None);
    let (near, far) = UnixStream::pair().unwrap();
    let server = bench.server();
    let served = std::thread::spawn(move || server.serve(Link::unix(far).unwrap()));
    let mut near = near;
    support::shake_hands(&mut near);
    bytes(&mut near);
    let end = served.join().unwrap().unwrap_err().to_string();
    let (mut rest, end) = (Vec::new(), end);
    let _ = near.read_to_end(&mut rest); // reset: the end was sent, or not
    assert!(bench.server().is_empty());
    end
}

#[test]
fn credit_overrun_ends_the_session() {
    let mut options = ServerOptions::new(SCHEMA);
    options.limits = Limits { frames: 16, bytes: 1 << 20 };
    // A payload that is never completed holds back the acknowledgement of what follows it.
    let said = answer_to(options, |stream| {
        let mut chunk = [1_u64.to_le_bytes(), 0_u64.to_le_bytes()].concat();
        chunk.extend(1_u32.to_le_bytes());
        chunk.extend(0xd202_ef8d_u32.to_le_bytes()); // CRC-32 of one zero
        chunk.push(0);
        stream.write_all(&raw_frame(6, 0, 0, &chunk)).unwrap();
        for seq in 1..=16 {
            let _ = stream.write_all(&raw_frame(ADD, 0, seq, &[0; 8]));
        }
    });
    assert!(said.contains("at most 16 frames") && said.contains("got 17"), "{said}");
}

#[test]
fn hostile_frames_end_their_session_with_a_reason() {
    let options = || ServerOptions::new(SCHEMA);
    for (bytes, text) in [
        (vec![0xff; 64], "must be at most"),
        (raw_frame(ADD, 0x8000, 0, &[0; 8]), "flags"),
        (raw_frame(ADD, 0, 5, &[0; 8]), "5 frames are missing"),
        (raw_frame(3, 0, 0, &[]), "operation 3"),
        (raw_frame(5, 1, 0, &[0xff; 16]), "acknowledgement: must be at most 0"),
        (raw_frame(5, 1, 0, &[0; 3]), "acknowledgement"),
        (raw_frame(6, 0, 0, &[0; 4]), "chunk"),
        (raw_frame(7, 0, 0, &[0; 16]), "no such request"),
        (raw_frame(ADD, 4, 0, &[0; 16]), "no chunk of it"),
        (raw_frame(ADD, 0, 0, &[0; 2]), "must have 8 bytes"),
    ] {
        let said = answer_to(options(), |stream| stream.write_all(&bytes).unwrap());
        assert!(said.contains(text), "{text}: {said}");
    }
}

#[test]
fn slow_reader_loses_its_session_alone() {
    let mut options = ServerOptions::new(SCHEMA);
    options.max_unread = 1 << 20;
    let bench = Bench::with(options, |_| None);
    let other = bench.open().unwrap();
    let (near, far) = UnixStream::pair().unwrap();
    let server = bench.server();
    let served = std::thread::spawn(move || server.serve(Link::unix(far).unwrap()));
    let mut near = near;
    support::shake_hands(&mut near);
    let mut seq = 0;
    while !served.is_finished() {
        if near.write_all(&raw_frame(ECHO, 2, seq, &[0; 4096])).is_err() {
            break;
        }
        seq += 1;
    }
    let said = served.join().unwrap().unwrap_err().to_string();
    assert!(said.contains("unread, at most 1048576"), "{said}");
    assert_eq!(other.call(ECHO, 0, &[b"x"]).unwrap(), b"x");
}

/// A server that keeps sessions for a minute.
fn patient_server() -> Server {
    let mut options = ServerOptions::new(SCHEMA);
    options.reconnect_timeout = Duration::from_secs(60);
    options.closed_timeout = options.reconnect_timeout;
    Bench::with(options, |_| None).server()
}

/// Connects to a server, which gives a new session this name. Returns the connection and the thread
/// that serves it.
fn connect_to(
    server: &Server,
    name: [u8; 16],
) -> (UnixStream, std::thread::JoinHandle<reef_wire::Result<()>>) {
    let (near, far) = UnixStream::pair().unwrap();
    let server = server.clone();
    let served = std::thread::spawn(move || {
        let mut link = Link::unix(far).unwrap();
        let hello = server.greet(&mut link)?;
        server.serve_greeted(link, &hello, name)
    });
    (near, served)
}

/// Each has a thread until the session can have it.
#[test]
fn one_connection_at_a_time_waits_for_its_session() {
    const NAME: [u8; 16] = [7; 16];
    let server = patient_server();
    let connect = || connect_to(&server, NAME);
    let (mut first, _served) = connect();
    support::shake_hands(&mut first);
    let held = server.hold(NAME).unwrap();
    let mut waiting: Vec<_> = (0..20).map(|_| connect()).collect();
    waiting.iter_mut().for_each(|(near, _)| support::ask_for(near, NAME, 0));
    let begin = Instant::now();
    while waiting.len() > 1 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} connections wait", waiting.len());
        waiting.retain(|(_, served)| !served.is_finished());
        std::thread::yield_now();
    }
    drop(held);
    assert_eq!(support::read_frame(&mut waiting[0].0).0, 3, "a welcome");
}

/// Reads frames until an answer has come. Acknowledgements may come before it.
fn read_answer(stream: &mut UnixStream) {
    while !support::read_frame(stream).1.ends_with(b"answer") {}
}

/// A server that is busy may meet the first hello of a client when a later one has long brought its
/// session back, and the client has acknowledged more.
#[test]
fn hello_that_comes_late_does_not_end_the_session() {
    const NAME: [u8; 16] = [8; 16];
    let server = patient_server();
    let connect = || connect_to(&server, NAME).0;
    let mut first = connect();
    support::shake_hands(&mut first);
    let echo = |seq| raw_frame(ECHO, 2, seq, b"answer");
    first.write_all(&echo(0)).unwrap();
    read_answer(&mut first);
    first.write_all(&raw_frame(5, 1, 0, &[1, 64].map(u64::to_le_bytes).concat())).unwrap();
    first.write_all(&echo(1)).unwrap();
    read_answer(&mut first); // so the acknowledgement before it has come
    let mut late = connect();
    support::ask_for(&mut late, NAME, 0);
    let (op, text) = support::read_frame(&mut late);
    let text = String::from_utf8(text).unwrap();
    assert!(op == 4 && text.contains("must have 1 frames, got 0"), "{op}: {text}");
    let mut again = connect();
    support::ask_for(&mut again, NAME, 2);
    assert_eq!(support::read_frame(&mut again).0, 3, "a welcome");
    again.write_all(&echo(2)).unwrap();
    read_answer(&mut again);
}

/// Messages are kept until their frames are acknowledged.
#[test]
fn client_that_acknowledges_bytes_alone_loses_its_session() {
    let mut options = ServerOptions::new(SCHEMA);
    options.max_unread = 1 << 20;
    let bench = Bench::with(options, |_| None);
    let (mut near, far) = UnixStream::pair().unwrap();
    let server = bench.server();
    let served = std::thread::spawn(move || server.serve(Link::unix(far).unwrap()));
    support::shake_hands(&mut near);
    let mut answers = near.try_clone().unwrap();
    let reads = std::thread::spawn(move || std::io::copy(&mut answers, &mut std::io::sink()));
    let acknowledgement = raw_frame(5, 1, 0, &[0, u64::MAX].map(u64::to_le_bytes).concat());
    for seq in 0..4096 {
        let both = [raw_frame(ECHO, 2, seq, &[0; 4096]), acknowledgement.clone()].concat();
        if near.write_all(&both).is_err() {
            break; // its session has ended
        }
    }
    let _ = near.shutdown(std::net::Shutdown::Both); // it may be closed
    let said = served.join().unwrap().unwrap_err().to_string();
    assert!(said.contains("unread, at most 1048576"), "{said}");
    let _ = reads.join().unwrap(); // the connection may have been reset
}

#[test]
fn client_of_another_schema_is_refused_with_both_hashes() {
    let bench = Bench::new(|_| None);
    let error = bench.open_with(|options| options.schema = 0xabcd).unwrap_err();
    assert!(matches!(error, Error::Refused(_)));
    let said = error.to_string();
    assert!(
        said.contains("000000000000abcd") && said.contains(&format!("{SCHEMA:016x}")),
        "{said}"
    );
    // A client that does not look is refused by the server as well.
    let (near, far) = UnixStream::pair().unwrap();
    let server = bench.server();
    let served = std::thread::spawn(move || server.serve(Link::unix(far).unwrap()));
    let mut near = near;
    let mut greeting = [0; 16 + 56];
    near.read_exact(&mut greeting).unwrap();
    near.write_all(&raw_frame(2, 1, 0, &[b"REEFRMT1\x01\0\0\0", &[0xcd; 8][..]].concat())).unwrap();
    let said = served.join().unwrap().unwrap_err().to_string();
    assert!(said.contains("got cdcdcdcdcdcdcdcd"), "{said}");
    let mut answer = Vec::new();
    near.read_to_end(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("got cdcdcdcdcdcdcdcd"));
}

#[test]
fn token_is_needed_and_never_sent() {
    let mut options = ServerOptions::new(SCHEMA);
    options.tokens = vec![Token::new(b"first"), Token::new(b"second")];
    let bench = Bench::with(options, |_| None);
    for (token, text) in [(None, "wants a token"), (Some("third"), "not one of")] {
        let error =
            bench.open_with(|options| options.token = token.map(|t| Token::new(t.as_bytes())));
        let said = error.unwrap_err().to_string();
        assert!(said.contains(text), "{said}");
    }
    let client = bench.open_with(|options| options.token = Some(Token::new(b"second"))).unwrap();
    client.call(ECHO, 0, &[]).unwrap();
}

#[test]
fn ended_server_is_an_error_for_all_callers() {
    let bench = Bench::new(|_| None);
    let client = bench
        .open_with(|options| {
            options.reconnect_timeout = Duration::from_millis(50);
            let dial = std::mem::replace(&mut options.dial, Box::new(|| unreachable!()));
            let has_dialled = AtomicBool::new(false);
            options.dial = Box::new(move || {
                if has_dialled.swap(true, Ordering::Relaxed) {
                    return Err(Error::Broken("there is no server".into()));
                }
                dial()
            });
        })
        .unwrap();
    client.cut();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let said = client.call(ECHO, 0, &[]).unwrap_err().to_string();
                assert!(said.contains("session ended") && said.contains("no server"), "{said}");
            });
        }
    });
    assert!(client.post(ADD, 0, &[&[0; 8]]).is_err());
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn left_client_frees_its_session_at_once() {
    let bench = Bench::new(|_| None);
    let client = bench.open().unwrap();
    client.call(ECHO, 0, &[]).unwrap();
    assert_eq!(bench.server().len(), 1);
    drop(client);
    sessions_end(&bench.server());
}

/// The system closes the sockets of a process that has ended, which says nothing more.
#[test]
fn session_of_a_closed_connection_ends_soon() {
    let mut options = ServerOptions::new(SCHEMA);
    options.reconnect_timeout = Duration::from_secs(600);
    let bench = Bench::with(options, |_| None);
    let other = bench.open().unwrap();
    let (mut near, far) = UnixStream::pair().unwrap();
    let server = bench.server();
    let served = std::thread::spawn(move || server.serve(Link::unix(far).unwrap()));
    support::shake_hands(&mut near);
    let begin = Instant::now();
    drop(near);
    let said = served.join().unwrap().unwrap_err().to_string();
    assert!(said.contains("closed") && said.contains("did not come back"), "{said}");
    assert!(begin.elapsed() < Duration::from_secs(120), "well before the timeout of 10 minutes");
    assert_eq!(other.call(ECHO, 0, &[b"x"]).unwrap(), b"x");
}

/// A client doesn't wait for its timeout if nothing listens at the address: the sessions are gone.
#[test]
fn absent_server_ends_the_session_soon() {
    let bench = Bench::new(|_| None);
    let client = bench
        .open_with(|options| {
            options.reconnect_timeout = Duration::from_secs(600);
            let dial = std::mem::replace(&mut options.dial, Box::new(|| unreachable!()));
            let has_dialled = AtomicBool::new(false);
            options.dial = Box::new(move || {
                if has_dialled.swap(true, Ordering::Relaxed) {
                    let nowhere: Address = "unix:/nowhere/reef.sock".parse().unwrap();
                    return nowhere.connect(Duration::from_secs(1), None);
                }
                dial()
            });
        })
        .unwrap();
    client.cut();
    let begin = Instant::now();
    let said = client.call(ECHO, 0, &[]).unwrap_err().to_string();
    assert!(said.contains("/nowhere/reef.sock"), "{said}");
    assert!(begin.elapsed() < Duration::from_secs(120), "well before the timeout of 10 minutes");
}

#[test]
fn sessions_beyond_the_bound_are_refused() {
    let mut options = ServerOptions::new(SCHEMA);
    options.max_sessions = 2;
    let bench = Bench::with(options, |_| None);
    let clients = [bench.open().unwrap(), bench.open().unwrap()];
    let said = bench.open().unwrap_err().to_string();
    assert!(said.contains("2 sessions"), "{said}");
    drop(clients);
    sessions_end(&bench.server());
    bench.open().unwrap();
}

#[test]
fn session_over_tls_is_bound_to_its_server() {
    let pair = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(pair.signing_key.serialize_der().into());
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![pair.cert.der().clone()], key)
        .unwrap();
    let tls = reef_wire::TlsServer::new(&config);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(pair.cert.der().clone()).unwrap();
    let trusting = reef_wire::TlsClient::new(roots);
    let bench = Bench::new(|_| None);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = bench.server();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (tls, server) = (tls.clone(), server.clone());
            std::thread::spawn(move || server.serve(tls.accept(stream.unwrap())?));
        }
    });
    let dial = |tls: reef_wire::TlsClient, host: &'static str| {
        move || tls.connect(TcpStream::connect(address).unwrap(), host)
    };
    let client =
        bench.open_with(|options| options.dial = Box::new(dial(trusting.clone(), "localhost")));
    let client = client.unwrap();
    let body: Vec<u8> = (0..3_000_000_u32).map(|i| (i >> 3) as u8).collect();
    assert!(client.call(ECHO, 0, &[&body]).unwrap() == body);
    for number in 0..100_u64 {
        client.post(ADD, 0, &[&number.to_le_bytes()]).unwrap();
        client.post(PUSH, 0, &[&number.to_le_bytes()]).unwrap();
    }
    client.cut();
    assert_eq!(client.call(ECHO, 0, &[b"after a cut"]).unwrap(), b"after a cut");
    assert!(bench.added().into_iter().eq(0..100));
    let nothing = reef_wire::TlsClient::new(rustls::RootCertStore::empty());
    for (tls, host) in [(nothing, "localhost"), (trusting, "other")] {
        let error =
            bench.open_with(|options| options.dial = Box::new(dial(tls, host))).unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error}");
    }
}
