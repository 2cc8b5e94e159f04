//! The server's end: sessions of many clients, each continued by whichever connection names it.

use super::acceptor::{Acceptor, NO_SESSION, redirect, refuse};
use super::endpoint::{Endpoint, Handler, Side};
use super::handshake::{Hello, OP_WELCOME, Token, Welcome, say};
use super::inbox::Inbox;
use crate::codec;
use crate::credit::Limits;
use crate::error::{Error, Result};
use crate::exchange::sync::lock;
use crate::frame::Decoder;
use crate::journal::Progress;
use crate::moved::{Key, Moved};
use crate::transport::link::Link;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two polls of a session without connection whether it has been ended.
const END_INTERVAL: Duration = Duration::from_millis(100);

/// Time between two attempts to take the inbox from a thread that reads.
const CUT_INTERVAL: Duration = Duration::from_micros(100);

/// Time for which clients are told where a session has gone.
const MOVED_TIMEOUT: Duration = Duration::from_secs(600);

/// Bounds of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    /// Hash of the messages' declarations.
    pub schema: u64,
    /// Secrets, one of which a client must have; empty: none is needed.
    pub tokens: Vec<Token>,
    /// Upper bounds of unacknowledged frames of a client.
    pub limits: Limits,
    /// Bytes that a client may leave unread before its session ends.
    pub max_unread: u64,
    /// Sessions at a time.
    pub max_sessions: usize,
    /// Time for which a session without connection is kept.
    pub reconnect_timeout: Duration,
    /// Time for which it is kept if the client's system closed the connection, as it does when the
    /// client's process has ended.
    pub closed_timeout: Duration,
    /// Time for which a session that has moved waits for its client, to tell it.
    pub redirect_timeout: Duration,
}

impl ServerOptions {
    /// Options with a schema: no tokens, the default limits, 256 MiB unread, 1,000 sessions, and
    /// timeouts of 30 s, 3 s and 2 s.
    pub fn new(schema: u64) -> Self {
        Self {
            schema,
            tokens: Vec::new(),
            limits: Limits::default(),
            max_unread: 256 << 20,
            max_sessions: 1000,
            reconnect_timeout: Duration::from_secs(30),
            closed_timeout: Duration::from_secs(3),
            redirect_timeout: Duration::from_secs(2),
        }
    }
}

/// Decides about new sessions.
pub trait Authority: Send + Sync {
    /// Returns what handles the client's messages, and the answer to its request. Called before the
    /// client is answered; messages come after that.
    ///
    /// # Errors
    ///
    /// The reason, which the client is told.
    fn admit(
        &self,
        hello: &Hello,
        sessions: &Server,
    ) -> Result<(Box<dyn Handler>, Vec<u8>), String>;
}

/// Sessions of a server. Cloning is cheap, and each clone has the same sessions.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

struct Shared {
    options: ServerOptions,
    authority: Box<dyn Authority>,
    sessions: Mutex<HashMap<[u8; 16], Arc<Session>>>,
    /// Places of sessions that this server had, and since when.
    moved: Mutex<HashMap<[u8; 16], (Moved, Instant)>>,
    acceptor: Acceptor,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("sessions", &self.len()).finish_non_exhaustive()
    }
}

/// Right of a session to a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hold {
    Free,
    /// Clients that come wait.
    Held,
    /// It is at another server.
    Moved(Moved),
}

pub(super) struct Session {
    hold: Mutex<Hold>,
    pub(super) endpoint: Arc<Endpoint>,
    /// Owner of the token with which it began.
    tenant: Option<String>,
    /// Secret by which its client is known, if another server had it.
    key: Option<Key>,
    /// Number of connections that it has had; changes under the lock of the inbox.
    connections: Mutex<u64>,
    /// Number of connections that have come for it, with those that wait.
    arrivals: AtomicU64,
    /// True once its client knows where it has moved to; changes under the lock of `connections`.
    is_told: AtomicBool,
    changed: Condvar,
}

