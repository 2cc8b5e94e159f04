//! Connections of a worker to another server, whose token and authorities it does not have.
//!
//! ```text
//! worker ──socket in a folder of the user's──▶ proxy: TLS, token ──▶ other server
//! ```
//!
//! *In*: another server. *Out*: a socket. *Invariant*: the secrets stay in this process. By them at
//! most one session begins there.

use super::bridge::{Bridge, bridge};
use crate::state::lock::lock;
use reef_files::SocketFile;
use reef_remote::migration::Target;
use reef_wire::{Error, Hello, Link, refuse, vouch};
use rustix::net::{Shutdown, shutdown};
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

/// Upper bound of connections that have not begun yet. A worker makes one or two.
const MAX_WAITING: usize = 16;

/// Proxy to another server, until it is dropped. Connections stay until an end closes them.
#[derive(Debug)]
pub(crate) struct Proxy {
    listener: Arc<UnixListener>,
    socket: SocketFile,
}

/// Session that a proxy's connections have.
#[derive(Debug, Default)]
struct Begun {
    is_begun: bool,
    name: Option<[u8; 16]>,
    /// Of its last connection.
    bridge: Weak<Bridge>,
}

impl Begun {
    /// Admits a new session once, and then connections of one session.
    fn admit(&mut self, session: Option<[u8; 16]>) -> bool {
        match session {
            None => !std::mem::replace(&mut self.is_begun, true),
            Some(name) => self.is_begun && *self.name.get_or_insert(name) == name,
        }
    }
}

impl Proxy {
    /// Listens at a path for connections that go to a server.
    ///
    /// # Errors
    ///
    /// An error of the system; `AlreadyExists` and `AddrInUse` if there is something.
    pub(crate) fn start(path: &Path, target: Target) -> io::Result<Self> {
        let (listener, socket) = reef_files::bind(path)?;
        let listener = Arc::new(listener);
        let (accepting, begun) = (listener.clone(), Arc::default());
        let target = Arc::new(target);
        let body = move || {
            // An error is the end: the socket is shut down.
            while let Ok((socket, _)) = accepting.accept() {
                // Each thread below has one more reference.
                if Arc::strong_count(&begun) > MAX_WAITING {
                    continue; // it is closed
                }
                let (target, begun) = (target.clone(), Arc::clone(&begun));
                let connect = move || {
                    let _ = pass_on(socket, &target, &begun); // the worker was told, or is gone
                };
                // Without a thread the connection is closed, and the worker tries again.
                let _ = thread::Builder::new().name("reef-proxy".into()).spawn(connect);
            }
        };
        thread::Builder::new().name("reef-proxy-in".into()).spawn(body)?;
        Ok(Self { listener, socket })
    }

    /// Returns the path of its socket.
    pub(crate) fn path(&self) -> &Path {
        self.socket.path()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = shutdown(&self.listener, Shutdown::Both); // its thread ends by it
    }
}

/// Connects a worker to the server. One that begins a session is told why it can't; another one
/// tries again by itself.
fn pass_on(socket: UnixStream, target: &Target, begun: &Mutex<Begun>) -> reef_wire::Result<()> {
    let broken = |e: io::Error| Error::Broken(e.to_string());
    let mut client = Link::unix(socket.try_clone().map_err(broken)?).map_err(broken)?;
    let admit = |hello: &Hello| {
        let is_admitted = lock(begun).admit(hello.session());
        is_admitted.then_some(()).ok_or_else(|| Error::Refused("the move has a session".into()))
    };
    let vouched = target.dial().and_then(|mut server| {
        vouch(&mut client, &mut server, target.token.as_ref(), admit).map(|()| server)
    });
    match vouched {
        Ok(server) => {
            let bridge = bridge(server, socket, Duration::ZERO).map_err(broken)?;
            let former = std::mem::replace(&mut lock(begun).bridge, bridge);
            if let Some(former) = former.upgrade() {
                former.cut(); // the session has one connection
            }
            Ok(())
        }
        Err(error) => {
            if lock(begun).name.is_none() {
                refuse(&mut client, &text_of(&error));
            }
            Err(error)
        }
    }
}

/// Returns the reason that the worker says in turn.
fn text_of(error: &Error) -> String {
    match error {
        Error::Refused(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_wire::Address;
    use std::io::Read;

    #[test]
    fn proxy_admits_one_session_and_its_connections() {
        let mut begun = Begun::default();
        assert!(!begun.admit(Some([1; 16])), "before it has begun");
        assert!(begun.admit(None));
        assert!(!begun.admit(None), "a second one");
        assert!(begun.admit(Some([1; 16])));
        assert!(begun.admit(Some([1; 16])));
        assert!(!begun.admit(Some([2; 16])), "another one");
    }

    #[test]
    fn silent_connections_to_a_proxy_are_bounded() {
        let folder = std::env::temp_dir().join(format!("reef-proxy-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("server");
        let _server = UnixListener::bind(&path).unwrap(); // it says nothing
        let target = Target::new(Address::Unix(path));
        let proxy = Proxy::start(&folder.join("proxy"), target).unwrap();
        let connect = || UnixStream::connect(proxy.path()).unwrap();
        let _waiting: Vec<_> = (0..MAX_WAITING).map(|_| connect()).collect();
        let mut more = connect();
        more.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert_eq!(more.read(&mut [0; 1]).unwrap(), 0, "it is closed");
        drop(proxy);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
