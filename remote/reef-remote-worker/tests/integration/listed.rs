//! Sessions as the operator of a server sees them, and their end.

use crate::common::{SOON, until};
use crate::proxy::Proxy;
use crate::support;
use crate::tenants::Deaf;
use reef_remote::observe::{Kind, SessionView, Sessions};
use reef_remote_calls::{Barrier, Call, SCHEMA, SetCurrent, TableCall};
use reef_wire::little_endian::{U16, U32, U64};
use reef_wire::{Client, ClientOptions, Error, Hot, Token, hot_bytes};
use std::time::Instant;

const MIB: u64 = 1 << 20;

/// A server of these sessions.
fn serve() -> (String, Sessions) {
    let sessions = Sessions::default();
    let listed = sessions.clone();
    let server = support::serve_with("127.0.0.1:0", move |options| {
        support::wait_for_torn_clients(options);
        options.sessions = listed;
    });
    (server, sessions)
}

fn options(server: &str) -> ClientOptions {
    let address: reef_wire::Address = server.parse().unwrap();
    let mut options = ClientOptions::new(SCHEMA, move || address.connect(SOON, None));
    options.program = "painter".into();
    options
}

fn open(server: &str) -> Client {
    Client::open(options(server), Box::new(Deaf)).unwrap()
}

/// Makes a call of the table, which must succeed.
fn table(client: &Client, call: Call, words: &[u64]) -> u64 {
    let head =
        TableCall { call: U16::new(call as u16), reserved: U16::new(0), reserved2: U32::new(0) };
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let reply = client.call(TableCall::OP, 1, &[hot_bytes(&head), &words]).unwrap();
    assert_eq!(reply[..4], [0; 4], "{call:?}");
    reply.get(8..16).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()))
}

fn begin_context(client: &Client) {
    let id = table(client, Call::cuDevicePrimaryCtxRetain, &[32, 0]);
    let context = SetCurrent { context: U64::new(id) };
    client.call(SetCurrent::OP, 1, &[hot_bytes(&context)]).unwrap();
}

fn only(sessions: &Sessions) -> SessionView {
    let mut list = sessions.list();
    assert_eq!(list.len(), 1, "{list:?}");
    list.remove(0)
}

/// The session once it is listed with this number of replies: a worker that answers late is listed
/// with what it said before.
fn only_with(sessions: &Sessions, replies: u64) -> SessionView {
    let mut view = only(sessions);
    until("its last answer", || {
        view = only(sessions);
        view.counts.traffic.replies == replies
    });
    view
}

/// The value of a line of the metrics.
fn metric(sessions: &Sessions, line: &str) -> u64 {
    let text = sessions.metrics();
    let found = text.lines().find_map(|have| have.strip_prefix(line)?.trim().parse().ok());
    found.unwrap_or_else(|| panic!("{line}:\n{text}"))
}

/// A process that closes its socket to the server would have no session, and keep a place.
#[test]
fn worker_that_leaves_its_server_is_ended() {
    let sessions = Sessions::default();
    let listed = sessions.clone();
    let server = support::serve_with("127.0.0.1:0", move |options| {
        options.sessions = listed;
        options.program = "/bin/sh".into();
        options.command = vec!["-c".into(), "exec sleep 600 < /dev/null".into()];
    });
    // Its connection closes with the socket that it was handed to.
    assert!(Client::open(options(&server), Box::new(Deaf)).is_err());
    until("the process has ended", || sessions.list().is_empty());
}

#[test]
fn session_is_listed_with_what_it_did() {
    let (server, sessions) = serve();
    assert!(sessions.list().is_empty());
    let client = open(&server);
    begin_context(&client);
    let at = table(&client, Call::cuMemAlloc_v2, &[1, 4 * MIB]);
    let view = only_with(&sessions, 3);
    assert_eq!((view.facts.kind, &*view.facts.program), (Kind::Program, "painter"));
    assert!(view.counts.peer.starts_with("127.0.0.1:"), "{view:?}");
    let pid = view.facts.pid.unwrap();
    // The system may leave a child out of its list while another one ends.
    until("it is a child", || support::children(std::process::id()).contains(&pid));
    assert_eq!(view.counts.memory_bytes, 4 * MIB, "no bound, and it is counted all the same");
    let traffic = view.counts.traffic;
    assert_eq!((traffic.replies, traffic.connections, traffic.is_connected), (3, 1, true));
    assert_eq!((view.counts.single_calls, view.counts.replayed_calls), (Some(3), Some(0)));
    table(&client, Call::cuMemFree_v2, &[at]);
    // Bytes are counted when they have been read: that of the call may be later than its reply.
    until("the bytes of the call are counted", || {
        let later = only_with(&sessions, 4).counts;
        assert_eq!(later.memory_bytes, 0);
        later.traffic.received_bytes > traffic.received_bytes
    });
    assert_eq!(metric(&sessions, "reef_remote_sessions{kind=\"program\",state=\"connected\"}"), 1);
    drop(client);
    until("the session is gone", || sessions.list().is_empty());
    let trips = "reef_remote_round_trips_total{kind=\"program\"}";
    assert!(metric(&sessions, trips) >= 4, "sums have what an ended session had");
}

