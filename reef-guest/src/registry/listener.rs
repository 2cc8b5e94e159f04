//! The listening socket, also where no file descriptor is left.

use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// A connection that has said nothing yet.
#[derive(Debug)]
pub(super) struct PendingConnection {
    pub(super) since: Instant,
    pub(super) socket: OwnedFd,
    /// It has the last descriptor, and can only be told so.
    pub(super) is_too_much: bool,
}

/// Accepts connections. One descriptor is kept, so that whoever comes when there is no other is
/// told so.
#[derive(Debug)]
pub(super) struct Listener {
    socket: OwnedFd,
    /// `None`: whom there was no room for has it.
    spare: Option<File>,
}

impl Listener {
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self { socket, spare: Some(spare()?) })
    }

    /// The socket, if somebody who comes now can be told anything: else it would be ready all the
    /// time.
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.spare.as_ref().map(|_| self.socket.as_fd())
    }

    /// When to look again, whatever happens.
    pub(super) fn poll_timeout(&self) -> Timespec {
        match self.spare {
            Some(_) => Timespec { tv_sec: 1, tv_nsec: 0 },
            None => Timespec { tv_sec: 0, tv_nsec: 10_000_000 },
        }
    }

    /// The next one who has come.
    pub(super) fn accept(&mut self) -> Option<PendingConnection> {
        if self.spare.is_none() {
            self.spare = Some(spare().ok()?);
        }
        match accept_with(&self.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => {
                Some(PendingConnection { since: Instant::now(), socket, is_too_much: false })
            }
            Err(Errno::MFILE | Errno::NFILE) => {
                drop(self.spare.take());
                let socket = accept_with(&self.socket, SocketFlags::CLOEXEC).ok()?;
                Some(PendingConnection { since: Instant::now(), socket, is_too_much: true })
            }
            Err(_) => None,
        }
    }
}

fn spare() -> io::Result<File> {
    File::open("/dev/null")
}
