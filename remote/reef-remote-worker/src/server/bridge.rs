//! Bytes between a link and a socket: of a client and the worker of its session, or of a worker and
//! another server.

use crate::state::lock::lock;
use reef_wire::{Control, Link, ReceiveHalf, SendHalf};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

/// Bytes that are migrated at once.
const BUFFER_LEN: usize = 256 << 10;

/// Both ends of a bridge, as long as its threads run.
#[derive(Debug)]
pub(super) struct Bridge {
    control: Arc<dyn Control>,
    socket: UnixStream,
}

impl Bridge {
    /// Closes both ends. The threads end soon, whatever they wait for.
    pub(super) fn cut(&self) {
        self.control.cut();
        let _ = self.socket.shutdown(Shutdown::Both); // closed is fine
    }
}

/// Last bridge of each of a worker's sessions.
#[derive(Debug, Default)]
pub(super) struct Bridges(Mutex<HashMap<[u8; 16], Weak<Bridge>>>);

impl Bridges {
    /// Notes the bridge of a session, and cuts the one before: a session has one connection.
    pub(super) fn replace(&self, session: [u8; 16], bridge: Weak<Bridge>) {
        let former = lock(&self.0).insert(session, bridge);
        if let Some(former) = former.and_then(|former| former.upgrade()) {
            former.cut();
        }
    }
}

/// Carries bytes between a link and a socket, on two threads, until one of them ends. A link that
/// times out leaves the socket open for `linger`.
///
/// # Errors
///
/// An error of the system, if there is no thread.
pub(super) fn bridge(link: Link, socket: UnixStream, linger: Duration) -> io::Result<Weak<Bridge>> {
    let Link { send, receive, control, .. } = link;
    let ends = Arc::new(Bridge { control, socket });
    let (own, bridge) = (ends.clone(), Arc::downgrade(&ends));
    let back = move || to_link(&own, send);
    thread::Builder::new().name("reef-bridge-out".into()).spawn(back)?;
    let there = move || to_socket(receive, &ends, linger);
    thread::Builder::new().name("reef-bridge-in".into()).spawn(there)?;
    Ok(bridge)
}

fn to_socket(mut from: Box<dyn ReceiveHalf>, ends: &Bridge, linger: Duration) {
    let mut to = &ends.socket;
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
    ends.control.cut();
    let is_closed = |kind| matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset);
    if end.is_some_and(|kind| !is_closed(kind)) {
        wait_for_close(to, linger);
    }
    let _ = to.shutdown(Shutdown::Both); // closed is fine
}

fn to_link(ends: &Bridge, mut to: Box<dyn SendHalf>) {
    let mut from = &ends.socket;
    let mut buffer = vec![0; BUFFER_LEN];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.send(&buffer[..count]).is_err() {
            break; // the other thread sees the reason
        }
    }
    ends.control.cut();
}

/// Waits until the other process has closed its end, for a limited time.
fn wait_for_close(socket: &UnixStream, timeout: Duration) {
    let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: 0 };
    let _ = poll(&mut fds, Some(&timeout)); // an interrupted wait is a shorter one
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// A bridge, and the sockets at its ends, which are full as far as it has not read them.
    fn full() -> (Weak<Bridge>, [UnixStream; 2]) {
        let (client, link) = UnixStream::pair().unwrap();
        let (near, worker) = UnixStream::pair().unwrap();
        let link = Link::unix(link).unwrap();
        let bridge = bridge(link, near, Duration::from_secs(600)).unwrap();
        for mut end in [&client, &worker] {
            end.set_nonblocking(true).unwrap();
            while end.write(&[0; 4096]).is_ok() {}
        }
        (bridge, [client, worker])
    }

    fn await_end(bridge: &Weak<Bridge>) {
        let begin = Instant::now();
        while bridge.upgrade().is_some() {
            assert!(begin.elapsed() < Duration::from_secs(60), "its threads run");
            thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
        }
    }

    #[test]
    fn bridge_of_a_session_ends_when_the_next_one_begins() {
        let bridges = Bridges::default();
        let (first, _first_ends) = full();
        let (other, _other_ends) = full();
        let (second, _second_ends) = full();
        bridges.replace([1; 16], first.clone());
        bridges.replace([2; 16], other.clone());
        bridges.replace([1; 16], second.clone());
        await_end(&first);
        assert!(other.upgrade().is_some() && second.upgrade().is_some());
    }
}
