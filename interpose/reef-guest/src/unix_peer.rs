//! Process at the other end of a socket, as the system says.

use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd};

/// Process that connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// User of the process.
    pub uid: u32,
    /// Process ID. `None`: the process is in a PID namespace that isn't visible from here, for
    /// which the system returns 0.
    pub pid: Option<NonZeroU32>,
}

impl Peer {
    /// Reads the peer of a connected Unix socket.
    ///
    /// `rustix` reads the process ID into a type without 0, so it fails for a process that isn't
    /// visible.
    ///
    /// # Errors
    ///
    /// The system's: it isn't such a socket.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut given = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        let (socket, to) = (socket.as_fd().as_raw_fd(), (&raw mut given).cast());
        // SAFETY: the system writes at most `length` bytes to `given`, whose fields may have any
        // bits, and the length to `length`; both outlive the call.
        let failed = unsafe {
            libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut length)
        };
        if failed == 0 { Ok(Self::new(&given)) } else { Err(io::Error::last_os_error()) }
    }

    fn new(given: &libc::ucred) -> Self {
        Self { uid: given.uid, pid: u32::try_from(given.pid).ok().and_then(NonZeroU32::new) }
    }

    /// Returns the process ID.
    ///
    /// # Errors
    ///
    /// The process isn't visible from here.
    pub fn process(&self) -> io::Result<u32> {
        let why = "the peer's process is in a PID namespace that isn't seen from here";
        self.pid.map(NonZeroU32::get).ok_or_else(|| io::Error::other(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn peer_of_a_socket_pair_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.process().unwrap(), std::process::id());
        assert_eq!(peer.uid, rustix::process::getuid().as_raw());
        assert!(Peer::of(std::fs::File::open("/dev/null").unwrap()).is_err());
    }

    #[test]
    fn invisible_process_has_no_pid() {
        let peer = Peer::new(&libc::ucred { pid: 0, uid: 7, gid: 7 });
        assert_eq!(peer, Peer { uid: 7, pid: None });
        assert!(peer.process().unwrap_err().to_string().contains("PID namespace"));
    }
}
