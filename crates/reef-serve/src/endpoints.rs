//! Endpoints: the daemon's own sockets, sockets passed by the service manager, and TCP addresses.

use crate::config::settings::Config;
use crate::error::{Error, Result};
use crate::local::session::listen::Local;
use crate::net::access::Access;
use crate::net::folder::{folder, make_folder};
use crate::net::identity::client_id::Protocol;
use crate::net::listener::{Listener, bind};
use crate::net::tls::Tls;
use crate::server::Server;
use crate::systemd::activation::PassedSockets;
use reef_files::SocketFile;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

/// All listeners of the daemon.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) grpc: Vec<Listener>,
    pub(crate) http: Vec<Listener>,
    pub(crate) local: Local,
    /// Certificates of the TCP listeners, which a reload may replace.
    pub(crate) certificates: Vec<(Tls, Protocol)>,
    /// Dropped when no listener is left.
    pub(crate) sockets: Sockets,
}

/// Replaces addresses and the folder of the configuration by those of passed sockets, so that both
/// are checked alike.
pub(crate) fn with_passed(mut config: Config, passed: &PassedSockets) -> Config {
    let listen = &mut config.listen;
    listen.grpc = passed.address(Protocol::Grpc).or(listen.grpc);
    listen.http = passed.address(Protocol::Http).or(listen.http);
    listen.folder = passed.folder().or(listen.folder.take());
    config
}

impl Listeners {
    /// Opens each endpoint that `server` is configured for: on a passed socket if there is one,
    /// else on one of `sockets`.
    ///
    /// # Errors
    ///
    /// The error of the first endpoint that cannot listen.
    pub(crate) fn open(
        server: &Arc<Server>,
        mut passed: PassedSockets,
        mut sockets: Sockets,
    ) -> Result<Self> {
        let config = server.config.get();
        let Config { listen, tls, .. } = &*config;
        let access = sockets.access;
        let unix = |protocol| match passed.unix(protocol) {
            Some(socket) => check_access(socket, access),
            None => sockets.bind(protocol),
        };
        let [local, grpc, http] = Protocol::ALL.map(unix);
        let listener = |protocol, socket| Listener::unix(socket, access, protocol, &server.clients);
        let mut grpc = vec![listener(Protocol::Grpc, grpc?)?];
        let mut http = vec![listener(Protocol::Http, http?)?];
        let may_share = listen.tcp_shared_memory;
        let mut certificates = Vec::new();
        for (address, protocol, listeners) in
            [(listen.grpc, Protocol::Grpc, &mut grpc), (listen.http, Protocol::Http, &mut http)]
        {
            let Some(address) = address else { continue };
            let tls = Tls::load(tls, protocol)?;
            certificates.extend(tls.clone().map(|tls| (tls, protocol)));
            let socket = passed.tcp(protocol).map_or_else(|| tcp(address), Ok)?;
            listeners.push(Listener::tcp(socket, protocol, &server.clients, may_share, tls)?);
        }
        let local = Local::start(server, local?, access)?;
        Ok(Self { grpc, http, local, certificates, sockets })
    }
}

/// Returns a passed socket if it admits only the users that `access` names.
fn check_access(socket: UnixListener, access: Access) -> Result<UnixListener> {
    let address = socket.local_addr().map_err(|e| Error::system("a passed socket", e))?;
    match address.as_pathname() {
        Some(path) => access.check_socket(path)?,
        None if matches!(access, Access::Group(_)) => {
            let why = "a passed socket has no file: it cannot be for a group (listen.users)";
            return Err(Error::Denied(why.into()));
        }
        None => {}
    }
    Ok(socket)
}

fn tcp(address: SocketAddr) -> Result<std::net::TcpListener> {
    std::net::TcpListener::bind(address).map_err(|e| Error::system(&address.to_string(), e))
}

/// The daemon's own sockets, removed on drop. Passed sockets are left to the service manager.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) folder: PathBuf,
    pub(crate) access: Access,
    ours: Vec<SocketFile>,
}

impl Sockets {
    /// Makes the folder, unless all sockets were passed and guests have none. Binds no socket yet.
    ///
    /// # Errors
    ///
    /// `Invalid` if `listen.users` names an unknown group; `Denied` if another user could write to
    /// the folder; `Failed`.
    pub(crate) fn open(config: &Config, passed: &PassedSockets) -> Result<Self> {
        let listen = &config.listen;
        let folder = passed.folder().unwrap_or_else(|| folder(listen.folder.as_deref()));
        let access = Access::new(&listen.users)?;
        if passed.folder().is_none() || config.guests.listen {
            make_folder(&folder)?;
            access.open_folder(&folder)?;
        }
        Ok(Self { folder, access, ours: Vec::new() })
    }

    fn bind(&mut self, protocol: Protocol) -> Result<UnixListener> {
        let path = self.folder.join(format!("{}.sock", protocol.name()));
        let socket = bind(&path, self.access)?;
        let name = SocketFile::of(&path);
        self.ours.push(name.map_err(|e| Error::system(&path.display().to_string(), e))?);
        Ok(socket)
    }
}
