//! The session of this process.

use crate::control::{FromWorker, Status};
use crate::driver::Driver;
use crate::executor::Executor;
use crate::migration::commands;
use crate::migration::source::Migration;
use crate::migration::state::State;
use crate::migration::target::Incoming;
use crate::notices::Notices;
use crate::state::lock::lock;
use crate::state::queue::Queue;
use crate::state::quota::Quota;
use crate::state::shared::Shared;
use crate::state::window::Window;
use reef_remote::migration::Arrival;
use reef_remote_calls::{HostReturned, Request, SCHEMA};
use reef_wire::{
    Authority, Endpoint, Error, Handler, Hello, Hot, Key, Link, Message, Result, Server,
    ServerOptions, codec,
};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Text for a client without a token, where kernels read and write all memory of this process.
const REACHES_HOST: &str = "kernels of this device reach all memory of the server's process (pageable memory access), so the client must have a token";

/// The session of this process, and the connections that it has in turn.
#[derive(Debug)]
pub(crate) struct Sessions {
    server: Server,
    current: Arc<Current>,
}

/// State of the process's session.
#[derive(Debug)]
struct Current {
    name: OnceLock<[u8; 16]>,
    /// End and state of the session, once it has begun.
    parts: OnceLock<(Arc<Endpoint>, Arc<Shared>)>,
    adopted: Mutex<Option<JoinHandle<Error>>>,
    notices: Notices,
    has_own_user: bool,
}

impl Sessions {
    /// A process without a session.
    pub(crate) fn new(opened: Opened, quota: Option<Arc<Quota>>, notices: Notices) -> Self {
        let mut options = ServerOptions::new(SCHEMA);
        options.max_sessions = 2; // one, or that of another server and the one that it brings
        let (name, parts) = (OnceLock::new(), OnceLock::new());
        let Opened { driver, is_trusted, has_own_user, closed_timeout } = opened;
        options.closed_timeout = closed_timeout.unwrap_or(options.closed_timeout);
        let adopted = Mutex::default();
        let current = Arc::new(Current { name, parts, adopted, notices, has_own_user });
        let driver = Mutex::new(Some(driver));
        let admission = Admission { driver, is_trusted, quota, current: current.clone() };
        Self { server: Server::new(options, admission), current }
    }

    /// Serves a connection of a client that the server has greeted: until the session is over if
    /// it begins with it, or brings it.
    ///
    /// # Errors
    ///
    /// Why the session has ended, or that there was none.
    pub(crate) fn serve(&self, link: Link, hello: &Hello, name: [u8; 16]) -> Result<()> {
        if hello.session().is_none() {
            let _ = self.current.name.set(name); // it is the first one
        }
        let served = self.server.serve_greeted(link, hello, name);
        if hello.session().is_some() {
            return served; // a connection of the session, and not what has brought it
        }
        let adopted = lock(&self.current.adopted).take();
        match adopted {
            Some(adopted) => Err(adopted.join().unwrap_or_else(|_| Error::Ended("a panic".into()))),
            None => served,
        }
    }

    /// Returns what the session has done.
    pub(crate) fn status(&self) -> FromWorker {
        let status = self.current.parts.get().map(|(endpoint, shared)| Status {
            traffic: endpoint.traffic(),
            single_calls: shared.calls.single.load(Ordering::Relaxed),
            replayed_calls: shared.calls.replayed.load(Ordering::Relaxed),
            memory_bytes: shared.quota.as_ref().map_or(0, |quota| quota.memory()),
        });
        FromWorker::Status(status.unwrap_or_default())
    }

    /// Ends the session, if it has begun, and tells the client why.
    pub(crate) fn end(&self, why: String) {
        if let Some((endpoint, _)) = self.current.parts.get() {
            endpoint.end(Error::Ended(why));
        }
    }
}

/// Makes a link of a socket, with the end of the client: of TLS the socket is one to the server.
///
/// # Errors
///
/// Errors of the system.
pub(crate) fn link(socket: OwnedFd, is_tcp: bool, peer: String) -> Result<Link> {
    let link = if is_tcp { Link::tcp(socket.into()) } else { Link::unix(socket.into()) };
    Ok(Link { peer, ..link.map_err(|e| Error::Broken(e.to_string()))? })
}

/// The driver, or why there is none, and what the server says of the client.
pub(crate) struct Opened {
    pub(crate) driver: Result<Driver, String>,
    /// It may have a device whose kernels read and write all memory of this process.
    pub(crate) is_trusted: bool,
    /// The process has a user of its own, so that no command can reach it: its session stays.
    pub(crate) has_own_user: bool,
    /// Time for which the session is kept once its client's system has closed the connection.
    pub(crate) closed_timeout: Option<Duration>,
}

struct Admission {
    /// For the session that begins.
    driver: Mutex<Option<Result<Driver, String>>>,
    is_trusted: bool,
    quota: Option<Arc<Quota>>,
    current: Arc<Current>,
}

