//! Guest's end of the connection.

use super::guest_info::GuestInfo;
use super::wire::{JoinRequest, MemoryRequest, Message, receive, send};
use crate::page::file::PageFile;
use crate::page::layout::{Class, Identity};
use crate::page::mapping::Mapping;
use reef_files::descriptors::above_standard;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Least timeout of a socket: zero means none.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);

/// Reason for which there is no page.
#[derive(Debug)]
pub enum Refusal {
    /// There is no daemon, or it stopped answering.
    Unreachable(io::Error),
    /// The daemon refused, with its reason.
    Refused(String),
    /// The message can't be decoded: the other side is of another version, or not a daemon.
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

/// Guest that has its page.
#[derive(Debug)]
pub struct Joined {
    /// Its identity, with the class that was granted.
    pub who: Identity,
    /// Mapping of its page.
    pub page: Mapping,
    /// File of the page, which is offered to the next daemon if this one ends: see [`rejoin`].
    pub file: PageFile,
    /// Connection, which must live as long as the guest.
    pub link: Link,
}

/// Connection to the daemon. Dropping it ends the guest. The daemon sends nothing more: the
/// connection's end is the guest's end.
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

/// Joins as [`join`] does, for a guest with a job or a token.
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

/// Joins as [`join_as`] does, for a guest whose daemon has ended. It offers the page that it has,
/// because graphs on its device may have gates that wait there. A daemon of this version takes the
/// page: [`PageFile::is_same`] says whether it did.
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

/// Asks which class the daemon at `path` would give to a program with this executable file, if this
/// user ran it.
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
    let link = Link::connect(path, until)?;
    let question = Message::Ask(*request, info.clone());
    link.say(&question, Some(file.as_fd()))?;
    match link.wait(until)? {
        (Message::Granted(class), _) => Ok(class),
        (other, _) => Err(refusal(other)),
    }
}

/// Asks the daemon at `path` to free memory of a device for this real-time program, and waits for
/// no longer than `time`. The daemon suspends best-effort programs until there is room.
///
/// # Errors
///
/// See [`Refusal`]; `Refused` says how much is free, or that the daemon suspends nothing.
pub fn ask_for_memory(
    path: &Path,
    request: &MemoryRequest,
    info: &GuestInfo,
    time: Duration,
) -> Result<(), Refusal> {
    let until = Instant::now() + time;
    let link = Link::connect(path, until)?;
    link.say(&Message::Memory(*request, info.clone()), None)?;
    match link.wait(until)? {
        (Message::Granted(_), _) => Ok(()),
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
    let link = Link::connect(path, until)?;
    let request = Message::Join(*request, info.clone());
    link.say(&request, page.map(AsFd::as_fd))?;
    link.answer(until)
}

impl Link {
    /// Connects until this time: a daemon that accepts nothing, such as one that is stopped, leaves
    /// no room for connections after some.
    fn connect(path: &Path, until: Instant) -> Result<Self, Refusal> {
        let (flags, family) = (SocketFlags::CLOEXEC, AddressFamily::UNIX);
        let socket = socket_with(family, SocketType::SEQPACKET, flags, None);
        let socket = socket.map_err(unreachable)?;
        let link = Self(above_standard(socket).map_err(Refusal::Unreachable)?);
        let address = SocketAddrUnix::new(path).map_err(unreachable)?;
        loop {
            let left = until.saturating_duration_since(Instant::now()).max(MIN_TIMEOUT);
            let _ = set_socket_timeout(&link.0, Timeout::Send, Some(left)); // or it has no bound
            match connect(&link.0, &address) {
                Err(Errno::INTR) if Instant::now() < until => {}
                Err(Errno::AGAIN | Errno::INTR) => {
                    return Err(Refusal::Unreachable(io::ErrorKind::TimedOut.into()));
                }
                Err(error) => return Err(unreachable(error)),
                Ok(()) => return Ok(link),
            }
        }
    }

    /// Sends a message. A daemon that has closed its end may have sent the reason, so that isn't an
    /// error here.
    fn say(&self, message: &Message, file: Option<BorrowedFd<'_>>) -> Result<(), Refusal> {
        match send(&self.0, message, file) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Refusal::Unreachable(error))
            }
            _ => Ok(()),
        }
    }

    /// Waits for the next message until this time.
    fn wait(&self, until: Instant) -> Result<(Message, Option<OwnedFd>), Refusal> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !is_ready(&self.0, left) && left.is_zero() {
                return Err(Refusal::Unreachable(io::ErrorKind::TimedOut.into()));
            }
            match receive(&self.0) {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {}
                // It has closed its end, with our message unread; its answer comes after this.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                Err(error) => return Err(not_understood(error)),
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
        let file = above_standard(file).map_err(Refusal::Unreachable)?;
        let (who, file, page) = PageFile::open(file).map_err(Refusal::Unreachable)?;
        Ok(Joined { who, page, file, link: self })
    }

    /// Sleeps until the daemon has gone, or has revoked the guest, or the guest `leaves`, which is
    /// asked at this interval.
    pub fn wait_for_end(&self, interval: Duration, leaves: impl Fn() -> bool) {
        while !self.is_over() && !leaves() {
            is_ready(&self.0, interval);
        }
    }

    /// Returns whether the daemon has gone, or has revoked the guest. Doesn't block; see [`AsFd`]
    /// for waiting.
    pub fn is_over(&self) -> bool {
        !matches!(receive(&self.0), Ok(None))
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns the refusal that an unexpected answer means.
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

fn unreachable(error: Errno) -> Refusal {
    Refusal::Unreachable(error.into())
}

/// Returns whether a message or the end of the connection comes within `time`.
fn is_ready(socket: &OwnedFd, time: Duration) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    let time = Timespec::try_from(time).ok();
    matches!(poll(&mut fds, time.as_ref()), Ok(ready) if ready > 0)
}
