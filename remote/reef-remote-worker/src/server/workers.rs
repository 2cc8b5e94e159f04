//! Connections, and the sessions that they belong to.

use super::options::WorkerOptions;
use super::worker::{Greeted, Identity, Notice, Worker};
use crate::cage::users::Users;
use crate::state::lock::lock;
use reef_core::{Error, Result};
use reef_remote::observe::{Facts, Kind, Refusal};
use reef_remote::server::{Listener, LobbySlot};
use reef_remote_calls::{Class, Request, SCHEMA};
use reef_wire::{
    Acceptor, Address, Hello, Key, Link, Moved, NO_SESSION, TlsServer, codec, redirect, refuse,
};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Variable with the class of a guest.
const CLASS: &str = "REEF_CLASS";

/// Time after which a server tries to accept again where the system could not.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Time for which clients are told where a session has gone.
const MOVED_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum number of such sessions of one tenant, as many as it may have here: a worker in its
/// client's hand chooses their addresses, of up to 16 KiB.
const MAX_MOVED: usize = 1000;
/// Time for which clients are told why a session was ended: longer than they try to connect.
const ENDED_TIMEOUT: Duration = Duration::from_secs(60);

/// Listening socket, and the worker of each session.
#[derive(Debug)]
pub struct Workers {
    listener: Listener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: WorkerOptions,
    tls: Option<TlsServer>,
    /// Users of the workers, if these have users of their own.
    users: Option<Arc<Users>>,
    /// Clients by TCP must have one.
    has_tokens: bool,
    /// For connections by TCP, and for those by a UNIX socket: that belongs to one user.
    acceptors: [Acceptor; 2],
    /// Workers by the names of their sessions.
    workers: Mutex<HashMap<[u8; 16], Arc<Worker>>>,
    /// Keys of sessions that other servers had.
    keys: Mutex<HashMap<[u8; 16], Key>>,
    /// Sessions that this server had.
    moved: Mutex<HashMap<[u8; 16], MovedSession>>,
    /// Reasons for which the operator has ended sessions, and since when. A client whose connection
    /// broke before it was told asks again.
    ended: Mutex<HashMap<[u8; 16], (String, Instant)>>,
}

/// Session that is at another server.
#[derive(Debug)]
struct MovedSession {
    to: Moved,
    tenant: Option<String>,
    since: Instant,
}

