//! Sockets that the service manager has opened. It keeps them over restarts of the daemon, so
//! clients wait instead of being refused.
//!
//! Their names (`FileDescriptorName=`) select the protocol: `local`, `grpc` or `http`, each at most
//! once as a Unix socket and, except `local`, once over TCP.

use crate::error::{Error, Result};
use crate::net::identity::client_id::Protocol;
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// True if they have been taken: a file descriptor has one owner.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Passed sockets by protocol.
#[derive(Debug, Default)]
pub(crate) struct PassedSockets {
    unix: BTreeMap<Protocol, UnixListener>,
    tcp: BTreeMap<Protocol, TcpListener>,
}

impl PassedSockets {
    /// Takes all sockets that were passed to this process, by `LISTEN_PID`, `LISTEN_FDS` and
    /// `LISTEN_FDNAMES`. A second call gets none.
    ///
    /// # Errors
    ///
    /// `Invalid` with the socket's name if it cannot be served.
    pub(crate) fn take() -> Result<Self> {
        let mut passed = Self::default();
        let wrong = |e| Error::system("sockets of the service manager", e);
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Ok(passed);
        }
        for (number, name) in sd_notify::listen_fds_with_names().map_err(wrong)? {
            // SAFETY: the process that set LISTEN_PID to our number gave these open files to this
            // process for this purpose, nothing else here knows their numbers, and `TAKEN` lets
            // this happen once.
            #[allow(unsafe_code)]
            let socket = unsafe { OwnedFd::from_raw_fd(number) };
            passed.add(&name, socket)?;
        }
        Ok(passed)
    }

    fn add(&mut self, name: &str, socket: OwnedFd) -> Result<()> {
        let wrong = |why: &str| Error::Invalid(format!("passed socket {name:?}: {why}"));
        let known = Protocol::ALL.into_iter().find(|protocol| protocol.name() == name);
        let protocol = known.ok_or_else(|| wrong("unknown name (have: local, grpc, http)"))?;
        let listens = socket_type(&socket) == Ok(SocketType::STREAM)
            && socket_acceptconn(&socket) == Ok(true);
        if !listens {
            return Err(wrong("must be a stream socket that listens"));
        }
        let is_second = match (socket_domain(&socket), protocol) {
            (Ok(AddressFamily::UNIX), _) => self.unix.insert(protocol, socket.into()).is_some(),
            (_, Protocol::Local) => return Err(wrong("must be a Unix socket")),
            (Ok(AddressFamily::INET | AddressFamily::INET6), _) => {
                self.tcp.insert(protocol, socket.into()).is_some()
            }
            _ => return Err(wrong("must be a Unix or TCP socket")),
        };
        if is_second {
            return Err(wrong("must be passed once, got two"));
        }
        Ok(())
    }

    /// Takes the Unix socket of a protocol, which then belongs to the caller.
    pub(crate) fn unix(&mut self, protocol: Protocol) -> Option<UnixListener> {
        self.unix.remove(&protocol)
    }

    /// Takes the TCP socket of a protocol, which then belongs to the caller.
    pub(crate) fn tcp(&mut self, protocol: Protocol) -> Option<TcpListener> {
        self.tcp.remove(&protocol)
    }

    /// Returns the address of a TCP socket.
    pub(crate) fn address(&self, protocol: Protocol) -> Option<SocketAddr> {
        self.tcp.get(&protocol)?.local_addr().ok()
    }

    /// Returns the folder of the Unix sockets if all of them were passed: then none is created.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let all = Protocol::ALL.iter().all(|protocol| self.unix.contains_key(protocol));
        let local = self.unix.get(&Protocol::Local).filter(|_| all)?.local_addr().ok()?;
        Some(local.as_pathname()?.parent()?.to_path_buf())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixStream;

    fn tcp() -> OwnedFd {
        TcpListener::bind("127.0.0.1:0").unwrap().into()
    }

    #[test]
    fn unusable_socket_is_refused_by_name() {
        let mut passed = PassedSockets::default();
        passed.add("http", tcp()).unwrap();
        assert!(passed.address(Protocol::Http).is_some() && passed.folder().is_none());
        let mut said =
            |name: &str, socket: OwnedFd| passed.add(name, socket).unwrap_err().to_string();
        let datagrams = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let connected = UnixStream::pair().unwrap().0;
        for (said, want) in [
            (
                said("https", tcp()),
                "passed socket \"https\": unknown name (have: local, grpc, http)",
            ),
            (said("local", tcp()), "passed socket \"local\": must be a Unix socket"),
            (said("http", tcp()), "passed socket \"http\": must be passed once, got two"),
            (said("grpc", datagrams().into()), "\"grpc\": must be a stream socket that listens"),
            (said("grpc", connected.into()), "\"grpc\": must be a stream socket that listens"),
            (said("grpc", std::fs::File::open("/").unwrap().into()), "must be a stream socket"),
        ] {
            assert!(said.contains(want), "{said}");
        }
    }
}
