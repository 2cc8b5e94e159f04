//! The client's end: connects, and connects again.

use super::endpoint::{CALLS_INTERVAL, Endpoint, Handler, Side};
use super::handshake::{HANDSHAKE_TIMEOUT, Hello, Token, Welcome, greet};
use super::inbox::Inbox;
use crate::error::{Error, Result};
use crate::exchange::sync::lock;
use crate::frame::Decoder;
use crate::journal::Progress;
use crate::moved::Moved;
use crate::transport::link::Link;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time for which a client tries again where nothing listens: a server that is busy may not yet.
const ABSENT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for which a client tries again to begin a session, once its connection has broken.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Function that makes a connection to an address.
type Dial = Box<dyn Fn(&str) -> Result<Link> + Send + Sync>;

/// Maximum number of times that a session moves while its client connects.
const MAX_MOVES: u32 = 8;

/// Way of a client to its server.
pub struct ClientOptions {
    /// Makes a connection.
    pub dial: Box<dyn Fn() -> Result<Link> + Send + Sync>,
    /// Makes a connection to the address that a server names as the session's. `None`: a session
    /// can't move.
    pub dial_moved: Option<Dial>,
    /// Hash of the messages' declarations.
    pub schema: u64,
    /// Secret that the server wants.
    pub token: Option<Token>,
    /// Name for people.
    pub program: String,
    /// Request for the server.
    pub request: Vec<u8>,
    /// Time for which a session without connection is kept.
    pub reconnect_timeout: Duration,
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions").field("program", &self.program).finish_non_exhaustive()
    }
}

impl ClientOptions {
    /// Options with a way to connect and a schema; no token, no request, a timeout of 30 s.
    pub fn new(schema: u64, dial: impl Fn() -> Result<Link> + Send + Sync + 'static) -> Self {
        Self {
            dial: Box::new(dial),
            dial_moved: None,
            schema,
            token: None,
            program: format!("process {}", std::process::id()),
            request: Vec::new(),
            reconnect_timeout: Duration::from_secs(30),
        }
    }

    fn connect(
        &self,
        session: Option<[u8; 16]>,
        received: Progress,
        place: &SessionLocation,
    ) -> Result<(Link, Decoder, Welcome)> {
        let (program, request) = (self.program.clone(), self.request.clone());
        let hello = Hello { program, request, session, received, proof: None, tenant: None };
        let link = match (&place.server, &self.dial_moved) {
            (Some(address), Some(dial)) => dial(address)?,
            _ => (self.dial)()?,
        };
        let key = place.moved.as_ref().map(|moved| Token::new(moved.key.bytes()));
        let token = key.as_ref().or(self.token.as_ref());
        let (mut link, mut decoder) = (link, Decoder::default());
        let welcome = greet(&mut link, &mut decoder, self.schema, token, hello)?;
        Ok((link, decoder, welcome))
    }

    /// Begins a session. A server that is busy may need long before a connection breaks, but one
    /// that says nothing isn't asked twice.
    fn begin(&self) -> Result<(Link, Decoder, Welcome)> {
        let (begin, mut pause) = (Instant::now(), Duration::from_millis(1));
        let mut first_break: Option<Instant> = None;
        loop {
            let error = match self.connect(None, Progress::default(), &SessionLocation::default()) {
                Err(error @ Error::Broken(_)) => error,
                result => return result,
            };
            let since = first_break.get_or_insert_with(Instant::now).elapsed();
            if since >= BEGIN_TIMEOUT || begin.elapsed() >= HANDSHAKE_TIMEOUT {
                return Err(error);
            }
            thread::sleep(pause);
            pause *= 2;
        }
    }