impl Workers {
    /// Listens on an address. One that other machines can reach must have a token and TLS.
    ///
    /// # Errors
    ///
    /// `Invalid` if they are missing or the worker's program is, or for shared memory; `Host` with
    /// the system's reason.
    pub fn bind(address: &Address, options: WorkerOptions) -> Result<Self> {
        if !options.program.is_file() {
            let argument = format!("worker {}", options.program.display());
            return Err(Error::invalid(argument, "no such file"));
        }
        if matches!(address, Address::Shared(_)) {
            return Err(Error::invalid(
                "programs",
                "must be HOST:PORT or unix:PATH, got shared memory",
            ));
        }
        let listener = Listener::bind(address, &options.security)?;
        let (tls, tokens) = (options.security.tls()?, options.security.tokens()?);
        let has_tokens = !tokens.is_empty();
        let acceptors = [Acceptor::new(SCHEMA, tokens), Acceptor::new(SCHEMA, Vec::new())];
        let (workers, keys) = (Mutex::default(), Mutex::default());
        let (moved, ended) = (Mutex::default(), Mutex::default());
        let has_compute = options.security.tenants.have_compute();
        let users =
            options.users.clone().map(|range| Users::new(range, has_compute)).transpose()?;
        let shared =
            Shared { options, tls, users, has_tokens, acceptors, workers, keys, moved, ended };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Returns the address that programs connect to.
    pub fn address(&self) -> String {
        self.listener.address()
    }

    /// Accepts connections for ever, each on a thread of its own. A session lasts for 30 s without
    /// a connection; its worker ends with it, or with this process.
    pub fn run(&self) {
        loop {
            let Ok((socket, is_tcp, place)) = self.listener.accept() else {
                thread::sleep(ACCEPT_RETRY_INTERVAL); // too many files are open
                continue;
            };
            let shared = self.shared.clone();
            let answer = move || {
                if let (Err(error), Some(_)) =
                    (shared.answer(socket, is_tcp, place), std::env::var_os("REEF_LOG"))
                {
                    eprintln!("reef: {error}");
                }
            };
            // Without a thread the connection is closed, and the client tries again.
            let _ = thread::Builder::new().name("reef-program".into()).spawn(answer);
        }
    }
}

impl Shared {
    /// Greets a client, and hands its connection to its worker. If its session is new, this thread
    /// stays with the worker.
    fn answer(&self, socket: OwnedFd, is_tcp: bool, place: LobbySlot) -> reef_wire::Result<()> {
        let broken = |e: io::Error| reef_wire::Error::Broken(e.to_string());
        let (mut link, socket) = match (&self.tls, is_tcp) {
            (Some(tls), true) => (self.counted(tls.accept(socket.into()))?, None),
            _ => {
                let own = socket.try_clone().map_err(broken)?;
                let link = if is_tcp { Link::tcp(own.into()) } else { Link::unix(own.into()) };
                (link.map_err(broken)?, Some(socket))
            }
        };
        let acceptor = &self.acceptors[usize::from(!is_tcp)];
        let hello = self.counted(acceptor.greet_moved(&mut link, |name| {
            let key = lock(&self.keys).get(&name).cloned()?;
            let worker = lock(&self.workers).get(&name).cloned()?;
            Some((key, worker.tenant.clone()))
        }))?;
        drop(place);
        let greeted = |link: Link| match socket {
            Some(socket) => Greeted::Plain { socket, is_tcp, peer: link.peer },
            None => Greeted::Tls(link),
        };
        match hello.session() {
            Some(name) => {
                let moved = lock(&self.moved).get(&name).map(|moved| moved.to.clone());
                if let Some(moved) = moved {
                    redirect(&mut link, &moved);
                    return Err(reef_wire::Error::Moved(moved));
                }
                let found = lock(&self.workers).get(&name).cloned();
                match found.filter(|worker| worker.tenant.as_deref() == hello.tenant()) {
                    Some(worker) if worker.ended().is_none() => {
                        worker.hand(greeted(link), hello, name).map_err(broken)
                    }
                    found => {
                        let known = lock(&self.ended).get(&name).map(|(why, _)| why.clone());
                        let why = found.and_then(|worker| worker.ended().map(Into::into));
                        let why = why.or(known).unwrap_or_else(|| NO_SESSION.into());
                        Err(self.refused(&mut link, Refusal::Session, why))
                    }
                }
            }
            None => {
                let name = acceptor.name()?;
                // A UNIX socket belongs to one user.
                match self.start(name, &hello, self.has_tokens || !is_tcp) {
                    Ok((worker, child)) => {
                        let facts = Facts {
                            kind: Kind::Program,
                            tenant: hello.tenant().map(Into::into),
                            program: hello.program.clone(),
                            device: None,
                            pid: Some(worker.pid),
                            class: worker.class.clone(),
                        };
                        let _place = self.options.sessions.begin(facts, worker.clone());
                        self.stay(name, &worker, child, || worker.hand(greeted(link), hello, name));
                        Ok(())
                    }
                    Err((why, text)) => Err(self.refused(&mut link, why, text)),
                }
            }
        }
    }

    /// Starts the worker of a new session.
    fn start(
        &self,
        name: [u8; 16],
        hello: &Hello,
        is_known: bool,
    ) -> Result<(Arc<Worker>, Child), (Refusal, String)> {
        let mut workers = lock(&self.workers);
        let (has, max) = (workers.len(), self.options.max_sessions);
        let kept = self.options.security.tenants.kept_from(hello.tenant());
        if has + kept >= max {
            let kept = if kept > 0 { format!(", of which {kept} for others") } else { "".into() };
            let text = format!("the server has {has} sessions, at most {max}{kept}");
            return Err((Refusal::Full, text));
        }
        let variables = self.variables(hello)?;
        let program = self.options.program.display();
        let account = self.options.security.tenants.open(hello.tenant());
        let account = account.map_err(|text| (Refusal::Tenant, text))?;
        let user = match &self.users {
            Some(users) => {
                let text = || (Refusal::Full, "all users of workers have sessions".into());
                Some(users.take().ok_or_else(text)?)
            }
            None => None,
        };
        let is_trusted = is_known || self.options.allow_host_access;
        let of = Identity { tenant: hello.tenant(), is_trusted, user };
        let started = Worker::start(&self.options, account, of, variables);
        let (worker, child) = started.map_err(|e| (Refusal::Device, format!("{program}: {e}")))?;
        let worker = Arc::new(worker);
        workers.insert(name, worker.clone());
        Ok((worker, child))
    }

