//! Connection of a guest, from its first message to its end.

use super::pass::{Pass, Peer as HeldPeer};
use super::relay::Relay;
use crate::join::guest_info::GuestInfo;
use crate::join::wire::Uuid;
use crate::page::file::FileId;
use crate::page::layout::Identity;
use crate::page::mapping::Mapping;
use crate::page::spans::Time;
use crate::unix_peer::{Peer, process_fd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Process on the other side, as the system says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User of the process.
    pub uid: u32,
    /// Process ID.
    pub pid: u32,
    /// Program file, if the system returns it, and it is the file of that path here as well.
    pub exe: Option<PathBuf>,
    /// Job, token and part that it sent.
    pub info: GuestInfo,
}

impl Caller {
    pub(super) fn of(socket: &OwnedFd, info: GuestInfo) -> io::Result<Self> {
        let peer = Peer::of(socket)?;
        let pid = peer.process()?;
        let exe = program_at(Path::new(&format!("/proc/{pid}/exe")));
        process_fd(socket)?; // it lives, so that number and file are its own
        Ok(Self { uid: peer.uid, pid, exe, info })
    }

    /// Returns a descriptor that is ready when the process has ended. `None`: the system doesn't
    /// know the process, or has no such descriptors.
    fn process(&self, socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
        if let Some(process) = process_fd(socket)? {
            return Ok(Some(process));
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        match pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())).transpose() {
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => Err(error.into()),
            opened => Ok(opened.unwrap_or(None)),
        }
    }
}

/// Returns the program file that a link of `/proc` leads to. `None`: there is no such process, or
/// another file has that path here, as in a mount namespace of its own, where a user chooses it.
pub(super) fn program_at(link: &Path) -> Option<PathBuf> {
    let path = std::fs::read_link(link).ok()?;
    let file = |path: &Path| path.metadata().map(|facts| (facts.dev(), facts.ino())).ok();
    (file(link)? == file(&path)?).then_some(path)
}

/// Descriptors that are ready once a guest has left or died. They are shared with the waiting
/// thread, so that nothing is copied.
#[derive(Debug)]
pub(super) struct EndWatch {
    pub(super) socket: OwnedFd,
    /// Child processes may keep the socket open for longer than the process lives.
    process: Option<OwnedFd>,
}

impl EndWatch {
    /// Returns all of them.
    pub(super) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.socket.as_fd(), self.process.as_ref().unwrap_or(&self.socket).as_fd()]
    }

    /// Watches a caller at the other side of the socket. After an error the socket is returned with
    /// the reason.
    pub(super) fn of(socket: OwnedFd, caller: &Caller) -> Result<Arc<Self>, (OwnedFd, String)> {
        match caller.process(&socket) {
            Ok(process) => Ok(Arc::new(Self { socket, process })),
            Err(error) => {
                Err((socket, format!("process {} can't be watched: {error}", caller.pid)))
            }
        }
    }
}

/// Guest with its page.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) who: Identity,
    pub(super) uid: u32,
    pub(super) joined: Time,
    pub(super) job: String,
    pub(super) device: Uuid,
    /// Part of the device's time, in parts per million; zero: no limit.
    pub(super) part: u32,
    /// Identity of its page's memory.
    pub(super) place: FileId,
    pub(super) page: Arc<Mapping>,
    pub(super) ends: Arc<EndWatch>,
    /// Relay of a real-time guest, which holds others for it.
    pub(super) relay: Option<Relay>,
    /// It stands for the real-time phases of a best-effort guest of the same process.
    pub(super) is_for_phases: bool,
    /// No holder closes its gates.
    pub(super) is_exempt: bool,
    /// Allowance, and its use.
    pub(super) pass: Arc<Pass>,
}

impl Guest {
    /// Returns it as its holders see it.
    pub(super) fn peer(&self) -> HeldPeer {
        HeldPeer { page: self.page.clone(), pass: self.pass.clone() }
    }

    /// Returns whether both are held together, on whichever devices they run.
    pub(super) fn shares_job_with(&self, other: &Self) -> bool {
        !self.job.is_empty() && self.job == other.job && self.uid == other.uid
    }

    /// Returns whether it stands for phases of this guest, or of one in its job: it doesn't hold
    /// those.
    pub(super) fn is_phase_of(&self, other: &Self) -> bool {
        self.is_for_phases && (self.who.pid == other.who.pid || self.shares_job_with(other))
    }

    /// Returns whether it is held (best-effort) or holds (real-time).
    pub(super) fn is_active(&self) -> bool {
        match &self.relay {
            Some(relay) => relay.gates().is_held(),
            None => self.page.holders.is_held(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn program_is_none_if_another_file_has_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        std::fs::write(place.join("a"), "").unwrap();
        let file = std::fs::File::open(place.join("a")).unwrap();
        let link = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        assert_eq!(program_at(&link), Some(place.join("a")));
        std::fs::remove_file(place.join("a")).unwrap();
        std::fs::write(place.join("a (deleted)"), "").unwrap();
        assert_eq!(std::fs::read_link(&link).unwrap(), place.join("a (deleted)"));
        assert_eq!(program_at(&link), None);
        assert!(program_at(Path::new("/proc/self/exe")).is_some());
    }
}
