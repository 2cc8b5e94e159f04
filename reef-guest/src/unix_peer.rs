//! Who is at the other end of a socket, as the system says.

use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd};

/// The process that connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its number. `None`: it is in a namespace of processes that isn't seen from here, which the
    /// system says as 0.
    pub pid: Option<NonZeroU32>,
}

impl Peer {
    /// Of a connected Unix socket.
    ///
    /// `rustix` reads the same into a type that has no 0, so it can't be asked about a process that
    /// isn't seen.
    ///
    /// # Errors
    ///
    /// The system's: it is no such socket.
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

    /// Its number.
    ///
    /// # Errors
    ///
    /// It isn't seen from here.
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
    fn the_other_end_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.process().unwrap(), std::process::id());
        assert_eq!(peer.uid, rustix::process::getuid().as_raw());
        assert!(Peer::of(std::fs::File::open("/dev/null").unwrap()).is_err());
    }

    #[test]
    fn a_process_that_is_not_seen_has_no_number() {
        let peer = Peer::new(&libc::ucred { pid: 0, uid: 7, gid: 7 });
        assert_eq!(peer, Peer { uid: 7, pid: None });
        assert!(peer.process().unwrap_err().to_string().contains("PID namespace"));
    }
}
