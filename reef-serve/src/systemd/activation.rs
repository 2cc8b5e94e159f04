//! Sockets that the service manager has opened: it keeps them over restarts of the daemon, so
//! clients wait instead of being refused.
//!
//! Their names (`FileDescriptorName=`) say what is served on them: `local`, `grpc` or `http`, each
//! at most once as a Unix socket and, but for `local`, once over TCP.

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

/// Whether they have been taken: a file descriptor has one owner.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// What was passed to this process, by what is served on it.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    unix: BTreeMap<Protocol, UnixListener>,
    tcp: BTreeMap<Protocol, TcpListener>,
}

impl Passed {
    /// Takes all that were passed to this process, by `LISTEN_PID`, `LISTEN_FDS` and
    /// `LISTEN_FDNAMES`. There is nothing left for whoever asks a second time.
    ///
    /// # Errors
    ///
    /// `Invalid` with the socket's name if it can't be served.
    pub(crate) fn take() -> Result<Self> {
        let mut passed = Self::default();
        let wrong = |e| Error::system("sockets of the service manager", e);
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Ok(passed);
        }
        for (number, name) in sd_notify::listen_fds_with_names().map_err(wrong)? {
            // SAFETY: whoever set LISTEN_PID to our number gave these open files to this process
            // for this purpose, nothing else of it knows their numbers, and `TAKEN` lets this
            // happen once.
            #[allow(unsafe_code)]
            let socket = unsafe { OwnedFd::from_raw_fd(number) };
            passed.add(&name, socket)?;
        }
        Ok(passed)
    }

    fn add(&mut self, name: &str, socket: OwnedFd) -> Result<()> {
        let wrong = |why: &str| Error::Invalid(format!("passed socket {name:?}: {why}"));
        let known = Protocol::EACH.into_iter().find(|protocol| protocol.name() == name);
        let protocol = known.ok_or_else(|| wrong("no such name (have: local, grpc, http)"))?;
        let listens = socket_type(&socket) == Ok(SocketType::STREAM)
            && socket_acceptconn(&socket) == Ok(true);
        if !listens {
            return Err(wrong("it is no stream socket that listens"));
        }
        let is_second = match (socket_domain(&socket), protocol) {
            (Ok(AddressFamily::UNIX), _) => self.unix.insert(protocol, socket.into()).is_some(),
            (_, Protocol::Local) => return Err(wrong("it is no Unix socket")),
            (Ok(AddressFamily::INET | AddressFamily::INET6), _) => {
                self.tcp.insert(protocol, socket.into()).is_some()
            }
            _ => return Err(wrong("it is neither a Unix socket nor TCP")),
        };
        if is_second {
            return Err(wrong("there are two"));
        }
        Ok(())
    }

    /// The Unix socket of a way in, which is the caller's then.
    pub(crate) fn unix(&mut self, protocol: Protocol) -> Option<UnixListener> {
        self.unix.remove(&protocol)
    }

    /// The socket over TCP, likewise.
    pub(crate) fn tcp(&mut self, protocol: Protocol) -> Option<TcpListener> {
        self.tcp.remove(&protocol)
    }

    /// The address of a socket over TCP.
    pub(crate) fn address(&self, protocol: Protocol) -> Option<SocketAddr> {
        self.tcp.get(&protocol)?.local_addr().ok()
    }

    /// Where the Unix sockets are, if all of them were passed: none has to be made.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let all = Protocol::EACH.iter().all(|protocol| self.unix.contains_key(protocol));
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
    fn what_can_not_be_served_is_named() {
        let mut passed = Passed::default();
        passed.add("http", tcp()).unwrap();
        assert!(passed.address(Protocol::Http).is_some() && passed.folder().is_none());
        let mut said =
            |name: &str, socket: OwnedFd| passed.add(name, socket).unwrap_err().to_string();
        let datagrams = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let connected = UnixStream::pair().unwrap().0;
        for (said, want) in [
            (
                said("https", tcp()),
                "passed socket \"https\": no such name (have: local, grpc, http)",
            ),
            (said("local", tcp()), "passed socket \"local\": it is no Unix socket"),
            (said("http", tcp()), "passed socket \"http\": there are two"),
            (said("grpc", datagrams().into()), "\"grpc\": it is no stream socket that listens"),
            (said("grpc", connected.into()), "\"grpc\": it is no stream socket that listens"),
            (said("grpc", std::fs::File::open("/").unwrap().into()), "no stream socket"),
        ] {
            assert!(said.contains(want), "{said}");
        }
    }
}