impl Server {
    /// A server without sessions.
    pub fn new(options: ServerOptions, authority: impl Authority + 'static) -> Self {
        let acceptor = Acceptor::new(options.schema, options.tokens.clone());
        let authority = Box::new(authority);
        let (sessions, moved) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Shared { options, authority, sessions, moved, acceptor }))
    }

    /// Number of sessions, with or without a connection.
    pub fn len(&self) -> usize {
        lock(&self.0.sessions).len()
    }

    /// True if there is no session.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Serves one connection, on the caller's thread: until its session is over if it begins one,
    /// or until it has been handed to the session that it continues.
    ///
    /// # Errors
    ///
    /// Why there is no session: the client was refused, or said nothing that makes sense; or why
    /// the session has ended.
    pub fn serve(&self, mut link: Link) -> Result<()> {
        let hello = self.greet(&mut link)?;
        let name = self.name()?;
        self.serve_greeted(link, &hello, name)
    }

    /// The first step of [`serve`](Self::serve): [`Acceptor::greet_moved`], with the keys of
    /// sessions that other servers had.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Acceptor::greet_moved`].
    pub fn greet(&self, link: &mut Link) -> Result<Hello> {
        self.0.acceptor.greet_moved(link, |name| {
            let session = self.session(name)?;
            Some((session.key.clone()?, session.tenant.clone()))
        })
    }

    /// Makes up the name of a session: [`Acceptor::name`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Acceptor::name`].
    pub fn name(&self) -> Result<[u8; 16]> {
        self.0.acceptor.name()
    }

    /// As [`serve`](Self::serve), for a client that a [`Acceptor`] has greeted, perhaps in another
    /// process. A new session gets this name.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`serve`](Self::serve).
    pub fn serve_greeted(&self, link: Link, hello: &Hello, name: [u8; 16]) -> Result<()> {
        match hello.session {
            Some(session) => self.resume(link, hello, session),
            None => self.begin(link, hello, name),
        }
    }

    fn begin(&self, mut link: Link, hello: &Hello, name: [u8; 16]) -> Result<()> {
        let options = &self.0.options;
        if self.len() >= options.max_sessions {
            let text = too_many(self.len());
            refuse(&mut link, &text);
            return Err(Error::Refused(text));
        }
        let (handler, facts) = match self.0.authority.admit(hello, self) {
            Ok(admitted) => admitted,
            Err(text) => {
                refuse(&mut link, &text);
                return Err(Error::Refused(text));
            }
        };
        let side = Side::Server { max_unread: options.max_unread };
        let endpoint = Arc::new(Endpoint::new(options.limits, side, handler));
        endpoint.begin();
        let session = Arc::new(Session::new(endpoint, hello.tenant.clone(), None, 1));
        let none = Progress::default();
        let welcome = Welcome { session: name, received: none, limits: options.limits, facts };
        let welcome = codec::write(&welcome)?;
        if let Err(text) = self.insert(name, &session) {
            refuse(&mut link, &text);
            return Err(Error::Refused(text));
        }
        if say(&mut link, OP_WELCOME, &[&welcome]).is_ok() {
            let endpoint = &session.endpoint;
            let mut inbox = lock(endpoint.inbox());
            if *lock(&session.hold) == Hold::Free {
                endpoint.connect(&mut inbox, link, Decoder::default(), none, none)?;
            } else {
                drop(link); // its client comes again
            }
        }
        Err(self.serve_session(&session, name))
    }

    /// Serves a session until it is over, and returns why.
    pub(super) fn serve_session(&self, session: &Arc<Session>, name: [u8; 16]) -> Error {
        let end = self.run(session);
        self.forget(name, session);
        session.endpoint.end(end.clone());
        session.endpoint.close();
        end
    }

    /// Forgets a session. Another one may have come back under its name.
    pub(super) fn forget(&self, name: [u8; 16], session: &Arc<Session>) {
        let mut sessions = lock(&self.0.sessions);
        if sessions.get(&name).is_some_and(|known| Arc::ptr_eq(known, session)) {
            sessions.remove(&name);
        }
    }

    pub(super) fn options(&self) -> &ServerOptions {
        &self.0.options
    }

    pub(super) fn session(&self, name: [u8; 16]) -> Option<Arc<Session>> {
        lock(&self.0.sessions).get(&name).cloned()
    }

    /// Returns the session of this end, and its name.
    pub(super) fn session_of(&self, endpoint: &Endpoint) -> Option<([u8; 16], Arc<Session>)> {
        let sessions = lock(&self.0.sessions);
        let is_it = |(_, session): &(&[u8; 16], &Arc<Session>)| {
            std::ptr::eq(Arc::as_ptr(&session.endpoint), endpoint)
        };
        sessions.iter().find(is_it).map(|(name, session)| (*name, session.clone()))
    }

    /// Notes where a session has gone.
    pub(super) fn note_moved(&self, name: [u8; 16], moved: Moved) {
        let mut all = lock(&self.0.moved);
        all.retain(|_, (_, since)| since.elapsed() < MOVED_TIMEOUT);
        all.insert(name, (moved, Instant::now()));
    }

    /// Records a session that another server had, and forgets that it was there.
    pub(super) fn insert_adopted(
        &self,
        name: [u8; 16],
        session: &Arc<Session>,
    ) -> Result<(), String> {
        let is_here = |known: Arc<Session>| !known.has_moved() && known.endpoint.ended().is_none();
        if self.session(name).is_some_and(is_here) {
            return Err("the session is at this server already".into());
        }
        self.insert(name, session)?;
        lock(&self.0.moved).remove(&name);
        Ok(())
    }

    /// Records a session, unless others took the last place meanwhile.
    pub(super) fn insert(&self, name: [u8; 16], session: &Arc<Session>) -> Result<(), String> {
        let mut sessions = lock(&self.0.sessions);
        if sessions.len() >= self.0.options.max_sessions {
            return Err(too_many(sessions.len()));
        }
        sessions.insert(name, session.clone());
        Ok(())
    }

    /// Runs a session over all of its connections, and returns why it is over.
    fn run(&self, session: &Arc<Session>) -> Error {
        let endpoint = session.endpoint.clone();
        let writer = thread::Builder::new().name("reef-wire-out".into());
        let writer = match writer.spawn(move || endpoint.run_writer()) {
            Ok(writer) => writer,
            Err(error) => return Error::Ended(format!("no thread: {error}")),
        };
        let mut seen = *lock(&session.connections);
        let end = loop {
            let broken = match session.endpoint.serve() {
                Error::Broken(why) => why,
                end => break end,
            };
            let options = &self.0.options;
            let timeout = if session.endpoint.is_closed_by_peer() {
                options.closed_timeout.min(options.reconnect_timeout)
            } else {
                options.reconnect_timeout
            };
            session.disconnect(seen);
            match session.await_connection(seen, timeout) {
                Some(number) => seen = number,
                None => break Error::Ended(format!("{broken}; the client did not come back")),
            }
        };
        session.endpoint.end(end.clone());
        let _ = writer.join(); // its panic was reported
        end
    }

    /// Gives a connection to the session that it names. Its client has shown its token and knows
    /// the session's name, so it may disturb the connection before.
    fn resume(&self, mut link: Link, hello: &Hello, name: [u8; 16]) -> Result<()> {
        let found = lock(&self.0.sessions).get(&name).cloned();
        let Some(session) = found.filter(|session| session.tenant == hello.tenant) else {
            let moved = lock(&self.0.moved).get(&name).map(|(moved, _)| moved.clone());
            if let Some(moved) = moved {
                redirect(&mut link, &moved);
                return Err(Error::Moved(moved));
            }
            refuse(&mut link, NO_SESSION);
            return Err(Error::Refused(NO_SESSION.into()));
        };
        let endpoint = &session.endpoint;
        let arrival = session.arrive();
        let mut inbox = loop {
            if let Some(moved) = session.await_release(arrival)? {
                // It says nothing before the answer: it may be gone, and come again.
                let is_gone = link.receive.wait(Some(Duration::ZERO)).unwrap_or(true);
                if redirect(&mut link, &moved) && !is_gone {
                    session.note_told();
                }
                return Err(Error::Moved(moved));
            }
            // This end may believe in the connection before.
            let is_newest = || session.check_newest(arrival).is_ok();
            let Some(inbox) = session.disconnect_while(is_newest) else {
                return session.check_newest(arrival);
            };
            if *lock(&session.hold) == Hold::Free {
                break inbox; // a hold that begins now waits for the inbox
            }
        };
        // A late hello, on a connection that its client has abandoned, says less than the client
        // has acknowledged since. It is refused, and the session goes on.
        if let Err(error) = endpoint.check_received(hello.received) {
            drop(inbox);
            refuse(&mut link, &error.to_string());
            return Err(error);
        }
        let (told, limits) = (inbox.received(), self.0.options.limits);
        let welcome = Welcome { session: name, received: told, limits, facts: Vec::new() };
        say(&mut link, OP_WELCOME, &[&codec::write(&welcome)?])?;
        let connected =
            endpoint.connect(&mut inbox, link, Decoder::default(), hello.received, told);
        if let Err(error) = connected {
            drop(inbox);
            endpoint.end(error.clone());
            return Err(error);
        }
        *lock(&session.connections) += 1;
        drop(inbox);
        session.changed.notify_all();
        Ok(())
    }
}

