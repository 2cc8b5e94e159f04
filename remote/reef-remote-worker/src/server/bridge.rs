//! Bytes between a link and a socket: of a client and the worker of its session, or of a worker and
//! another server.

use reef_wire::{Control, Link, ReceiveHalf, SendHalf};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Bytes that are migrated at once.
const BUFFER_LEN: usize = 256 << 10;

/// Carries bytes between a link and a socket, on two threads, until one of them ends. A link that
/// times out leaves the socket open for `linger`.
///
/// # Errors
///
/// The system's, if there is no thread.
pub(super) fn bridge(link: Link, socket: UnixStream, linger: Duration) -> io::Result<()> {
    let Link { send, receive, control, .. } = link;
    let (from, closer) = (socket.try_clone()?, control.clone());
    let back = move || to_link(from, send, &closer);
    thread::Builder::new().name("reef-bridge-out".into()).spawn(back)?;
    let there = move || to_socket(receive, &socket, &control, linger);
    thread::Builder::new().name("reef-bridge-in".into()).spawn(there).map(|_| ())
}

fn to_socket(
    mut from: Box<dyn ReceiveHalf>,
    mut to: &UnixStream,
    control: &Arc<dyn Control>,
    linger: Duration,
) {
    let mut buffer = vec![0; BUFFER_LEN];
    let end = loop {
        match from.receive(&mut buffer) {
            Ok(count) => {
                if to.write_all(&buffer[..count]).is_err() {
                    break None; // its process has another connection, or has ended
                }
            }
            Err(error) => break Some(error.kind()),
        }
    };
    control.cut();
    let is_closed = |kind| matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset);
    if end.is_some_and(|kind| !is_closed(kind)) {
        wait_for_close(to, linger);
    }
    let _ = to.shutdown(Shutdown::Both); // closed is fine
}

fn to_link(mut from: UnixStream, mut to: Box<dyn SendHalf>, control: &Arc<dyn Control>) {
    let mut buffer = vec![0; BUFFER_LEN];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.send(&buffer[..count]).is_err() {
            break; // the other thread sees the reason
        }
    }
    control.cut();
}

/// Waits until the other process has closed its end, for a limited time.
fn wait_for_close(socket: &UnixStream, timeout: Duration) {
    let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: 0 };
    let _ = poll(&mut fds, Some(&timeout)); // an interrupted wait is a shorter one
}
