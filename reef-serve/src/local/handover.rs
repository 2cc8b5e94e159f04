//! Messages over the Unix socket, one of them with a file descriptor.

use crate::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Sends a message, and a file descriptor with its first byte.
///
/// # Errors
///
/// `Unavailable` if the other side is gone.
pub(super) fn send(mut stream: &UnixStream, bytes: &[u8], fd: Option<&OwnedFd>) -> Result<()> {
    let fds = fd.map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    if let Some(fd) = &fds {
        along.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(fd)));
    }
    let sent = sendmsg(stream, &[IoSlice::new(bytes)], &mut along, SendFlags::NOSIGNAL);
    let sent = sent.map_err(|e| gone(&e))?;
    stream.write_all(&bytes[sent..]).map_err(|e| gone(&e))
}

/// Receives a message of this length, and the file descriptor that came with it.
///
/// # Errors
///
/// As [`send`].
pub(super) fn receive(mut stream: &UnixStream, bytes: &mut [u8]) -> Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut along = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(stream, &mut [IoSliceMut::new(bytes)], &mut along, flags);
    let got = got.map_err(|e| gone(&e))?.bytes;
    if got == 0 {
        return Err(gone(&"closed"));
    }
    let mut fd = None;
    for message in along.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            fd = fds.last(); // others are closed
        }
    }
    stream.read_exact(&mut bytes[got..]).map_err(|e| gone(&e))?;
    Ok(fd)
}

/// Whether the other side has closed its end, or says what it shouldn't.
pub(super) fn is_over(stream: &UnixStream) -> bool {
    is_ready(stream, Duration::ZERO)
}

/// Whether there is something to receive or accept, or the end, within `time`.
pub(super) fn is_ready(socket: &impl AsFd, time: Duration) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN | PollFlags::RDHUP)];
    let time = Timespec::try_from(time).ok();
    !matches!(poll(&mut fds, time.as_ref()), Ok(0) | Err(rustix::io::Errno::INTR))
}

fn gone(why: &dyn std::fmt::Display) -> Error {
    Error::Unavailable(format!("the other side is gone: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_file_goes_along_and_the_end_is_seen() {
        let (a, b) = UnixStream::pair().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        send(&a, b"hello", Some(&writer.into())).unwrap();
        let mut bytes = [0; 5];
        let fd = receive(&b, &mut bytes).unwrap().unwrap();
        assert_eq!(&bytes, b"hello");
        File::from(fd).write_all(b"!").unwrap();
        let mut said = String::new();
        File::from(OwnedFd::from(reader)).read_to_string(&mut said).unwrap();
        assert_eq!(said, "!");
        assert!(!is_over(&b));
        drop(a);
        assert!(is_over(&b));
        assert!(matches!(receive(&b, &mut bytes), Err(Error::Unavailable(_))));
    }
}
