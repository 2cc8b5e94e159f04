//! A listening socket, and the connections that come by it.

use super::lobby::{Lobby, LobbySlot};
use crate::observe::refusal::Refusal;
use crate::observe::sessions::Sessions;
use crate::server::tenants::accounts::{Tenants, token};
use reef_core::{Error, Result};
use reef_files::{MAX_PEM_BYTES, SocketFile};
use reef_wire::{Address, Link, Server, TlsServer, Token};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::Permissions;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Time after which a server tries to accept again where the system could not.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Files that make a server safe to reach from other machines.
#[derive(Debug, Clone, Default)]
pub struct Security {
    /// File with the token that clients must have.
    pub token: Option<PathBuf>,
    /// File with the certificate chain of the server.
    pub cert: Option<PathBuf>,
    /// File with its private key.
    pub key: Option<PathBuf>,
    /// Clients with tokens of their own.
    pub tenants: Tenants,
}

impl Security {
    /// Reads the token, if there is one. The tenants' follow.
    ///
    /// # Errors
    ///
    /// `Invalid` names the file.
    pub fn tokens(&self) -> Result<Vec<Token>> {
        let own = self.token.as_deref().map(token).transpose()?;
        Ok(own.into_iter().chain(self.tenants.tokens()).collect())
    }

    fn has_token(&self) -> bool {
        self.token.is_some() || !self.tenants.is_empty()
    }

    /// Reads certificate and key, if there are any.
    ///
    /// # Errors
    ///
    /// `Invalid` names the file.
    pub fn tls(&self) -> Result<Option<TlsServer>> {
        let (cert, key) = match (&self.cert, &self.key) {
            (None, None) => return Ok(None),
            (Some(cert), Some(key)) => (cert, key),
            _ => return Err(Error::invalid("TLS", "must have both a certificate and a key")),
        };
        let text = reef_files::read(cert, MAX_PEM_BYTES).map_err(|e| wrong("cert", cert, &e))?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let chain = chain.map_err(|e| wrong("cert", cert, &e))?;
        if chain.is_empty() {
            return Err(wrong("cert", cert, &"no certificate (PEM) in it"));
        }
        let text = reef_files::read(key, MAX_PEM_BYTES).map_err(|e| wrong("key", key, &e))?;
        let private = PrivateKeyDer::pem_slice_iter(&text).next();
        let private = private.ok_or_else(|| wrong("key", key, &"no private key (PEM) in it"))?;
        let private = private.map_err(|e| wrong("key", key, &e))?;
        let provider = rustls::crypto::ring::default_provider();
        let config = ServerConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::invalid("TLS", e.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(|e| wrong("key", key, &e))?;
        Ok(Some(TlsServer::new(&config)))
    }
}

fn wrong(what: &str, path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::invalid(format!("{what} {}", path.display()), why.to_string())
}

/// Makes a link of a connection.
type OpenLink = Box<dyn FnOnce() -> reef_wire::Result<Link> + Send>;

/// A bound socket.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    tls: Option<TlsServer>,
    sessions: Sessions,
    spin: Duration,
    lobby: Lobby,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    /// With its name; true for links through shared memory.
    Unix(UnixListener, SocketFile, bool),
}

impl Listener {
    /// Listens on an address: a UNIX socket, which only this user may open, with or without shared
    /// memory, or TCP. An address that
    /// other machines can reach must have a token and TLS.
    ///
    /// # Errors
    ///
    /// `Invalid` if they are missing; `Host` with the system's reason.
    pub fn bind(address: &Address, security: &Security) -> Result<Self> {
        let host = |e: &std::io::Error| Error::host(format!("listen on {address}"), e);
        let tls = security.tls()?;
        match address {
            Address::Unix(path) | Address::Shared(path) => {
                let is_shared = matches!(address, Address::Shared(_));
                let (socket, name) = reef_files::bind(path).map_err(|e| host(&e))?;
                std::fs::set_permissions(path, Permissions::from_mode(0o600))
                    .map_err(|e| host(&e))?;
                Ok(Self::new(Socket::Unix(socket, name, is_shared), None))
            }
            Address::Tcp(at) | Address::Tls(at) => {
                let all: Vec<SocketAddr> = at.to_socket_addrs().map_err(|e| host(&e))?.collect();
                let is_local = all.iter().all(|address| address.ip().is_loopback());
                if !is_local && (tls.is_none() || !security.has_token()) {
                    return Err(Error::invalid(
                        format!("listen on {address}"),
                        "other machines can reach it, so it must have a token and TLS",
                    ));
                }
                let socket = TcpListener::bind(&*all).map_err(|e| host(&e))?;
                Ok(Self::new(Socket::Tcp(socket), tls))
            }
        }
    }

    fn new(socket: Socket, tls: Option<TlsServer>) -> Self {
        let (sessions, lobby) = (Sessions::default(), Lobby::default());
        Self { socket, tls, sessions, spin: Duration::ZERO, lobby }
    }

    /// Counts clients without a session in this list.
    #[must_use]
    pub fn counted_in(mut self, sessions: &Sessions) -> Self {
        self.sessions = sessions.clone();
        self
    }

    /// Has the thread of each session look for messages for this time before it sleeps.
    #[must_use]
    pub fn spin_for(mut self, time: Duration) -> Self {
        self.spin = time;
        self
    }

    /// Returns the address that clients connect to.
    pub fn address(&self) -> String {
        match (&self.socket, &self.tls) {
            (Socket::Unix(_, name, true), _) => format!("shm:{}", name.path().display()),
            (Socket::Unix(_, name, false), _) => format!("unix:{}", name.path().display()),
            (Socket::Tcp(socket), tls) => {
                let at = socket.local_addr().map(|at| at.to_string()).unwrap_or_default();
                if tls.is_some() { format!("tls:{at}") } else { at }
            }
        }
    }

