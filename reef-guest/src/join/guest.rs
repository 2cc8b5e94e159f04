//! The guest's end of the connection.

use super::guest_info::GuestInfo;
use super::wire::{JoinRequest, Message, receive, send};
use crate::page::file::PageFile;
use crate::page::layout::{Class, Identity};
use crate::page::mapping::Mapping;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Why there is no page.
#[derive(Debug)]
pub enum Refusal {
    /// No daemon, or it stopped answering.
    Unreachable(io::Error),
    /// The daemon said no, and why.
    Refused(String),
    /// It says what this program doesn't understand: it is of another version, or no daemon.
    Foreign(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(out, "the daemon can't be reached: {error}"),
            Self::Refused(why) => write!(out, "the daemon refuses: {why}"),
            Self::Foreign(why) => write!(out, "the daemon isn't of this version: {why}"),
        }
    }
}

impl std::error::Error for Refusal {}

/// A guest that has its page.
#[derive(Debug)]
pub struct Joined {
    /// Who it is, its class being the one that was granted.
    pub who: Identity,
    /// Its page.
    pub page: Mapping,
    /// The page's memory, to be offered to the next daemon if this one goes: see [`rejoin`].
    pub file: PageFile,
    /// The connection, for as long as it is a guest.
    pub link: Link,
}

/// The connection. Dropping it leaves. The daemon says nothing more: its end is the end of the
/// guest.
#[derive(Debug)]
pub struct Link(OwnedFd);

/// Connects to the daemon at `path` and asks for a page, for no longer than `time`.
///
/// # Errors
///
/// See [`Refusal`].
pub fn join(path: &Path, request: &JoinRequest, time: Duration) -> Result<Joined, Refusal> {
    join_as(path, request, &GuestInfo::default(), time)
}

/// As [`join`], for a guest that shows a job or a token.
///
/// # Errors
///
/// See [`Refusal`].
pub fn join_as(
    path: &Path,
    request: &JoinRequest,
    info: &GuestInfo,
    time: Duration,
) -> Result<Joined, Refusal> {
    ask(path, request, info, None, time)
}

/// As [`join_as`], for a guest whose daemon has gone: it offers the page that it has, because its
/// device may have gates for good that wait there. A daemon of this version takes it; whether it
/// did, [`PageFile::is_same`] says.
///
/// # Errors
///
/// See [`Refusal`].
pub fn rejoin(
    path: &Path,
    request: &JoinRequest,
    info: &GuestInfo,
    page: &PageFile,
    time: Duration,
) -> Result<Joined, Refusal> {
    ask(path, request, info, Some(page), time)
}

/// Which class the daemon at `path` would give to a program with this executable file, if this user
/// ran it.
///
/// # Errors
///
/// See [`Refusal`]; `Unreachable` also if there is no such file.
pub fn would_join(
    path: &Path,
    request: &JoinRequest,
    info: &GuestInfo,
    program: &Path,
    time: Duration,
) -> Result<Class, Refusal> {
    let until = Instant::now() + time;
    let file = open(program, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(unreachable)?;
    let link = Link::connect(path)?;
    let question = Message::Ask(*request, info.clone());
    link.say(&question, Some(file.as_fd()))?;
    match link.wait(until)? {
        (Message::Granted(class), _) => Ok(class),
        (other, _) => Err(refusal(other)),
    }
}

fn ask(
    path: &Path,
    request: &JoinRequest,
    info: &GuestInfo,
    page: Option<&PageFile>,
    time: Duration,
) -> Result<Joined, Refusal> {
    let until = Instant::now() + time;
    let link = Link::connect(path)?;
    let request = Message::Join(*request, info.clone());
    link.say(&request, page.map(AsFd::as_fd))?;
    link.answer(until)
}

impl Link {
    fn connect(path: &Path) -> Result<Self, Refusal> {
        let (flags, family) = (SocketFlags::CLOEXEC, AddressFamily::UNIX);
        let socket = socket_with(family, SocketType::SEQPACKET, flags, None);
        let link = Self(socket.map_err(unreachable)?);
        let address = SocketAddrUnix::new(path).map_err(unreachable)?;
        connect(&link.0, &address).map_err(unreachable)?;
        Ok(link)
    }

    /// Says something. A daemon that doesn't listen any more may have said why.
    fn say(&self, message: &Message, file: Option<BorrowedFd<'_>>) -> Result<(), Refusal> {
        match send(&self.0, message, file) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Refusal::Unreachable(error))
            }
            _ => Ok(()),
        }
    }

    /// The next message, until then.
    fn wait(&self, until: Instant) -> Result<(Message, Option<OwnedFd>), Refusal> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !is_ready(&self.0, left) && left.is_zero() {
                return Err(Refusal::Unreachable(io::ErrorKind::TimedOut.into()));
            }
            if let Some(message) = receive(&self.0).map_err(not_understood)? {
                return Ok(message);
            }
        }
    }

    fn answer(self, until: Instant) -> Result<Joined, Refusal> {
        match self.wait(until)? {
            (Message::Page(_), Some(file)) => self.joined(file),
            (other, _) => Err(refusal(other)),
        }
    }

    fn joined(self, file: OwnedFd) -> Result<Joined, Refusal> {
        let (who, file, page) = PageFile::open(file).map_err(Refusal::Unreachable)?;
        Ok(Joined { who, page, file, link: self })
    }

    /// Sleeps until the daemon has gone, or has revoked the guest.
    pub fn wait_for_end(&self) {
        while !self.is_over() {
            let _ = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None); // whatever wakes it, it looks
        }
    }

    /// Whether the daemon has gone, or has revoked the guest. Doesn't block; see [`AsFd`] for
    /// waiting.
    pub fn is_over(&self) -> bool {
        !matches!(receive(&self.0), Ok(None))
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What an answer means that isn't the one that was asked for.
fn refusal(answer: Message) -> Refusal {
    match answer {
        Message::Refused(why) => Refusal::Refused(why),
        other => Refusal::Refused(format!("it says {other:?}")),
    }
}

fn not_understood(error: io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::InvalidData => Refusal::Foreign(error.to_string()),
        _ => Refusal::Unreachable(error),
    }
}

fn unreachable(error: rustix::io::Errno) -> Refusal {
    Refusal::Unreachable(error.into())
}

/// Whether there is something to receive, or the end, within `time`.
fn is_ready(socket: &OwnedFd, time: Duration) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    let time = Timespec::try_from(time).ok();
    matches!(poll(&mut fds, time.as_ref()), Ok(ready) if ready > 0)
}