    /// Connects, again and again while the connection breaks, until its timeout. A server that is
    /// gone is not waited for as long: no other process has the session, unless a file has it.
    fn connect_again(
        &self,
        session: Option<[u8; 16]>,
        received: Progress,
        place: &Mutex<SessionLocation>,
        is_over: impl Fn() -> bool,
    ) -> Result<(Link, Decoder, Welcome)> {
        let (begin, mut pause) = (Instant::now(), Duration::from_millis(1));
        let mut moves = 0;
        loop {
            let to = lock(place).clone();
            let is_stored = to.moved.as_ref().is_some_and(|moved| moved.address.is_empty());
            let (error, timeout) = match self.connect(session, received, &to) {
                Err(Error::Moved(to)) if self.dial_moved.is_some() && moves < MAX_MOVES => {
                    let error = Error::Moved(to.clone());
                    let has_server = !to.address.is_empty();
                    lock(place).go(to);
                    if has_server {
                        moves += 1;
                        continue;
                    }
                    (error, self.reconnect_timeout)
                }
                // No server has it yet, or one that was started anew.
                Err(error @ (Error::Absent(_) | Error::Refused(_))) if is_stored => {
                    (error, self.reconnect_timeout)
                }
                Err(error @ Error::Absent(_)) => (error, ABSENT_TIMEOUT),
                Err(error @ Error::Broken(_)) => (error, self.reconnect_timeout),
                result => return result,
            };
            if begin.elapsed() >= timeout.min(self.reconnect_timeout) || is_over() {
                return Err(error);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(250));
        }
    }
}

/// Place of a session that has moved.
#[derive(Debug, Clone, Default)]
struct SessionLocation {
    /// The last move.
    moved: Option<Moved>,
    /// Address of the last server that had the session: it is tried while none has it.
    server: Option<String>,
}

impl SessionLocation {
    fn go(&mut self, to: Moved) {
        if !to.address.is_empty() {
            self.server = Some(to.address.clone());
        }
        self.moved = Some(to);
    }
}

/// The client's end of a session. Dropping it ends the session.
#[derive(Debug)]
pub struct Client {
    endpoint: Arc<Endpoint>,
    facts: Vec<u8>,
    threads: Vec<JoinHandle<()>>,
}

impl Client {
    /// Begins a session. Fails at once if there is no server. If the connection breaks before there
    /// is a session, tries again for 1 s from then on.
    ///
    /// # Errors
    ///
    /// `Broken` without a connection; `Refused` with the server's reason, or for another version or
    /// schema.
    pub fn open(options: ClientOptions, handler: Box<dyn Handler>) -> Result<Self> {
        let (link, decoder, welcome) = options.begin()?;
        let (session, facts) = (welcome.session, welcome.facts);
        let place = Mutex::new(SessionLocation::default());
        let reconnect = move |endpoint: &Endpoint, inbox: &mut Inbox| {
            let received = inbox.received();
            let is_over = || endpoint.ended().is_some();
            let (link, decoder, welcome) =
                options.connect_again(Some(session), received, &place, is_over)?;
            endpoint.connect(inbox, link, decoder, welcome.received, received)
        };
        let side = Side::Client(Box::new(reconnect));
        let endpoint = Arc::new(Endpoint::new(welcome.limits, side, handler));
        endpoint.begin();
        endpoint.connect(
            &mut lock(endpoint.inbox()),
            link,
            decoder,
            welcome.received,
            Progress::default(),
        )?;
        let mut client = Self { endpoint, facts, threads: Vec::new() };
        client.start("reef-wire-out", Endpoint::run_writer)?;
        client.start("reef-wire-in", |endpoint| {
            endpoint.run_reader(|| thread::sleep(CALLS_INTERVAL));
            endpoint.close();
        })?;
        Ok(client)
    }

    fn start(&mut self, name: &str, body: fn(&Endpoint)) -> Result<()> {
        let endpoint = self.endpoint.clone();
        let thread = thread::Builder::new().name(name.into()).spawn(move || body(&endpoint));
        let thread = thread.map_err(|e| Error::Invalid(format!("no thread {name}: {e}")))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Returns what the server said in answer to the request.
    pub fn facts(&self) -> &[u8] {
        &self.facts
    }

    /// Returns a handle of the end. It doesn't keep the session.
    pub fn endpoint(&self) -> Arc<Endpoint> {
        self.endpoint.clone()
    }
}

impl Deref for Client {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.endpoint.end(Error::Ended("the client has left".into()));
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // its panic was reported
        }
    }
}
