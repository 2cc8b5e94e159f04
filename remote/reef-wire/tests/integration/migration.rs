//! Sessions that go to another server, or to a file, while their client is without a connection.

use crate::support::{ADD, Bench, ECHO, SCHEMA};
use reef_wire::{
    Adopted, Client, ClientOptions, Error, Held, Key, Link, Moved, SendHalf, Server, ServerOptions,
};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A client that is away comes back then, so that a test that fails ends.
const AWAY_TIMEOUT: Duration = Duration::from_secs(60);
/// Name of the session.
const NAME: [u8; 16] = [7; 16];

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Options of servers that tell a client of a move that comes late, as on a busy machine.
fn patient() -> ServerOptions {
    let mut options = ServerOptions::new(SCHEMA);
    options.redirect_timeout = AWAY_TIMEOUT;
    options
}

/// Makes a connection to a server.
fn connect(server: &Server, serve: fn(&Server, Link) -> reef_wire::Result<()>) -> Link {
    let (near, far) = UnixStream::pair().unwrap();
    let server = server.clone();
    thread::spawn(move || serve(&server, Link::unix(far).unwrap()));
    Link::unix(near).unwrap()
}

/// Serves a connection that begins or continues the session.
fn serve(server: &Server, mut link: Link) -> reef_wire::Result<()> {
    let hello = server.greet(&mut link)?;
    server.serve_greeted(link, &hello, NAME)
}

/// Has a session go on at a server.
fn adopt(at: &Bench, held: &Held, key: &Key) -> reef_wire::Result<()> {
    let state = held.state()?;
    let adopted: Adopted = at.server().adopt(NAME, None, Some(key.clone()), &state, at.noter())?;
    thread::spawn(move || adopted.run());
    Ok(())
}

/// Ends a session at the server from which it has moved. Returns whether its client was told.
fn end(held: Held, moved: &Moved) -> bool {
    let is_told = held.redirect(moved);
    held.end(Error::ended_by(moved));
    is_told
}

/// Two servers, the first of which may end, and a client of the first.
struct Move {
    servers: [Bench; 2],
    is_first_gone: Arc<AtomicBool>,
    client: Client,
}

impl Move {
    /// The client takes `absence` to come back.
    fn new(absence: Duration) -> Self {
        // sleep: length of the absence
        let come = move |dial| thread::sleep(if dial > 0 { absence } else { Duration::ZERO });
        Self::with(patient(), move |dial, connect| {
            come(dial);
            connect()
        })
    }

    /// The client comes back when the switch is on, or after a minute.
    fn new_absent() -> (Self, Arc<AtomicBool>) {
        let is_back = Arc::new(AtomicBool::new(false));
        let switch = is_back.clone();
        let moving = Self::with(ServerOptions::new(SCHEMA), move |dial, connect| {
            let begin = Instant::now();
            while dial > 0 && !is_back.load(Ordering::Relaxed) && begin.elapsed() < AWAY_TIMEOUT {
                thread::sleep(millis(1)); // sleep: poll of a condition
            }
            connect()
        });
        (moving, switch)
    }

    /// `dial` makes the client's connection of this number to the first server.
    fn with(
        options: ServerOptions,
        dial: impl Fn(usize, &dyn Fn() -> reef_wire::Result<Link>) -> reef_wire::Result<Link>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let servers = [options.clone(), options].map(|options| Bench::with(options, |_| None));
        let [first, second] = [0, 1].map(|at: usize| servers[at].server());
        let (is_first_gone, dials) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
        let is_gone = is_first_gone.clone();
        let mut options = ClientOptions::new(SCHEMA, move || {
            dial(dials.fetch_add(1, Ordering::Relaxed), &|| {
                if is_gone.load(Ordering::Relaxed) {
                    return Err(Error::Absent("nothing listens".into()));
                }
                Ok(connect(&first, serve))
            })
        });
        options.dial_moved = Some(Box::new(move |address| match address {
            "second" => Ok(connect(&second, Server::serve)),
            _ => Err(Error::Absent(address.into())),
        }));
        let client = Client::open(options, servers[0].pusher()).unwrap();
        assert_eq!(client.call(ECHO, 0, &[b"here"]).unwrap(), b"here");
        Self { servers, is_first_gone, client }
    }

    fn hold(&self) -> Held {
        self.servers[0].server().hold(NAME).unwrap()
    }

    /// Moves the session to the second server, and ends the first one at once. Returns whether the
    /// client was told.
    fn go(&self, held: Held) -> bool {
        let key = Key::make().unwrap();
        adopt(&self.servers[1], &held, &key).unwrap();
        let is_told = end(held, &Moved { address: "second".into(), key });
        self.is_first_gone.store(true, Ordering::Relaxed);
        is_told
    }

    #[track_caller]
    fn answers(&self) {
        assert_eq!(self.client.call(ECHO, 0, &[b"there"]).unwrap(), b"there");
    }
}

