//! Messages over UNIX sockets that bring a file descriptor along.
//!
//! A call that a signal interrupts before its first byte is made again. Received descriptors are
//! closed on `exec`.

use rustix::io::{fcntl_dupfd_cloexec, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// First number after those of the standard streams.
const FIRST: i32 = 3;

/// Moves a descriptor away from the numbers of the standard streams. A program that has closed one
/// of these may still write to it, and the file or peer behind this descriptor would get that.
///
/// # Errors
///
/// An error of the system, if this process may have no other number.
pub fn above_standard(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    if descriptor.as_raw_fd() >= FIRST {
        return Ok(descriptor);
    }
    Ok(fcntl_dupfd_cloexec(&descriptor, FIRST)?)
}

/// Result of receiving: bytes are in the caller's buffer.
#[derive(Debug)]
pub struct Message {
    /// Number of bytes. It is 0 if the other end is gone.
    pub bytes: usize,
    /// True if the message was longer than the buffer. The rest of it is lost.
    pub is_truncated: bool,
    /// Last descriptor that came along. All others are closed, so a peer that sends many uses up
    /// none of this process's. `None` also if this process may have no more of them.
    pub descriptor: Option<OwnedFd>,
}

/// Sends bytes, and a descriptor with the first of them. Waits for room.
///
/// Returns how many bytes were sent: a stream may take fewer than all.
///
/// # Errors
///
/// An error of the system, if the other end is gone.
pub fn send(
    socket: impl AsFd,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<usize> {
    send_with(socket.as_fd(), bytes, descriptor, SendFlags::NOSIGNAL)
}

/// Sends as [`send`], and never waits.
///
/// # Errors
///
/// Returns the errors of [`send`]; `WouldBlock` if there is no room.
pub fn try_send(
    socket: impl AsFd,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<usize> {
    send_with(socket.as_fd(), bytes, descriptor, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

fn send_with(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
    flags: SendFlags,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    if let Some(descriptor) = &descriptor {
        along.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptor)));
    }
    Ok(retry_on_intr(|| sendmsg(socket, &[IoSlice::new(bytes)], &mut along, flags))?)
}

/// Waits for a message, or for the first bytes of a stream.
///
/// # Errors
///
/// An error of the system; `WouldBlock` at the socket's timeout.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<Message> {
    receive_with(socket.as_fd(), bytes, RecvFlags::empty())
}

/// Waits until a stream has filled all of `bytes`. Fewer come if the stream ends, at the socket's
/// timeout, which is for all of them, or if a signal interrupts the call between two of them.
///
/// # Errors
///
/// Returns the errors of [`receive`], if no byte came.
pub fn receive_all(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<Message> {
    receive_with(socket.as_fd(), bytes, RecvFlags::WAITALL)
}

/// Receives as [`receive`], and never waits.
///
/// # Errors
///
/// An error of the system; `WouldBlock` if there is no message.
pub fn try_receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<Message> {
    receive_with(socket.as_fd(), bytes, RecvFlags::DONTWAIT)
}

fn receive_with(socket: BorrowedFd<'_>, bytes: &mut [u8], flags: RecvFlags) -> io::Result<Message> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut along = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let got = retry_on_intr(|| {
        let to = &mut [IoSliceMut::new(bytes)];
        recvmsg(socket, to, &mut along, flags)
    })?;
    let mut descriptor = None;
    for message in along.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            descriptor = descriptors.last();
        }
    }
    let is_truncated = got.flags.contains(ReturnFlags::TRUNC);
    Ok(Message { bytes: got.bytes, is_truncated, descriptor })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn surplus_file_descriptors_are_closed() {
        let (a, b) = UnixStream::pair().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let fds = [writer.as_fd(); 8];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut along = SendAncillaryBuffer::new(&mut space);
        assert!(along.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&a, &[IoSlice::new(b"hello")], &mut along, SendFlags::NOSIGNAL).unwrap();
        drop(receive_all(&b, &mut [0; 5]).unwrap());
        drop(writer);
        let mut said = String::new();
        File::from(OwnedFd::from(reader)).read_to_string(&mut said).unwrap();
        assert_eq!(said, "", "no process has the other end any more");
    }

    #[test]
    fn message_longer_than_the_buffer_is_truncated() {
        let flags = SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (near, far) = pair.unwrap();
        let none = try_receive(&far, &mut [0; 4]).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(send(&near, b"hello", None).unwrap(), 5);
        assert_eq!(try_send(&near, b"four", Some(near.as_fd())).unwrap(), 4);
        let mut bytes = [0; 4];
        let long = receive(&far, &mut bytes).unwrap();
        assert!(long.bytes == 4 && long.is_truncated && long.descriptor.is_none(), "{long:?}");
        let short = receive(&far, &mut bytes).unwrap();
        assert!(short.bytes == 4 && !short.is_truncated && short.descriptor.is_some());
        assert_eq!(&bytes, b"four");
    }
}
