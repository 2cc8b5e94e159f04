//! Process at the other end of a socket, as the system says.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

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
    /// An error of the system: it isn't such a socket.
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

/// Returns a descriptor of the process that connected a Unix socket, which is ready when that has
/// ended. `None`: the system has no such descriptors (before Linux 6.5).
///
/// A process may leave the socket to another one and end, and then a third one may have its ID.
///
/// # Errors
///
/// The process has ended; an error of the system.
pub fn process_fd(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut given: libc::c_int = -1;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    let (socket, to) = (socket.as_fd().as_raw_fd(), (&raw mut given).cast());
    // SAFETY: the system writes at most `length` bytes to `given`, which may have any bits, and the
    // length to `length`; both outlive the call.
    let failed = unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERPIDFD, to, &raw mut length)
    };
    let ended = || io::Error::other("the process that connected has ended");
    if failed != 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ENOPROTOOPT) => Ok(None),
            Some(libc::EINVAL | libc::ESRCH | libc::ENODATA) => Err(ended()),
            _ => Err(error),
        };
    }
    // SAFETY: the system has just made the descriptor for this call, so that it has no other owner.
    let process = unsafe { OwnedFd::from_raw_fd(given) };
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let events = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&now))?;
    if events == 0 { Ok(Some(process)) } else { Err(ended()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    };
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    /// Its number may be another process's by then.
    #[test]
    fn process_that_has_left_its_socket_and_ended_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
        let client = socket_with(family, SocketType::STREAM, flags, None).unwrap();
        let (address, its) = (SocketAddrUnix::new(&path).unwrap(), client.try_clone().unwrap());
        let mut command = Command::new("sleep");
        command.arg("60");
        // SAFETY: the new process only makes a call of the system.
        unsafe { command.pre_exec(move || Ok(connect(&its, &address)?)) };
        let mut process = command.spawn().unwrap();
        let (served, _) = listener.accept().unwrap();
        assert_eq!(Peer::of(&served).unwrap().process().unwrap(), process.id());
        let alive = process_fd(&served).map(|process| process.is_some());
        process.kill().unwrap();
        process.wait().unwrap();
        if !alive.unwrap() {
            println!("skipped: no descriptors of processes at other ends");
            return;
        }
        let said = process_fd(&served).unwrap_err().to_string();
        assert_eq!(said, "the process that connected has ended");
        drop(client); // which has kept the connection open
    }

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