impl Session {
    pub(super) fn new(
        endpoint: Arc<Endpoint>,
        tenant: Option<String>,
        key: Option<Key>,
        connections: u64,
    ) -> Self {
        let (hold, connections) = (Mutex::new(Hold::Free), Mutex::new(connections));
        let (arrivals, is_told) = (AtomicU64::new(0), AtomicBool::new(false));
        let changed = Condvar::new();
        Self { hold, endpoint, tenant, key, connections, arrivals, is_told, changed }
    }

    /// Notes that a connection has come, and returns its number. Those that still wait end: a
    /// client has one at a time.
    fn arrive(&self) -> u64 {
        let number = self.arrivals.fetch_add(1, Ordering::Relaxed) + 1;
        self.wake();
        number
    }

    /// Refuses a connection after which another one has come.
    fn check_newest(&self, arrival: u64) -> Result<()> {
        if self.arrivals.load(Ordering::Relaxed) == arrival {
            return Ok(());
        }
        Err(Error::Broken("another connection has come for the session".into()))
    }

    /// Returns false if it is held already.
    pub(super) fn begin_hold(&self) -> bool {
        let mut hold = lock(&self.hold);
        let is_free = *hold == Hold::Free;
        if is_free {
            *hold = Hold::Held;
        }
        is_free
    }

