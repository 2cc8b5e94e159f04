//! One connection of a guest, from its first message to its end.

use crate::join::shown::Shown;
use crate::join::wire::Uuid;
use crate::join::wire::{Message, send};
use crate::page::file::PageFile;
use crate::page::layout::Identity;
use crate::page::mapping::Mapping;
use crate::page::spans::Time;
use crate::peer::Peer;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
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
    pub shown: Shown,
}

impl Caller {
    pub(super) fn of(socket: &OwnedFd, shown: Shown) -> io::Result<Self> {
        let peer = Peer::of(socket)?;
        let pid = peer.process()?;
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        Ok(Self { uid: peer.uid, pid, exe, shown })
    }

    /// Is ready when the process has ended. `None`: the system doesn't know the process.
    pub(super) fn process(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        pidfd_open(pid, PidfdFlags::empty()).ok()
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
    /// Of a real-time guest: those whose pages it has. They stay its peers until one of the two ends.
    pub(super) peers: Vec<u32>,
    pub(super) file: PageFile,
    pub(super) page: Arc<Mapping>,
    pub(super) socket: OwnedFd,
    /// Children may keep the socket open for longer than the process lives.
    pub(super) process: Option<OwnedFd>,
}

impl Guest {
    /// Tells this guest. Who is gone is noticed at its socket; who doesn't read misses news and no more.
    pub(super) fn tell(&self, message: &Message, page: Option<&PageFile>) {
        let _ = send(&self.socket, message, page.map(AsFd::as_fd));
    }

    /// Whether the other is held together with this one, wherever it runs.
    pub(super) fn shares_job_with(&self, other: &Self) -> bool {
        !self.job.is_empty() && self.job == other.job && self.uid == other.uid
    }

    /// What is ready once the guest has left or died.
    pub(super) fn ends(&self) -> io::Result<[OwnedFd; 2]> {
        let process = self.process.as_ref().unwrap_or(&self.socket);
        Ok([self.socket.try_clone()?, process.try_clone()?])
    }
}