    /// Variables of the worker's environment: its class and its part of the time.
    ///
    /// All sessions of a tenant are one job of limits, so that they share its part. A program
    /// chooses among the classes of its tenant alone, by its request.
    fn variables(&self, hello: &Hello) -> Result<Vec<(&'static str, String)>, (Refusal, String)> {
        let request: Request = match &*hello.request {
            [] => Request::default(),
            bytes => {
                codec::read(bytes).map_err(|e| (Refusal::Protocol, format!("request: {e}")))?
            }
        };
        let (own, tenant) = (std::env::var(CLASS).ok(), hello.tenant());
        let grant = self.options.security.tenants.grant(tenant);
        let is_granted = match grant {
            Some(grant) => grant.may_be_real_time,
            None => own.as_deref() == Some(Class::RealTime.name()),
        };
        if request.class == Some(Class::RealTime) && !is_granted {
            let whose = tenant.map(|name| format!("tenant {name}: ")).unwrap_or_default();
            return Err((Refusal::Rights, format!("{whose}class: must be be, got rt")));
        }
        let mut variables = Vec::new();
        let default = grant.map(|_| Class::BestEffort);
        if let Some(class) = request.class.or(default) {
            variables.push((CLASS, class.name().to_owned()));
        }
        if let (Some(percent), Some(name)) = (grant.and_then(|of| of.compute_percent), tenant) {
            variables.push(("REEF_COMPUTE", format!("{percent}%")));
            variables.push(("REEF_COMPUTE_POLICY", "hard".into()));
            variables.push(("REEF_LIMIT_ID", format!("reef-remote {name}")));
        }
        Ok(variables)
    }

    /// Hands the first connection to a worker, and waits until it has ended.
    fn stay(
        &self,
        name: [u8; 16],
        worker: &Arc<Worker>,
        mut child: Child,
        hand: impl FnOnce() -> io::Result<()>,
    ) {
        if hand().is_err() {
            let _ = child.kill(); // it has ended
        }
        let mut names = vec![name];
        worker.listen(|notice| match notice {
            // A worker may be in its client's hand: it brings one session, and knows the name of no
            // other one.
            Notice::Adopted(..) if names.len() > 1 => false,
            Notice::Adopted(name, key) => {
                let is_adopted = self.adopt(name, key, worker);
                names.extend(is_adopted.then_some(name));
                is_adopted
            }
            Notice::Moved(name, place) => {
                if names.contains(&name) {
                    self.note_moved(name, place, worker);
                }
                true
            }
        });
        // A process that has closed its socket, or says nonsense, has no session any more.
        let _ = child.kill(); // it has ended
        let mut workers = lock(&self.workers);
        let is_its =
            |name: &[u8; 16]| workers.get(name).is_some_and(|known| Arc::ptr_eq(known, worker));
        names.retain(is_its);
        if let Some(why) = worker.ended() {
            let mut ended = lock(&self.ended);
            ended.retain(|_, (_, since)| since.elapsed() < ENDED_TIMEOUT);
            ended.extend(names.iter().map(|name| (*name, (why.to_owned(), Instant::now()))));
        }
        for name in names {
            workers.remove(&name);
            lock(&self.keys).remove(&name);
        }
        drop(workers);
        let _ = child.wait(); // it has reported its own errors
    }

    /// Notes that a worker has a session that came from another server. Returns `false` if the name
    /// is that of another tenant's session, which is here.
    fn adopt(&self, name: [u8; 16], key: Key, worker: &Arc<Worker>) -> bool {
        let mut workers = lock(&self.workers);
        let mut moved = lock(&self.moved);
        let is_others = workers.get(&name).is_some_and(|known| known.tenant != worker.tenant);
        // It may have been here before, and its first worker may not have ended yet.
        if moved.remove(&name).is_none() && is_others {
            return false;
        }
        lock(&self.keys).insert(name, key);
        workers.insert(name, worker.clone());
        true
    }