    /// Sends clients to another server, and waits until one was told.
    pub(super) fn redirect(&self, moved: &Moved, timeout: Duration) -> bool {
        *lock(&self.hold) = Hold::Moved(moved.clone());
        self.wake();
        let is_untold = |_: &mut u64| !self.is_told.load(Ordering::Relaxed);
        let waited = self.changed.wait_timeout_while(lock(&self.connections), timeout, is_untold);
        drop(waited);
        self.is_told.load(Ordering::Relaxed)
    }

    fn note_told(&self) {
        let _connections = lock(&self.connections);
        self.is_told.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Ends a hold, or the session if it has moved.
    pub(super) fn release(&self) {
        let mut hold = lock(&self.hold);
        match &*hold {
            Hold::Moved(moved) => self.endpoint.end(Error::ended_by(moved)),
            _ => *hold = Hold::Free,
        }
        drop(hold);
        self.wake();
    }

    /// True if it is at another server, and has not ended here yet.
    fn has_moved(&self) -> bool {
        matches!(*lock(&self.hold), Hold::Moved(_))
    }

    pub(super) fn wake(&self) {
        let _connections = lock(&self.connections);
        self.changed.notify_all();
    }

    /// Waits while it is held. Returns where it is if that is another server.
    ///
    /// # Errors
    ///
    /// Errors of [`check_newest`](Self::check_newest).
    fn await_release(&self, arrival: u64) -> Result<Option<Moved>> {
        let mut connections = lock(&self.connections);
        loop {
            self.check_newest(arrival)?;
            match &*lock(&self.hold) {
                Hold::Free => return Ok(None),
                Hold::Moved(moved) => return Ok(Some(moved.clone())),
                Hold::Held => {}
            }
            let waited = self.changed.wait(connections);
            connections = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Takes the connection away, and the inbox from the thread that reads from it, which may take
    /// long. A client that comes meanwhile loses its connection, too. `None`: `goes_on` has become
    /// false.
    pub(super) fn disconnect_while(
        &self,
        goes_on: impl Fn() -> bool,
    ) -> Option<MutexGuard<'_, Inbox>> {
        let mut inbox = loop {
            if !goes_on() {
                return None;
            }
            self.endpoint.cut();
            match self.endpoint.inbox().try_lock() {
                Ok(inbox) => break inbox,
                Err(TryLockError::Poisoned(inbox)) => break inbox.into_inner(),
                Err(TryLockError::WouldBlock) => thread::sleep(CUT_INTERVAL),
            }
        };
        self.endpoint.disconnect(&mut inbox);
        Some(inbox)
    }

    /// Drops the connection that broke, unless there is another one already.
    fn disconnect(&self, seen: u64) {
        let mut inbox = lock(self.endpoint.inbox());
        if *lock(&self.connections) == seen {
            self.endpoint.disconnect(&mut inbox);
        }
    }

    /// Waits for the next connection, and returns its number.
    fn await_connection(&self, seen: u64, reconnect_timeout: Duration) -> Option<u64> {
        let mut end = Instant::now() + reconnect_timeout;
        let mut connections = lock(&self.connections);
        while *connections == seen {
            let is_held = *lock(&self.hold) != Hold::Free; // its holder ends it if it has moved
            if is_held {
                end = Instant::now() + reconnect_timeout;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() && !is_held || self.endpoint.ended().is_some() {
                return None;
            }
            let left = left.max(Duration::from_millis(10)).min(END_INTERVAL);
            let waited = self.changed.wait_timeout(connections, left);
            connections = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        Some(*connections)
    }
}

fn too_many(sessions: usize) -> String {
    format!("the server has {sessions} sessions, at most that many")
}