#[test]
fn client_hears_of_a_move_before_its_server_may_end() {
    let moving = Move::new(millis(200));
    assert!(moving.go(moving.hold()));
    moving.answers();
}

#[test]
fn absent_client_delays_a_move_for_a_bounded_time() {
    let (moving, is_back) = Move::new_absent();
    assert!(!moving.go(moving.hold()), "the client has not come");
    is_back.store(true, Ordering::Relaxed);
}

/// Its server keeps a session whose connection was closed for a second, unless it is held or moves.
#[test]
fn client_whose_connection_was_closed_is_told() {
    let mut options = patient();
    options.closed_timeout = millis(1000);
    let held_in_time = || {
        let moving = Move::with(options.clone(), |dial, connect| {
            thread::sleep(millis(if dial > 0 { 1300 } else { 0 })); // sleep: longer than that
            connect()
        });
        moving.client.cut();
        thread::sleep(millis(50)); // sleep: the server sees it; one that does not yet holds as well
        let held = moving.servers[0].server().hold(NAME)?;
        Some((moving, held))
    };
    // On a busy machine the session may have ended by then.
    let (moving, held) = (0..30).find_map(|_| held_in_time()).expect("thirty times too late");
    assert!(moving.go(held));
    moving.answers();
}

#[test]
fn connection_that_broke_meanwhile_is_not_the_client() {
    let moving = Move::with(patient(), |dial, connect| {
        if dial == 2 {
            thread::sleep(millis(800)); // sleep: a client that comes late
        }
        let link = connect()?;
        if dial == 1 {
            let control = link.control.clone();
            thread::spawn(move || {
                thread::sleep(millis(100)); // sleep: while the client waits for the answer
                control.cut();
            });
        }
        Ok(link)
    });
    let held = moving.hold();
    // sleep: the connection has broken; a client of one that has not yet is told there
    thread::sleep(millis(300));
    assert!(moving.go(held), "the next connection is told");
    moving.answers();
}

#[test]
fn session_comes_back_while_its_first_server_waits() {
    let (moving, is_back) = Move::new_absent();
    let (key, held) = (Key::make().unwrap(), moving.hold());
    let [first, second] = &moving.servers;
    adopt(second, &held, &key).unwrap();
    let to = Moved { address: "second".into(), key: key.clone() };
    let there = thread::spawn(move || end(held, &to));
    // sleep: so that the first server waits; one that does not yet finds the session there
    thread::sleep(millis(300));
    adopt(first, &second.server().hold(NAME).unwrap(), &key).unwrap();
    is_back.store(true, Ordering::Relaxed);
    assert!(!there.join().unwrap(), "the client finds the session here");
    moving.answers();
    assert_eq!(first.server().len(), 1);
}

/// Holds and cuts at once, `count` times: no hold waits, and no message comes meanwhile.
fn hold_and_cut(count: usize, messages: u64) {
    let mut options = ServerOptions::new(SCHEMA);
    options.closed_timeout = options.reconnect_timeout; // the machine may be busy
    let Move { servers: [bench, _], client, .. } = Move::with(options, |_, connect| connect());
    let (sender, held) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..count {
                let held = bench.server().hold(NAME).unwrap();
                let before = bench.added().len();
                // sleep: time in which a message would come
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
            let came = held.recv_timeout(Duration::from_secs(60)).expect("the session is held");
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

/// A way of a server to a client that takes 300 ms for its second message, the welcome.
#[derive(Debug)]
struct SlowWelcome {
    way: Box<dyn SendHalf>,
    sent: usize,
}

impl SendHalf for SlowWelcome {
    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.sent += 1;
        self.way.send(bytes)?;
        if self.sent == 2 {
            thread::sleep(millis(300)); // sleep: a slow way
        }
        Ok(())
    }
}

#[test]
fn session_that_is_held_as_it_begins_takes_no_messages() {
    let bench = Bench::with(ServerOptions::new(SCHEMA), |_| None);
    let (server, dials) = (bench.server(), AtomicUsize::new(0));
    let client = Client::open(
        ClientOptions::new(SCHEMA, move || {
            let is_first = dials.fetch_add(1, Ordering::Relaxed) == 0;
            Ok(connect(&server, if is_first { serve_slowly } else { serve }))
        }),
        bench.pusher(),
    );
    let (client, held) = (client.unwrap(), bench.server().hold(NAME).unwrap());
    client.post(ADD, 0, &[&7_u64.to_le_bytes()]).unwrap();
    // sleep: time in which a message would come; none fails a right server
    thread::sleep(millis(600));
    assert_eq!(bench.added(), [0_u64; 0]);
    drop(held);
    assert_eq!(client.call(ECHO, 0, &[b"goes on"]).unwrap(), b"goes on");
    assert_eq!(bench.added(), [7]);
}

fn serve_slowly(server: &Server, link: Link) -> reef_wire::Result<()> {
    serve(server, Link { send: Box::new(SlowWelcome { way: link.send, sent: 0 }), ..link })
}