    /// Notes where a session of a worker is. If its tenant has too many, the oldest is forgotten.
    fn note_moved(&self, name: [u8; 16], place: Moved, worker: &Arc<Worker>) {
        // It may have come back meanwhile, to another worker.
        let workers = lock(&self.workers);
        if workers.get(&name).is_some_and(|known| !Arc::ptr_eq(known, worker)) {
            return;
        }
        let mut moved = lock(&self.moved);
        moved.retain(|_, session| session.since.elapsed() < MOVED_TIMEOUT);
        let tenant = worker.tenant.clone();
        moved.insert(name, MovedSession { to: place, tenant, since: Instant::now() });
        let is_own = |session: &MovedSession| session.tenant == worker.tenant;
        let count = moved.values().filter(|session| is_own(session)).count();
        let own = moved.iter().filter(|(_, session)| is_own(session));
        let oldest = own.min_by_key(|(_, session)| session.since).map(|(name, _)| *name);
        if let Some(oldest) = oldest.filter(|_| count > MAX_MOVED) {
            moved.remove(&oldest);
        }
    }

    /// Counts a client whose handshake was not finished.
    fn counted<T>(&self, shaken: reef_wire::Result<T>) -> reef_wire::Result<T> {
        shaken.inspect_err(|error| self.options.sessions.refuse(Refusal::of(error)))
    }

    /// Tells a client why it has no session.
    fn refused(&self, link: &mut Link, why: Refusal, text: String) -> reef_wire::Error {
        self.options.sessions.refuse(why);
        refuse(link, &text);
        reef_wire::Error::Refused(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker whose process has ended.
    fn worker(shared: &Shared, tenant: &str) -> Arc<Worker> {
        let account = shared.options.security.tenants.open(Some(tenant)).unwrap();
        let of = Identity { tenant: Some(tenant), is_trusted: false, user: None };
        let started = Worker::start(&shared.options, account, of, Vec::new());
        let (worker, mut child) = started.unwrap();
        child.wait().unwrap();
        Arc::new(worker)
    }

    #[test]
    fn worker_claims_no_session_of_another_tenant() {
        let address: Address = "127.0.0.1:0".parse().unwrap();
        let workers = Workers::bind(&address, WorkerOptions::new("/bin/true".into())).unwrap();
        let shared = &workers.shared;
        let [first, second, other] =
            ["alice", "alice", "mallory"].map(|tenant| worker(shared, tenant));
        let (name, key) = ([7; 16], Key::make().unwrap());
        let is_of = |worker: &Arc<Worker>| {
            lock(&shared.workers).get(&name).is_some_and(|known| Arc::ptr_eq(known, worker))
        };
        assert!(shared.adopt(name, key.clone(), &first) && is_of(&first));
        assert!(!shared.adopt(name, key.clone(), &other) && is_of(&first));
        assert!(shared.adopt(name, key.clone(), &second) && is_of(&second));
        // It has left, and comes back as another tenant's.
        let place = Moved { address: "unix:/other".into(), key: key.clone() };
        shared.note_moved(name, place, &second);
        assert!(shared.adopt(name, key, &other) && is_of(&other));
    }

    #[test]
    fn places_of_a_tenants_sessions_are_bounded() {
        let address: Address = "127.0.0.1:0".parse().unwrap();
        let workers = Workers::bind(&address, WorkerOptions::new("/bin/true".into())).unwrap();
        let shared = &workers.shared;
        let [alice, mallory] = ["alice", "mallory"].map(|tenant| worker(shared, tenant));
        let place = Moved { address: "unix:/other".into(), key: Key::make().unwrap() };
        shared.note_moved([255; 16], place.clone(), &alice);
        let name = |number: usize| (number as u128).to_le_bytes();
        for number in 0..=MAX_MOVED {
            shared.note_moved(name(number), place.clone(), &mallory);
        }
        let moved = lock(&shared.moved);
        assert_eq!(moved.len(), 1 + MAX_MOVED);
        assert!(moved.contains_key(&[255; 16]) && moved.contains_key(&name(MAX_MOVED)));
    }
}
