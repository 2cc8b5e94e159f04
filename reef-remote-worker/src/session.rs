//! The session of this process.

use crate::driver::Driver;
use crate::executor::Executor;
use crate::state::queue::Queue;
use crate::state::shared::Shared;
use crate::state::window::Window;
use reef_remote::server::Security;
use reef_remote_calls::{HostReturned, Request, SCHEMA};
use reef_wire::{
    Authority, Endpoint, Error, Handler, Hello, Hot, Link, Message, Result, Server, ServerOptions,
    codec,
};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Time for which a session without connection is kept: its process ends with its connection.
const RECONNECT_TIMEOUT: Duration = Duration::ZERO;

/// Serves the program at the other end of a socket, until it leaves.
///
/// # Errors
///
/// Why the session has ended, or that there was none.
pub(crate) fn serve_connection(
    socket: OwnedFd,
    is_tcp: bool,
    security: &Security,
    driver: Option<PathBuf>,
) -> Result<()> {
    let invalid = |e: reef_core::Error| Error::Invalid(e.to_string());
    let broken = |e: std::io::Error| Error::Broken(e.to_string());
    let tls = security.tls().map_err(invalid)?;
    let link = match (is_tcp, tls) {
        (false, _) => Link::unix(UnixStream::from(socket)).map_err(broken)?,
        (true, None) => Link::tcp(TcpStream::from(socket)).map_err(broken)?,
        (true, Some(tls)) => tls.accept(TcpStream::from(socket))?,
    };
    let mut options = ServerOptions::new(SCHEMA);
    options.tokens = if is_tcp { security.tokens().map_err(invalid)? } else { Vec::new() };
    options.max_sessions = 1;
    options.reconnect_timeout = RECONNECT_TIMEOUT;
    Server::new(options, Admission { driver }).serve(link)
}

struct Admission {
    driver: Option<PathBuf>,
}

impl Authority for Admission {
    fn admit(&self, hello: &Hello, _: &Server) -> Result<(Box<dyn Handler>, Vec<u8>), String> {
        let driver = Driver::open(self.driver.as_deref())?;
        let request: Request = match &*hello.request {
            [] => Request::default(),
            bytes => codec::read(bytes).map_err(|e| e.to_string())?,
        };
        let window = Window::reserve(&driver, &request.windows);
        let mut facts = driver.facts()?;
        facts.window = window.as_ref().map(Window::base);
        let facts = codec::write(&facts).map_err(|e| e.to_string())?;
        let (shared, queue) = (Arc::new(Shared::new(driver, window)), Arc::new(Queue::default()));
        Ok((Box::new(Reader { shared, queue }), facts))
    }
}

/// Receiver of the program's messages.
struct Reader {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
}

impl Handler for Reader {
    fn begun(&mut self, endpoint: &Arc<Endpoint>) {
        self.shared.host_calls.begin(endpoint.clone());
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
