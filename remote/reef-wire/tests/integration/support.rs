//! A server whose messages show what came, and how often.

#![allow(dead_code)] // each test uses a part

use reef_wire::{
    Authority, Client, ClientOptions, Endpoint, Error, Handler, Hello, Line, Link, Message, Result,
    Server, ServerOptions,
};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) const SCHEMA: u64 = 0x5eed;
/// Notes a number.
pub(crate) const ADD: u16 = 16;
/// Replies with its body.
pub(crate) const ECHO: u16 = 17;
/// Pushes its number back.
pub(crate) const PUSH: u16 = 18;
/// Replies with an error.
pub(crate) const NEVER: u16 = 19;

type Numbers = Arc<Mutex<Vec<u64>>>;

struct Note(Numbers);

impl Handler for Note {
    fn handle(&mut self, message: &Message<'_>, endpoint: &Endpoint) -> Result<()> {
        match message.op {
            ECHO if message.wants_reply => endpoint.reply(message.number, Ok(&[message.body])),
            NEVER if message.wants_reply => endpoint.reply(message.number, Err((7, "cannot"))),
            PUSH => endpoint.post(PUSH, 0, &[message.body]).map(|_| ()),
            ADD => {
                let number = message.body.first_chunk().ok_or_else(|| {
                    Error::Protocol(format!("must have 8 bytes, got {}", message.body.len()))
                })?;
                self.0.lock().unwrap().push(u64::from_le_bytes(*number));
                Ok(())
            }
            op => Err(Error::Protocol(format!("there is no operation {op}"))),
        }
    }
}

struct Everyone(Numbers);

impl Authority for Everyone {
    fn admit(&self, _: &Hello, _: &Server) -> Result<(Box<dyn Handler>, Vec<u8>), String> {
        Ok((Box::new(Note(self.0.clone())), b"facts".to_vec()))
    }
}

/// Takes what the server pushes.
struct Take(Numbers);

impl Handler for Take {
    fn handle(&mut self, message: &Message<'_>, _: &Endpoint) -> Result<()> {
        assert_eq!(message.op, PUSH);
        self.0.lock().unwrap().push(u64::from_le_bytes(message.body.try_into().unwrap()));
        Ok(())
    }
}

type Lines = Arc<dyn Fn(usize) -> Option<Line> + Send + Sync>;

pub(crate) struct Bench {
    server: Server,
    added: Numbers,
    pushed: Numbers,
    connections: Arc<AtomicUsize>,
    lines: Lines,
}

impl Bench {
    /// A server; `lines` says over which line connection number n goes.
    pub(crate) fn new(lines: impl Fn(usize) -> Option<Line> + Send + Sync + 'static) -> Self {
        Self::with(ServerOptions::new(SCHEMA), lines)
    }

    /// Over lines that break: a cut looks to the server as if the client's system had closed the
    /// connection, and a client on a busy machine may need long to come back.
    pub(crate) fn with_cuts(lines: impl Fn(usize) -> Option<Line> + Send + Sync + 'static) -> Self {
        let mut options = ServerOptions::new(SCHEMA);
        options.closed_timeout = options.reconnect_timeout;
        Self::with(options, lines)
    }

    pub(crate) fn with(
        options: ServerOptions,
        lines: impl Fn(usize) -> Option<Line> + Send + Sync + 'static,
    ) -> Self {
        let (added, pushed) = (Numbers::default(), Numbers::default());
        let server = Server::new(options, Everyone(added.clone()));
        Self { server, added, pushed, connections: Arc::default(), lines: Arc::new(lines) }
    }

    pub(crate) fn open(&self) -> Result<Client> {
        self.open_with(|_| ())
    }

    /// Begins a session over a line that may break before it has begun.
    pub(crate) fn open_again_and_again(&self) -> Client {
        loop {
            match self.open() {
                Err(Error::Broken(_)) => {}
                result => return result.unwrap(),
            }
        }
    }

    pub(crate) fn open_with(&self, change: impl FnOnce(&mut ClientOptions)) -> Result<Client> {
        let (server, lines) = (self.server.clone(), self.lines.clone());
        let connections = self.connections.clone();
        let dial = move || {
            let (near, far) = UnixStream::pair().unwrap();
            let server = server.clone();
            std::thread::spawn(move || server.serve(Link::unix(far).unwrap()));
            let link = Link::unix(near).unwrap();
            match lines(connections.fetch_add(1, Ordering::Relaxed)) {
                Some(line) => Ok(link.emulated(line).unwrap()),
                None => Ok(link),
            }
        };
        let mut options = ClientOptions::new(SCHEMA, dial);
        change(&mut options);
        Client::open(options, self.pusher())
    }

    /// Handler of a session's messages.
    pub(crate) fn noter(&self) -> Box<dyn Handler> {
        Box::new(Note(self.added.clone()))
    }

    /// Handler of what the server pushes.
    pub(crate) fn pusher(&self) -> Box<dyn Handler> {
        Box::new(Take(self.pushed.clone()))
    }

    pub(crate) fn server(&self) -> Server {
        self.server.clone()
    }

    pub(crate) fn added(&self) -> Vec<u64> {
        self.added.lock().unwrap().clone()
    }

    pub(crate) fn pushed(&self) -> Vec<u64> {
        self.pushed.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// Waits until no session is left.
pub(crate) fn sessions_end(server: &Server) {
    let begin = Instant::now();
    while !server.is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} sessions are left", server.len());
        std::thread::yield_now();
    }
}

/// The client's part of a handshake, by hand.
pub(crate) fn shake_hands(stream: &mut UnixStream) {
    say_hello(stream, &[0], 0);
    let (op, _) = read_frame(stream);
    assert_eq!(op, 3, "a welcome");
}

/// Asks for a session that goes on, without waiting for the answer. `received`: frames of the
/// server that have come, at most 127.
pub(crate) fn ask_for(stream: &mut UnixStream, session: [u8; 16], received: u8) {
    say_hello(stream, &[&[1][..], &session].concat(), received);
}

/// Reads one frame, and returns its operation and body.
pub(crate) fn read_frame(stream: &mut UnixStream) -> (u8, Vec<u8>) {
    let mut header = [0; 16];
    stream.read_exact(&mut header).unwrap();
    let len = u32::from_le_bytes(header[..4].try_into().unwrap()) as usize;
    let mut body = vec![0; len.next_multiple_of(8)];
    stream.read_exact(&mut body).unwrap();
    body.truncate(len);
    (header[4], body)
}

/// Says hello for a session that goes on, or for none: in the form of the message.
fn say_hello(stream: &mut UnixStream, session: &[u8], received: u8) {
    let mut greeting = [0; 16 + 56];
    stream.read_exact(&mut greeting).unwrap();
    let mut body = greeting[16..36].to_vec();
    body.extend([1, b'x', 0]); // a name, and no request
    body.extend(session);
    body.extend([received, 0, 0]); // frames and bytes that have come, no proof
    let mut hello = (body.len() as u32).to_le_bytes().to_vec();
    hello.extend([2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    hello.extend(&body);
    hello.resize(hello.len().next_multiple_of(8), 0);
    stream.write_all(&hello).unwrap();
}
