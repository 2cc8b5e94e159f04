//! Links over sockets of the system.

use super::link::{Control, Link, ReceiveHalf, SendHalf};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a socket's buffers. Small segments take about 1 KiB of it each.
const BUFFER_LEN: usize = 4 << 20;

/// Time after which a peer that acknowledges nothing counts as gone.
pub(super) const PEER_TIMEOUT: Duration = Duration::from_secs(30);

/// Sets what every TCP connection has.
pub(super) fn tcp_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_tcp_user_timeout(stream, PEER_TIMEOUT.as_millis() as u32)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PEER_TIMEOUT / 3)?;
    sockopt::set_tcp_keepintvl(stream, PEER_TIMEOUT / 3)?;
    Ok(())
}

/// Makes a link of a connected, blocking stream socket.
pub(super) fn link(fd: OwnedFd) -> io::Result<Link> {
    sockopt::set_socket_send_buffer_size(&fd, BUFFER_LEN)?;
    sockopt::set_socket_recv_buffer_size(&fd, BUFFER_LEN)?;
    sockopt::set_socket_timeout(&fd, sockopt::Timeout::Send, Some(PEER_TIMEOUT))?;
    let peer = peer(&fd);
    let socket = Arc::new(Socket::new(fd)?);
    Ok(Link {
        send: Box::new(Sending(socket.clone())),
        receive: Box::new(Receiving { socket: socket.clone(), spin: Duration::ZERO }),
        control: socket,
        binding: None,
        peer,
    })
}

/// Returns the other end of a socket, as the system names it.
pub(super) fn peer(socket: impl AsFd) -> String {
    let address = rustix::net::getpeername(&socket).ok().flatten();
    if let Some(Ok(address)) = address.map(SocketAddr::try_from) {
        return address.to_string();
    }
    // A process that is not visible from here has no number.
    let process = sockopt::socket_peercred(&socket);
    process.map(|of| format!("pid {}", of.pid.as_raw_nonzero())).unwrap_or_default()
}

/// A socket, and an event that ends waits for it.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    wake: OwnedFd,
}

impl Socket {
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self { fd, wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    pub(super) fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match send(&self.fd, bytes, SendFlags::NOSIGNAL) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let text = format!("the peer took nothing for {} s", PEER_TIMEOUT.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    pub(super) fn receive(&self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(&self.fd, &mut *to, RecvFlags::empty()) {
                Ok((_, 0)) => {
                    let text = "the peer has closed the connection";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
                }
                Ok((_, count)) => return Ok(count),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns whether there are bytes, or a wake if that counts.
    fn is_ready(&self, sees_wakes: bool) -> io::Result<bool> {
        let mut fds =
            [PollFd::new(&self.fd, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
        let fds = &mut fds[..1 + usize::from(sees_wakes)];
        match poll(fds, Duration::ZERO.try_into().ok().as_ref()) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let mut fds =
            [PollFd::new(&self.fd, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
        let timeout = timeout.and_then(|timeout| timeout.try_into().ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !fds[1].revents().is_empty() {
            let _ = rustix::io::read(self.wake.as_fd(), &mut [0; 8]); // empty: another wait took it
        }
        Ok(!fds[0].revents().is_empty())
    }
}

impl Socket {
    /// Sends one byte that means nothing but that there is something elsewhere.
    ///
    /// # Errors
    ///
    /// Returns an error of the system. A full socket is fine: the peer has bytes to wake for.
    pub(super) fn ring(&self) -> io::Result<()> {
        match send(&self.fd, &[0], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes such bytes. Returns whether the peer has closed the connection.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    pub(super) fn drain(&self) -> io::Result<bool> {
        loop {
            match recv(&self.fd, &mut [0; 64][..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Ok(true),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::CONNRESET) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns whether the peer has closed the connection.
    pub(super) fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::RDHUP)];
        let now = Duration::ZERO.try_into().ok();
        poll(&mut fds, now.as_ref()).is_ok_and(|count| count > 0)
    }

    /// Forgets wakes that have been seen otherwise.
    pub(super) fn forget_wakes(&self) {
        let _ = rustix::io::read(self.wake.as_fd(), &mut [0; 8]); // none is fine
    }
}

impl Control for Socket {
    fn cut(&self) {
        let _ = shutdown(&self.fd, Shutdown::Both); // not connected any more is fine
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes()); // full: it is awake
    }
}

#[derive(Debug)]
struct Sending(Arc<Socket>);

impl SendHalf for Sending {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.send(bytes)
    }
}

#[derive(Debug)]
struct Receiving {
    socket: Arc<Socket>,
    spin: Duration,
}

impl Receiving {
    /// Looks for bytes, or a wake if that counts, until this time is over.
    fn poll(&self, time: Duration, sees_wakes: bool) -> io::Result<()> {
        if time.is_zero() {
            return Ok(());
        }
        let begin = Instant::now();
        while begin.elapsed() < time && !self.socket.is_ready(sees_wakes)? {
            thread::yield_now();
        }
        Ok(())
    }
}

impl ReceiveHalf for Receiving {
    fn receive(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.poll(self.spin, false)?;
        self.socket.receive(to)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        self.poll(timeout.map_or(self.spin, |timeout| timeout.min(self.spin)), true)?;
        self.socket.wait(timeout)
    }

    fn spin_for(&mut self, time: Duration) {
        self.spin = time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn receiver_that_spins_takes_bytes_wakes_and_the_end() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let long = Duration::from_secs(600);
        let Link { mut receive, control, .. } = link(near.into()).unwrap().spin_for(long);
        let waker = thread::spawn(move || {
            // sleep: so that it waits; one that does not yet is woken as well
            thread::sleep(Duration::from_millis(2));
            control.wake();
        });
        assert!(!receive.wait(None).unwrap(), "a wake ends the wait");
        waker.join().unwrap();
        assert!(!receive.wait(Some(Duration::from_millis(2))).unwrap(), "so does the time");
        far.write_all(b"abc").unwrap();
        assert!(receive.wait(None).unwrap());
        assert_eq!(receive.receive(&mut [0; 8]).unwrap(), 3);
        drop(far);
        let end = receive.receive(&mut [0; 8]).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }
}