impl Authority for Admission {
    fn admit(
        &self,
        hello: &Hello,
        sessions: &Server,
    ) -> Result<(Box<dyn Handler>, Vec<u8>), String> {
        let driver = lock(&self.driver).take().ok_or("this process has had a session")??;
        if !self.is_trusted && driver.kernels_reach_the_host() {
            return Err(REACHES_HOST.into());
        }
        let request: Request = match &*hello.request {
            [] => Request::default(),
            bytes => codec::read(bytes).map_err(|e| e.to_string())?,
        };
        let window = Window::reserve(&driver, &request.windows, self.quota.as_ref());
        let mut facts = driver.facts()?;
        facts.window = window.as_ref().map(Window::base);
        let facts = codec::write(&facts).map_err(|e| e.to_string())?;
        let shared = Arc::new(Shared::new(driver, window, self.quota.clone()));
        let (current, server) = (self.current.clone(), sessions.clone());
        if request.is_migrated {
            let tenant = hello.tenant().map(str::to_owned);
            let begin = move |state: &State, shared, queue, executor| {
                adopt(&current, &server, tenant.as_deref(), state, (shared, queue, executor))
            };
            let arrival = Arrival::new(Incoming::new(shared, Box::new(begin)));
            return Ok((Box::new(arrival), facts));
        }
        let queue = Arc::new(Queue::default());
        let executor = Executor::new(shared.clone(), queue.clone());
        let name = self.current.name.get().copied().unwrap_or_default();
        let key = Key::make().ok_or("the system has no random numbers")?;
        let (program, executor) = (hello.program.clone(), Some(executor));
        let reader = Reader { shared, queue, current, server, name, program, key, executor };
        Ok((Box::new(reader), facts))
    }
}

/// Begins a session that another server has brought.
fn adopt(
    current: &Arc<Current>,
    server: &Server,
    tenant: Option<&str>,
    state: &State,
    made: (Arc<Shared>, Arc<Queue>, Executor),
) -> Result<(), String> {
    let (shared, queue, executor) = made;
    let (current, server, name) = (current.clone(), server.clone(), state.name);
    let key = state.key.clone().ok_or("the state has no key")?;
    let reader = Reader {
        shared,
        queue,
        current: current.clone(),
        server: server.clone(),
        name,
        program: state.program.clone(),
        key: key.clone(),
        executor: Some(executor),
    };
    let adopted = server.adopt(name, tenant, None, &state.end, Box::new(reader));
    let begun = adopted.map_err(|e| e.to_string()).and_then(|adopted| {
        let body = move || adopted.run();
        let thread = thread::Builder::new().name("reef-session".into()).spawn(body);
        *lock(&current.adopted) = Some(thread.map_err(|e| format!("no thread: {e}"))?);
        let is_known = current.notices.adopted(name, key);
        if is_known { Ok(()) } else { Err("the server takes no notice".to_owned()) }
    });
    if let (Err(why), Some((endpoint, _))) = (&begun, current.parts.get()) {
        endpoint.end(Error::Ended(why.clone())); // it runs on at the other server
    }
    begun
}

/// Receiver of the program's messages.
struct Reader {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    current: Arc<Current>,
    server: Server,
    name: [u8; 16],
    program: String,
    key: Key,
    /// Until the session begins.
    executor: Option<Executor>,
}

impl Reader {
    fn listen_for_commands(&self) {
        let migration = Migration {
            shared: self.shared.clone(),
            queue: self.queue.clone(),
            server: self.server.clone(),
            name: self.name,
            program: self.program.clone(),
            key: self.key.clone(),
            notices: self.current.notices.clone(),
        };
        if let (Err(error), Some(_)) = (commands::listen(migration), std::env::var_os("REEF_LOG")) {
            eprintln!("reef: worker: no commands: {error}");
        }
    }
}

impl Handler for Reader {
    fn begun(&mut self, endpoint: &Arc<Endpoint>) {
        self.shared.host_calls.begin(endpoint.clone());
        // There is one session.
        let _ = self.current.parts.set((endpoint.clone(), self.shared.clone()));
        if !self.current.has_own_user {
            self.listen_for_commands();
        }
        let Some(executor) = self.executor.take() else { return };
        let own = endpoint.clone();
        let body = move || own.end(executor.run());
        if let Err(error) = thread::Builder::new().name("reef-executor".into()).spawn(body) {
            endpoint.end(Error::Ended(format!("no thread: {error}")));
        }
    }

    fn handle(&mut self, message: &Message<'_>, _: &Endpoint) -> Result<()> {
        if message.op == HostReturned::OP {
            if message.wants_reply {
                return Err(Error::Protocol(format!("operation {}: has no reply", message.op)));
            }
            // Not by the executor, which may wait for this.
            self.shared.host_calls.returned(HostReturned::split(message.body)?.0.call.get());
            return Ok(());
        }
        self.queue.push(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// Moves of the session go by it.
    #[test]
    fn connection_by_the_server_has_the_end_of_its_client() {
        let (near, _far) = UnixStream::pair().unwrap();
        let peer = "192.0.2.1:5";
        assert_eq!(link(near.into(), false, peer.into()).unwrap().peer, peer);
    }
}
