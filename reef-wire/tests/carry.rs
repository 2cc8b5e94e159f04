//! Sessions that go to another server, or to a file, while their client is without a connection.

mod support;

use reef_wire::{Client, ClientOptions, Error, Key, Link, Moved, Server, ServerOptions};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use support::{ADD, Bench, ECHO, SCHEMA};

/// Name of the session.
const NAME: [u8; 16] = [7; 16];

/// Makes a connection to a server.
fn connect(server: &Server, serve: fn(&Server, Link) -> reef_wire::Result<()>) -> Link {
    let (near, far) = UnixStream::pair().unwrap();
    let server = server.clone();
    thread::spawn(move || serve(&server, Link::unix(far).unwrap()));
    Link::unix(near).unwrap()
}

/// Two servers, the first of which may end; a client of the first takes `absence` to come back.
struct Move {
    servers: [Bench; 2],
    is_first_gone: Arc<AtomicBool>,
    client: Client,
}

impl Move {
    fn new(absence: Duration) -> Self {
        let servers = [(); 2].map(|()| Bench::with(ServerOptions::new(SCHEMA), |_| None));
        let [first, second] = [0, 1].map(|at: usize| servers[at].server());
        let (is_first_gone, dials) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
        let is_gone = is_first_gone.clone();
        let mut options = ClientOptions::new(SCHEMA, move || {
            if dials.fetch_add(1, Ordering::Relaxed) > 0 {
                thread::sleep(absence);
            }
            if is_gone.load(Ordering::Relaxed) {
                return Err(Error::Absent("nothing listens".into()));
            }
            Ok(connect(&first, |server, mut link| {
                let hello = server.greet(&mut link)?;
                server.serve_greeted(link, &hello, NAME)
            }))
        });
        options.dial_moved = Some(Box::new(move |_| Ok(connect(&second, Server::serve))));
        let client = Client::open(options, servers[0].pusher()).unwrap();
        assert_eq!(client.call(ECHO, 0, &[b"here"]).unwrap(), b"here");
        Self { servers, is_first_gone, client }
    }

    /// Moves the session to the second server, and ends the first one at once. Returns whether the
    /// client was told.
    fn go(&self) -> bool {
        let held = self.servers[0].server().hold(NAME).unwrap();
        let key = Key::make().unwrap();
        let carried = held.carried().unwrap();
        let second = self.servers[1].server();
        let adopt = second.adopt(NAME, None, Some(key.clone()), &carried, self.servers[1].noter());
        let adopted = adopt.unwrap();
        thread::spawn(move || adopted.run());
        let is_told = held.moved(&Moved { address: "second".into(), key });
        self.is_first_gone.store(true, Ordering::Relaxed);
        is_told
    }
}

#[test]
fn client_hears_of_a_move_before_its_server_may_end() {
    let moving = Move::new(Duration::from_millis(200));
    assert!(moving.go());
    assert_eq!(moving.client.call(ECHO, 0, &[b"there"]).unwrap(), b"there");
}

#[test]
fn absent_client_delays_a_move_for_a_bounded_time() {
    assert!(!Move::new(Duration::from_secs(4)).go(), "the client comes after 4 s");
}

/// Holds and cuts at once, `count` times: no hold waits, and no message comes meanwhile.
fn hold_and_cut(count: usize, messages: u64) {
    let Move { servers: [bench, _], client, .. } = Move::new(Duration::ZERO);
    let (sender, held) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..count {
                let held = bench.server().hold(NAME).unwrap();
                let before = bench.added().len();
                thread::sleep(Duration::from_micros(100));
                sender.send(bench.added().len() - before).unwrap();
                drop(held);
            }
        });
        scope.spawn(|| {
            for number in 0..messages {
                client.post(ADD, 0, &[&number.to_le_bytes()]).unwrap();
            }
        });
        for _ in 0..count {
            client.cut(); // it connects again
            let came = held.recv_timeout(Duration::from_secs(20)).expect("the session is held");
            assert_eq!(came, 0, "messages of a held session");
        }
    });
    assert_eq!(client.call(ECHO, 0, &[b"goes on"]).unwrap(), b"goes on");
    assert!(bench.added().into_iter().eq(0..messages), "each message came once");
}

#[test]
fn hold_takes_a_connection_that_was_just_made() {
    hold_and_cut(2000, 0);
}

#[test]
fn held_session_takes_no_messages() {
    hold_and_cut(2000, 200_000);
}
