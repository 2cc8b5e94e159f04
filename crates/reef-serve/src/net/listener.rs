//! Listeners: Unix sockets with access by user, and optional TCP addresses.
//!
//! Every connection holds a slot; one too many is closed at once. The kernel states the peer of a
//! Unix socket, never a message. Each handshake runs on a task of its own with a timeout, so a slow
//! client delays no other. Those of TLS run on one thread, apart from I/O: any client can ask for
//! one, and each takes as long as hundreds of requests.

use crate::error::{Error, Result};
use crate::net::access::Access;
use crate::net::connection::Connection;
use crate::net::folder::{ELSEWHERE, folder, make_folder};
use crate::net::identity::client_id::{ClientId, Protocol};
use crate::net::identity::loopback::LoopbackUsers;
use crate::net::identity::peer::Peer;
use crate::net::identity::principal::Principal;
use crate::net::quota::clients::Clients;
use crate::net::tls::Tls;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// A socket that accepts connections.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    protocol: Protocol,
    clients: Arc<Clients>,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener, Access),
    Tcp {
        listener: TcpListener,
        may_share: bool,
        tls: Option<(Tls, HandshakeThread)>,
        users: LoopbackUsers,
    },
}

/// Thread of the handshakes of TLS, which it ends with.
#[derive(Debug)]
struct HandshakeThread(Option<Runtime>);

impl HandshakeThread {
    fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("reef-tls")
            .enable_time()
            .build();
        Ok(Self(Some(runtime.map_err(|e| Error::system("no thread for TLS", e))?)))
    }

    fn spawn(&self, handshake: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.0 {
            runtime.spawn(handshake);
        }
    }
}

impl Drop for HandshakeThread {
    /// Waits for nothing: it may be dropped by an I/O thread.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Listener {
    /// Accepts connections of admitted users from a Unix socket.
    ///
    /// # Errors
    ///
    /// `Failed`.
    pub(crate) fn unix(
        socket: std::os::unix::net::UnixListener,
        access: Access,
        protocol: Protocol,
        clients: &Arc<Clients>,
    ) -> Result<Self> {
        let wrong = |e| Error::system("a Unix socket", e);
        socket.set_nonblocking(true).map_err(wrong)?;
        let socket = Socket::Unix(UnixListener::from_std(socket).map_err(wrong)?, access);
        Ok(Self { socket, protocol, clients: clients.clone() })
    }

    /// Accepts connections from TCP.
    ///
    /// # Errors
    ///
    /// `Failed`.
    pub(crate) fn tcp(
        socket: std::net::TcpListener,
        protocol: Protocol,
        clients: &Arc<Clients>,
        may_share: bool,
        tls: Option<Tls>,
    ) -> Result<Self> {
        let wrong = |e| Error::system("a socket", e);
        socket.set_nonblocking(true).map_err(wrong)?;
        let listener = TcpListener::from_std(socket).map_err(wrong)?;
        let users = LoopbackUsers::new();
        let thread = tls.as_ref().map(|_| HandshakeThread::start()).transpose()?;
        let tls = tls.zip(thread);
        let socket = Socket::Tcp { listener, may_share, tls, users };
        Ok(Self { socket, protocol, clients: clients.clone() })
    }

    /// Returns its TCP address, with the port that the system chose for port 0.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Unix(..) => None,
            Socket::Tcp { listener, .. } => listener.local_addr().ok(),
        }
    }

    /// Returns all future connections, until the stream is dropped. A client that completes no
    /// handshake within `time` is cut off.
    pub(crate) fn connections(self, time: Duration) -> ReceiverStream<io::Result<Connection>> {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            tokio::select! {
                () = sender.closed() => {}
                () = self.admit_all(time, &sender) => {}
            }
        });
        ReceiverStream::new(receiver)
    }

    async fn admit_all(&self, time: Duration, to: &mpsc::Sender<io::Result<Connection>>) {
        loop {
            match self.accept().await {
                Ok((connection, tls)) => self.spawn(greet(connection, tls, time, to.clone())),
                Err(Error::Failed(why)) => {
                    tracing::warn!(%why, "accept");
                    tokio::time::sleep(Duration::from_millis(50)).await; // out of files, perhaps
                }
                Err(refused) => tracing::debug!(%refused, "connection"),
            }
        }
    }

    fn spawn(&self, greeting: impl Future<Output = ()> + Send + 'static) {
        match &self.socket {
            Socket::Tcp { tls: Some((_, thread)), .. } => thread.spawn(greeting),
            _ => drop(tokio::spawn(greeting)),
        }
    }

    /// Returns the next admitted connection, and the TLS to negotiate on it.
    async fn accept(&self) -> Result<(Connection, Option<Tls>)> {
        let wrong = |e| Error::system("accept", e);
        match &self.socket {
            Socket::Unix(listener, access) => {
                let (stream, _) = listener.accept().await.map_err(wrong)?;
                let principal = user(&stream, *access)?;
                let slot = self.clients.enter(self.protocol, &principal)?;
                let peer = Peer { id: self.number(), principal, may_share: true, ..Peer::UNKNOWN };
                Ok((Connection::unix(stream, peer, slot), None))
            }
            Socket::Tcp { listener, may_share, tls, users } => {
                let (stream, from) = listener.accept().await.map_err(wrong)?;
                let _ = stream.set_nodelay(true); // without it only slower
                self.clients.slot_counts.check(stream.as_fd())?;
                let to = stream.local_addr().map_err(wrong)?;
                let user = users.user(from, to).map(Principal::Loopback);
                let principal = user.unwrap_or_else(|| Principal::at(from.ip()));
                let slot = self.clients.enter(self.protocol, &principal)?;
                let id = self.number();
                let peer = Peer { id, principal, may_share: *may_share, ..Peer::UNKNOWN };
                let tls = tls.as_ref().map(|(tls, _)| tls.clone());
                Ok((Connection::tcp(stream, peer, slot), tls))
            }
        }
    }

    fn number(&self) -> ClientId {
        self.clients.number(self.protocol)
    }
}

