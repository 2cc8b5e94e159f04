//! The socket between a server and one of its workers: messages of their own, and connections.
//!
//! The server greets each client and keeps all secrets. What a worker gets is a connection whose
//! client may have its session.

use reef_files::descriptors;
use reef_remote::server::Resource;
use reef_wire::{Hello, Key, Moved, Traffic, codec};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Maximum number of bytes of a message.
const MAX_LEN: usize = 16 << 10;

/// Message of a server to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// A client's connection, which comes along, and the client's end. A new session gets this
    /// name.
    Arrived { hello: Hello, name: [u8; 16], is_tcp: bool, peer: String },
    /// The worker must say its status.
    Ask,
    /// The session must end, and its client is told why.
    End(String),
    /// Answer to a reservation: whether there is room for it.
    Reserved(bool),
    /// The server has heard what the worker said: whether it takes notice.
    Noted(bool),
}

/// Message of a worker to its server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum FromWorker {
    /// State of its session.
    Status(Status),
    /// The session is about to take an amount of a resource.
    Reserve(Resource, u64),
    /// It has given it back.
    Release(Resource, u64),
    /// The worker has a session of this name, which another server had.
    Adopted { name: [u8; 16], key: Key },
    /// The session of this name is at another server.
    Moved { name: [u8; 16], moved: Moved },
}

/// State of a session, as its worker says it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) traffic: Traffic,
    /// Calls that came by themselves.
    pub(crate) single_calls: u64,
    /// Calls that came in records.
    pub(crate) replayed_calls: u64,
    /// Bytes of the device's memory that the program has allocated.
    pub(crate) memory_bytes: u64,
}

/// Makes the two ends.
///
/// # Errors
///
/// Returns an error of the system.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Sends a message, and a connection along with it.
///
/// # Errors
///
/// The other end is gone.
pub(crate) fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    connection: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    descriptors::send(socket, &encode(message)?, connection).map(|_| ())
}

/// As [`send`], and never waits: a process that reads none any more misses it.
///
/// # Errors
///
/// The other end is gone, or has not read the messages before.
pub(crate) fn offer(
    socket: impl AsFd,
    message: &impl Serialize,
    connection: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    descriptors::try_send(socket, &encode(message)?, connection).map(|_| ())
}

fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    codec::write(message).map_err(io::Error::other)
}

/// Waits for a message, and returns it with the connection that came along.
///
/// # Errors
///
/// `UnexpectedEof` if the other end is gone; `InvalidData` for a message that cannot be.
pub(crate) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<(T, Option<OwnedFd>)> {
    let mut bytes = vec![0; MAX_LEN];
    let got = descriptors::receive(socket, &mut bytes)?;
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if got.is_truncated {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    let message = codec::read(&bytes[..got.bytes]);
    let invalid = |e| io::Error::new(io::ErrorKind::InvalidData, e);
    Ok((message.map_err(invalid)?, got.descriptor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_for_a_process_that_reads_nothing_is_refused() {
        let (near, _far) = pair().unwrap();
        let (connection, _other) = pair().unwrap();
        let connection = Some(connection.as_fd());
        let refused = (0..100_000).find_map(|_| offer(&near, &ToWorker::Ask, connection).err());
        assert!(refused.is_some(), "no message waits for room");
    }
}
