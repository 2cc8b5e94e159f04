//! Listening socket, which works even if no file descriptor is left.

use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Connection without a message so far.
#[derive(Debug)]
pub(super) struct PendingConnection {
    pub(super) socket: OwnedFd,
    /// Set if it has the last descriptor, so that it can only be refused.
    pub(super) is_too_much: bool,
}

/// Accepts connections. One descriptor is kept in reserve, so that a connection can be refused with
/// a reason when no other is left.
#[derive(Debug)]
pub(super) struct Listener {
    socket: OwnedFd,
    /// Reserved descriptor. `None`: a refused connection has it.
    spare: Option<File>,
}

impl Listener {
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self { socket, spare: Some(spare()?) })
    }

    /// Returns the socket, if a new connection could be answered. Otherwise it would be ready all
    /// the time.
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.spare.as_ref().map(|_| self.socket.as_fd())
    }

    pub(super) fn poll_timeout(&self) -> Timespec {
        match self.spare {
            Some(_) => Timespec { tv_sec: 1, tv_nsec: 0 },
            None => Timespec { tv_sec: 0, tv_nsec: 10_000_000 },
        }
    }

    pub(super) fn accept(&mut self) -> Option<PendingConnection> {
        if self.spare.is_none() {
            self.spare = Some(spare().ok()?);
        }
        match accept_with(&self.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => Some(PendingConnection { socket, is_too_much: false }),
            Err(Errno::MFILE | Errno::NFILE) => {
                drop(self.spare.take());
                let socket = accept_with(&self.socket, SocketFlags::CLOEXEC).ok()?;
                Some(PendingConnection { socket, is_too_much: true })
            }
            Err(_) => None,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a device of the system")]
fn spare() -> io::Result<File> {
    File::open("/dev/null")
}