    /// Waits for one connection, and returns its socket as it is, whether it is TCP, and its place
    /// among those whose clients are not authenticated yet.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    pub fn accept(&self) -> std::io::Result<(OwnedFd, bool, LobbySlot)> {
        let (socket, machine): (OwnedFd, _) = match &self.socket {
            Socket::Unix(socket, ..) => (socket.accept()?.0.into(), None),
            Socket::Tcp(socket) => {
                let (stream, from) = socket.accept()?;
                (stream.into(), Some(from.ip()))
            }
        };
        let place = self.lobby.enter(machine, &socket)?;
        Ok((socket, machine.is_some(), place))
    }

    /// As [`accept`](Self::accept), and returns what makes a link of the connection.
    fn accept_link(&self) -> std::io::Result<(LobbySlot, OpenLink)> {
        let (socket, _, place) = self.accept()?;
        let open: OpenLink = match &self.socket {
            Socket::Unix(_, _, is_shared) => {
                let open = if *is_shared { Link::shared } else { Link::unix };
                Box::new(move || open(socket.into()).map_err(broken))
            }
            Socket::Tcp(_) => {
                let tls = self.tls.clone();
                Box::new(move || match tls {
                    Some(tls) => tls.accept(socket.into()),
                    None => Link::tcp(socket.into()).map_err(broken),
                })
            }
        };
        Ok((place, open))
    }

    /// Accepts connections for ever, each on a thread of its own. `report` is told of connections
    /// that ended in an error.
    pub fn run(
        &self,
        server: &Server,
        report: impl Fn(&reef_wire::Error) + Clone + Send + 'static,
    ) {
        loop {
            let Ok((place, link)) = self.accept_link() else {
                thread::sleep(ACCEPT_RETRY_INTERVAL); // too many files are open
                continue;
            };
            let (server, report) = (server.clone(), report.clone());
            let (sessions, spin) = (self.sessions.clone(), self.spin);
            let link = move || link().map(|link| link.spin_for(spin));
            let serve = move || {
                if let Err(error) = serve(link, place, &server, &sessions) {
                    report(&error);
                }
            };
            // Without a thread the connection is closed, and the client tries again.
            let _ = thread::Builder::new().name("reef-session".into()).spawn(serve);
        }
    }
}

/// Serves one connection, as [`Server::serve`] does, and counts a client without a session.
fn serve(
    link: impl FnOnce() -> reef_wire::Result<Link>,
    place: LobbySlot,
    server: &Server,
    sessions: &Sessions,
) -> reef_wire::Result<()> {
    let greeted = link().and_then(|mut link| Ok((server.greet(&mut link)?, link)));
    let (hello, link) = greeted.inspect_err(|error| sessions.refuse(Refusal::of(error)))?;
    drop(place);
    let served = server.serve_greeted(link, &hello, server.name()?);
    // Other refusals are counted where they are decided, and other errors are ends of sessions.
    if let Err(error @ reef_wire::Error::Refused(_)) = &served
        && let why @ (Refusal::Session | Refusal::Full) = Refusal::of(error)
    {
        sessions.refuse(why);
    }
    served
}

fn broken(error: std::io::Error) -> reef_wire::Error {
    reef_wire::Error::Broken(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_other_machines_needs_token_and_tls() {
        let bind = |text: &str, security: &Security| {
            Listener::bind(&text.parse().unwrap(), security).map(|_| ()).map_err(|e| e.to_string())
        };
        let none = Security::default();
        assert_eq!(bind("127.0.0.1:0", &none), Ok(()));
        assert_eq!(bind("[::1]:0", &none), Ok(()));
        for text in ["0.0.0.0:0", "[::]:0"] {
            let said = bind(text, &none).unwrap_err();
            assert!(said.contains("must have a token and TLS"), "{said}");
            let token = Security { token: Some("/nowhere".into()), ..Security::default() };
            assert!(bind(text, &token).unwrap_err().contains("must have a token and TLS"));
        }
        let half = Security { cert: Some("/nowhere".into()), ..Security::default() };
        assert!(bind("127.0.0.1:0", &half).unwrap_err().contains("both"));
    }

    #[test]
    fn file_in_the_place_of_a_socket_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        let address = format!("unix:{}", path.display()).parse().unwrap();
        std::fs::write(&path, "precious").unwrap();
        let said = Listener::bind(&address, &Security::default()).unwrap_err().to_string();
        assert!(said.contains("must be absent or a socket, got a regular file"), "{said}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::remove_file(&path).unwrap();
        let listener = Listener::bind(&address, &Security::default()).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        drop(listener);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious", "it is not the listener's");
    }

    #[test]
    fn token_must_be_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let security = Security { token: Some(path.clone()), ..Security::default() };
        assert!(security.tokens().is_err());
        std::fs::write(&path, "short\n").unwrap();
        assert!(security.tokens().unwrap_err().to_string().contains("at least 16"));
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        assert_eq!(security.tokens().unwrap().len(), 1);
    }

    #[test]
    fn socket_of_a_gone_server_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reef.sock");
        drop(UnixListener::bind(&path).unwrap());
        let address = Address::Unix(path.clone());
        let listener = Listener::bind(&address, &Security::default()).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Listener::bind(&address, &Security::default()).is_err(), "it is in use");
        drop(listener);
        assert!(!path.exists());
    }
}
