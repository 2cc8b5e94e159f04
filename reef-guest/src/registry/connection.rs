//! One connection of a guest, from its first message to its end.

use super::relay::Relay;
use crate::join::guest_info::GuestInfo;
use crate::join::wire::Uuid;
use crate::page::file::Place;
use crate::page::layout::Identity;
use crate::page::mapping::Mapping;
use crate::page::spans::Time;
use crate::unix_peer::Peer;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// Who is on the other side, as the system says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The process.
    pub pid: u32,
    /// The program, if the system says which.
    pub exe: Option<PathBuf>,
    /// What it shows besides.
    pub info: GuestInfo,
}

impl Caller {
    pub(super) fn of(socket: &OwnedFd, info: GuestInfo) -> io::Result<Self> {
        let peer = Peer::of(socket)?;
        let pid = peer.process()?;
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        Ok(Self { uid: peer.uid, pid, exe, info })
    }

    /// Is ready when the process has ended. `None`: the system doesn't know the process, or has no
    /// such thing.
    fn process(&self) -> io::Result<Option<OwnedFd>> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        match pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())).transpose() {
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => Err(error.into()),
            opened => Ok(opened.unwrap_or(None)),
        }
    }
}

/// What is ready once a guest has left or died. Whoever waits for it has it as well, so that
/// nothing is copied.
#[derive(Debug)]
pub(super) struct EndWatch {
    pub(super) socket: OwnedFd,
    /// Children may keep the socket open for longer than the process lives.
    process: Option<OwnedFd>,
}

impl EndWatch {
    /// All of them.
    pub(super) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.socket.as_fd(), self.process.as_ref().unwrap_or(&self.socket).as_fd()]
    }

    /// Of a caller at the other side of the socket, which comes back with the reason if there is
    /// none.
    pub(super) fn of(socket: OwnedFd, caller: &Caller) -> Result<Arc<Self>, (OwnedFd, String)> {
        match caller.process() {
            Ok(process) => Ok(Arc::new(Self { socket, process })),
            Err(error) => {
                Err((socket, format!("process {} can't be watched: {error}", caller.pid)))
            }
        }
    }
}

/// A guest with its page.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) who: Identity,
    pub(super) uid: u32,
    pub(super) joined: Time,
    pub(super) job: String,
    pub(super) device: Uuid,
    /// Of the device's time, in parts per million; zero: no limit.
    pub(super) part: u32,
    /// Which memory its page is.
    pub(super) place: Place,
    pub(super) page: Arc<Mapping>,
    pub(super) ends: Arc<EndWatch>,
    /// Of a real-time guest: what holds others for it.
    pub(super) relay: Option<Relay>,
}

impl Guest {
    /// Whether the other is held together with this one, wherever it runs.
    pub(super) fn shares_job_with(&self, other: &Self) -> bool {
        !self.job.is_empty() && self.job == other.job && self.uid == other.uid
    }

    /// Whether it is held (best-effort) or holds (real-time).
    pub(super) fn is_active(&self) -> bool {
        match &self.relay {
            Some(relay) => relay.gates().is_held(),
            None => self.page.holders.is_held(),
        }
    }
}