/// The client learns the reason; a worker that does not answer is killed.
#[test]
fn ended_session_says_why() {
    let (server, sessions) = serve();
    let client = open(&server);
    begin_context(&client);
    let before = only(&sessions);
    assert!(!sessions.end(before.id + 1, "it is not there"));
    assert!(sessions.end(before.id, "the operator wants the GPU"));
    // A call that the worker has begun ends as usual.
    until("a call fails with the reason", || match client.call(Barrier::OP, 1, &[]) {
        Ok(_) => false,
        Err(said) => {
            assert!(said.to_string().contains("the operator wants the GPU"), "{said}");
            true
        }
    });
    until("the session is gone", || sessions.list().is_empty());

    let client = open(&server);
    begin_context(&client);
    let view = only_with(&sessions, 2);
    let pid = view.facts.pid.unwrap() as i32;
    // SAFETY: a process of this test's server.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    let begin = Instant::now();
    let stopped = only(&sessions);
    assert!(begin.elapsed() < SOON / 2, "a stopped worker holds up no list");
    assert_eq!(stopped.counts.traffic.replies, 2, "its last answer");
    assert!(sessions.end(view.id, "the operator wants the GPU"));
    until("the worker is killed", || sessions.list().is_empty());
    drop(client);
}

#[test]
fn session_on_another_connection_is_the_same() {
    let (server, sessions) = serve();
    let proxy = Proxy::start(&server, |_| None);
    let client = open(&format!("127.0.0.1:{}", proxy.port));
    begin_context(&client);
    let before = only(&sessions);
    proxy.cut();
    while only(&sessions).counts.traffic.connections < 2 {
        client.call(Barrier::OP, 1, &[]).unwrap();
    }
    let after = only(&sessions);
    assert_eq!(after.id, before.id, "the same session");
    assert_ne!(after.counts.peer, before.counts.peer, "on another connection");
    assert_eq!(metric(&sessions, "reef_remote_reconnects_total{kind=\"program\"}"), 1);
}

#[test]
fn refused_clients_are_counted_by_reason() {
    let folder = std::env::temp_dir().join(format!("reef-refused-{}", std::process::id()));
    std::fs::write(&folder, "the token of this server").unwrap();
    let sessions = Sessions::default();
    let (listed, token) = (sessions.clone(), folder.clone());
    let server = support::serve_with("127.0.0.1:0", move |options| {
        (options.sessions, options.security.token) = (listed, Some(token));
        options.max_sessions = 1;
    });
    std::fs::remove_file(folder).unwrap();
    let open = |token: Option<&str>, schema: u64| {
        let mut options = options(&server);
        options.token = token.map(|token| Token::new(token.as_bytes()));
        options.schema = schema;
        Client::open(options, Box::new(Deaf))
    };
    let right = Some("the token of this server");
    let first = open(right, SCHEMA).unwrap();
    for (token, schema, reason) in [
        (None, SCHEMA, "token"),
        (Some("another token altogether"), SCHEMA, "token"),
        (right, SCHEMA, "full"),
    ] {
        let of = format!("reef_remote_refused_total{{reason=\"{reason}\"}}");
        let before = metric(&sessions, &of);
        assert!(matches!(open(token, schema), Err(Error::Refused(_))), "{reason}");
        until("it is counted", || metric(&sessions, &of) == before + 1);
    }
    // The client of another release says nothing, and closes its connection.
    assert!(open(right, SCHEMA + 1).is_err());
    let broken = "reef_remote_refused_total{reason=\"broken\"}";
    until("a client that goes is counted", || metric(&sessions, broken) == 1);
    until("the first is there", || only(&sessions).counts.traffic.connections == 1);
    drop(first);
}
