//! The two halves of a link.

use super::ring::{Receiver, Rings, Sender};
use crate::transport::link::{Control, Link, ReceiveHalf, SendHalf};
use crate::transport::socket::{PEER_TIMEOUT, Socket, peer};
use reef_files::{Mapping, descriptors};
use rustix::net::sockopt;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time for which a receiver looks for bytes, and a sender for room, before it sleeps, unless it is
/// told another.
const SPIN: Duration = Duration::from_micros(20);
/// Time between two polls of a sender for room.
const FULL_INTERVAL: Duration = Duration::from_micros(100);
/// Time within which a client must send its memory.
const OFFER_TIMEOUT: Duration = Duration::from_secs(10);

/// Memory and socket of a link.
#[derive(Debug)]
struct Connection {
    mapping: Mapping,
    socket: Socket,
    /// Ring that this end sends by; it receives by the other one.
    own: usize,
    is_cut: AtomicBool,
    is_woken: AtomicBool,
}

impl Link {
    /// A link through memory that this end makes, and sends to the peer of a UNIX socket.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    pub fn share(stream: UnixStream) -> io::Result<Self> {
        let (mapping, file) = Rings::create()?;
        descriptors::send(&stream, &[0], Some(file.as_fd()))?;
        link(mapping, stream, 0)
    }

    /// A link through the memory that the peer of a UNIX socket has made.
    ///
    /// # Errors
    ///
    /// `InvalidData` for a peer that sends none within 10 s, or one that can shrink; an error of
    /// the system.
    pub fn shared(stream: UnixStream) -> io::Result<Self> {
        sockopt::set_socket_timeout(&stream, sockopt::Timeout::Recv, Some(OFFER_TIMEOUT))?;
        let offer = descriptors::receive(&stream, &mut [0])?;
        sockopt::set_socket_timeout(&stream, sockopt::Timeout::Recv, None)?;
        let text = "shared memory: the peer sent none";
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, text);
        let file = offer.descriptor.ok_or_else(invalid)?;
        link(Rings::open(file)?, stream, 1)
    }
}

fn link(mapping: Mapping, stream: UnixStream, own: usize) -> io::Result<Link> {
    let (peer, socket) = (peer(&stream), Socket::new(stream.into())?);
    let (is_cut, is_woken) = (AtomicBool::new(false), AtomicBool::new(false));
    let connection = Arc::new(Connection { mapping, socket, own, is_cut, is_woken });
    Ok(Link {
        send: Box::new(Sending { connection: connection.clone(), end: Sender::default() }),
        receive: Box::new(Receiving {
            connection: connection.clone(),
            end: Receiver::default(),
            is_closed: false,
            spin: SPIN,
        }),
        control: connection,
        binding: None,
        peer,
    })
}

impl Connection {
    fn check(&self) -> io::Result<()> {
        if self.is_cut.load(Ordering::Relaxed) {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the connection is cut"));
        }
        Ok(())
    }
}

impl Control for Connection {
    fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        self.socket.cut();
    }

    fn wake(&self) {
        self.is_woken.store(true, Ordering::Release);
        self.socket.wake();
    }
}

#[derive(Debug)]
struct Sending {
    connection: Arc<Connection>,
    end: Sender,
}

impl SendHalf for Sending {
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let ring = Rings::of(&self.connection.mapping, self.connection.own);
        let mut begin = None;
        while !bytes.is_empty() {
            self.connection.check()?;
            let (count, must_wake) = ring.put(&mut self.end, bytes)?;
            bytes = &bytes[count..];
            if must_wake {
                self.connection.socket.ring()?;
            }
            if count > 0 {
                begin = None;
                continue;
            }
            let begin = begin.get_or_insert_with(Instant::now);
            if begin.elapsed() > PEER_TIMEOUT {
                let text = format!("the peer took nothing for {} s", PEER_TIMEOUT.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            if begin.elapsed() < SPIN {
                thread::yield_now();
                continue;
            }
            if self.connection.socket.is_gone() {
                return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the peer is gone"));
            }
            thread::sleep(FULL_INTERVAL);
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Receiving {
    connection: Arc<Connection>,
    end: Receiver,
    /// The peer has closed the socket. What it sent before is still taken.
    is_closed: bool,
    spin: Duration,
}

impl ReceiveHalf for Receiving {
    fn receive(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let ring = Rings::of(&self.connection.mapping, 1 - self.connection.own);
            let count = ring.take(&mut self.end, to)?;
            if count > 0 || to.is_empty() {
                return Ok(count);
            }
            self.connection.check()?;
            if self.is_closed {
                let text = "the peer has closed the connection";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            self.wait(None)?;
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        let ring = Rings::of(&self.connection.mapping, 1 - self.connection.own);
        let is_ready = |end: &Receiver, is_closed: bool| {
            ring.has_bytes(end) || is_closed || self.connection.is_cut.load(Ordering::Relaxed)
        };
        let spin = timeout.map_or(self.spin, |timeout| timeout.min(self.spin));
        let begin = Instant::now();
        loop {
            if is_ready(&self.end, self.is_closed) {
                return Ok(true);
            }
            if self.connection.is_woken.swap(false, Ordering::Acquire) {
                self.connection.socket.forget_wakes();
                return Ok(false);
            }
            if begin.elapsed() >= spin {
                break;
            }
            for _ in 0..64 {
                std::hint::spin_loop();
            }
            thread::yield_now();
        }
        let has_rung = ring.sent.sleep_at(self.end.0, || {
            let left = timeout.map(|time| time.saturating_sub(spin));
            let has_rung = self.connection.socket.wait(left);
            self.connection.is_woken.store(false, Ordering::Relaxed);
            has_rung
        });
        if has_rung.transpose()? == Some(true) {
            self.is_closed |= self.connection.socket.drain()?;
        }
        Ok(is_ready(&self.end, self.is_closed))
    }

    fn spin_for(&mut self, time: Duration) {
        self.spin = time.max(SPIN);
    }
}