/// Completes the handshake of a new connection, if there is one, and passes the connection on.
async fn greet(
    connection: Connection,
    tls: Option<Tls>,
    time: Duration,
    to: mpsc::Sender<io::Result<Connection>>,
) {
    match tokio::time::timeout(time, connection.greet(tls)).await {
        Ok(Ok(connection)) => {
            let _ = to.send(Ok(connection)).await; // or the receiver is gone
        }
        Ok(Err(refused)) => tracing::debug!(%refused, "connection"),
        Err(_) => tracing::debug!(?time, "connection: no handshake in this time"),
    }
}

/// Returns the peer's user according to the kernel, if it is admitted.
fn user(stream: &UnixStream, access: Access) -> Result<Principal> {
    let uid = stream.peer_cred().map_err(|e| Error::system("SO_PEERCRED", e))?.uid();
    access.admit(uid)?;
    Ok(Principal::User(uid))
}

/// Binds a Unix socket for the admitted users. Replaces a socket without a listener.
///
/// # Errors
///
/// `Exists` if another process listens there, or another file is there; `Invalid` if the path is
/// too long; `Failed`.
pub(crate) fn bind(path: &Path, access: Access) -> Result<std::os::unix::net::UnixListener> {
    let shown = path.display();
    let wrong = |e: io::Error| match e.kind() {
        io::ErrorKind::AddrInUse => Error::Exists(format!("{shown}: {e}; {ELSEWHERE}")),
        io::ErrorKind::AlreadyExists => Error::Exists(format!("{shown}: {e}")),
        io::ErrorKind::InvalidInput => {
            Error::Invalid(format!("{shown}: too long for a socket; {ELSEWHERE}"))
        }
        _ => Error::system(&shown.to_string(), e),
    };
    reef_files::clear(path).map_err(wrong)?;
    let listener = std::os::unix::net::UnixListener::bind(path).map_err(wrong)?;
    access.open_socket(path)?;
    Ok(listener)
}

/// Binds a Unix socket for this user alone in the folder of the daemon's sockets, configured or the
/// user's own. Makes the folder if it is not there.
///
/// # Errors
///
/// `Denied` if another user could write to the folder; `Exists` if the socket is in use; `Failed`.
pub fn listen_owner(
    configured: Option<&Path>,
    socket: &str,
) -> Result<std::os::unix::net::UnixListener> {
    let folder = folder(configured);
    make_folder(&folder)?;
    bind(&folder.join(socket), Access::Owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::folder::make_folder;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn file_in_the_place_of_a_socket_is_kept() {
        let folder = std::env::temp_dir().join(format!("reef-kept-{}", std::process::id()));
        make_folder(&folder).unwrap();
        let path = folder.join("http.sock");
        std::fs::write(&path, "precious").unwrap();
        let said = bind(&path, Access::Owner).unwrap_err().to_string();
        let kept = std::fs::read(&path).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(said.ends_with("must be absent or a socket, got a regular file"), "{said}");
        assert_eq!(kept, b"precious");
    }

    #[test]
    fn socket_has_mode_of_its_users_and_replaces_a_dead_one() {
        let folder = std::env::temp_dir().join(format!("reef-listen-{}", std::process::id()));
        make_folder(&folder).unwrap();
        let path = folder.join("x.sock");
        let group = folder.metadata().unwrap().gid();
        for (access, mode, of_folder) in [
            (Access::Owner, 0o600, 0o700),
            (Access::Group(group), 0o660, 0o750),
            (Access::All, 0o666, 0o755),
        ] {
            access.open_folder(&folder).unwrap();
            let socket = bind(&path, access).unwrap();
            let modes = [&path, &folder].map(|path| path.metadata().unwrap().mode() & 0o777);
            assert_eq!(modes, [mode, of_folder], "{access:?}");
            let said = bind(&path, access).unwrap_err();
            let why = format!("{}: another process listens there; {ELSEWHERE}", path.display());
            assert_eq!(said, Error::Exists(why));
            drop(socket);
        }
        let said = bind(&folder.join("x".repeat(200)), Access::Owner).unwrap_err().to_string();
        assert!(said.ends_with(&format!(": too long for a socket; {ELSEWHERE}")), "{said}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
