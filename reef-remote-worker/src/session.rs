//! The session of this process.

use crate::driver::Driver;
use crate::executor::Executor;
use crate::state::queue::Queue;
use crate::state::quota::Quota;
use crate::state::shared::Shared;
use crate::state::window::Window;
use reef_remote_calls::{HostReturned, Request, SCHEMA};
use reef_wire::{
    Authority, Endpoint, Error, Handler, Hello, Hot, Link, Message, Result, Server, ServerOptions,
    Traffic, codec,
};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread;

/// The session of this process, and the connections that it has in turn.
#[derive(Debug)]
pub(crate) struct Sessions(Server, Arc<OnceLock<Arc<Endpoint>>>);

impl Sessions {
    /// A process without a session. The driver is opened when it begins.
    pub(crate) fn new(driver: Option<PathBuf>, quota: Option<Arc<Quota>>) -> Self {
        let mut options = ServerOptions::new(SCHEMA);
        options.max_sessions = 1;
        let endpoint = Arc::default();
        let admission = Admission { driver, quota, endpoint: Arc::clone(&endpoint) };
        Self(Server::new(options, admission), endpoint)
    }

    /// Serves a connection of a client that the server has greeted: until the session is over if
    /// it begins with it.
    ///
    /// # Errors
    ///
    /// Why the session has ended, or that there was none.
    pub(crate) fn serve(
        &self,
        socket: OwnedFd,
        is_tcp: bool,
        hello: &Hello,
        name: [u8; 16],
    ) -> Result<()> {
        let link = if is_tcp { Link::tcp(socket.into()) } else { Link::unix(socket.into()) };
        let link = link.map_err(|e| Error::Broken(e.to_string()))?;
        self.0.serve_greeted(link, hello, name)
    }

    /// Returns what has gone to and fro.
    pub(crate) fn traffic(&self) -> Traffic {
        self.1.get().map(|endpoint| endpoint.traffic()).unwrap_or_default()
    }
}

struct Admission {
    driver: Option<PathBuf>,
    quota: Option<Arc<Quota>>,
    endpoint: Arc<OnceLock<Arc<Endpoint>>>,
}

impl Authority for Admission {
    fn admit(&self, hello: &Hello, _: &Server) -> Result<(Box<dyn Handler>, Vec<u8>), String> {
        let driver = Driver::open(self.driver.as_deref())?;
        let request: Request = match &*hello.request {
            [] => Request::default(),
            bytes => codec::read(bytes).map_err(|e| e.to_string())?,
        };
        let window = Window::reserve(&driver, &request.windows, self.quota.as_ref());
        let mut facts = driver.facts()?;
        facts.window = window.as_ref().map(Window::base);
        let facts = codec::write(&facts).map_err(|e| e.to_string())?;
        let shared = Arc::new(Shared::new(driver, window, self.quota.clone()));
        let queue = Arc::new(Queue::default());
        let known = self.endpoint.clone();
        Ok((Box::new(Reader { shared, queue, known }), facts))
    }
}

/// Receiver of the program's messages.
struct Reader {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    /// Takes the end of the session.
    known: Arc<OnceLock<Arc<Endpoint>>>,
}

impl Handler for Reader {
    fn begun(&mut self, endpoint: &Arc<Endpoint>) {
        self.shared.host_calls.begin(endpoint.clone());
        let _ = self.known.set(endpoint.clone()); // there is one session
        let executor = Executor::new(self.shared.clone(), self.queue.clone());
        let endpoint = endpoint.clone();
        let body = move || endpoint.end(executor.run());
        if let Err(error) = thread::Builder::new().name("reef-executor".into()).spawn(body) {
            self.shared.host_calls.endpoint().end(Error::Ended(format!("no thread: {error}")));
        }
    }

    fn handle(&mut self, message: &Message<'_>, _: &Endpoint) -> Result<()> {
        if message.op == HostReturned::OP {
            // Not by the executor, which may wait for this.
            self.shared.host_calls.returned(HostReturned::split(message.body)?.0.call.get());
            return Ok(());
        }
        self.queue.push(message)
    }
}
