//! User of a client on loopback, as the kernel's socket diagnostics (sock_diag(7)) state it.
//!
//! ```text
//! request  nlmsghdr 16 | family, protocol 4 | states 4 | ports 4 | addresses 32 | ...
//! answer   nlmsghdr 16 | family state timer retrans | id 48 | expires rqueue wqueue uid inode
//! ```
//!
//! A closed socket has no inode, and the kernel states user 0 for it, so its answer is not used.

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Length of a request.
const REQUEST_BYTES: usize = 72;

/// Offsets in an answer, and its length up to the inode.
const STATE: usize = 17;
const UID: usize = 80;
const INODE: usize = 84;
const ANSWER_BYTES: usize = 88;

/// `SOCK_DIAG_BY_FAMILY`, the kind of the request and of its answer.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`.
const IS_REQUEST: u16 = 1;
/// `TCP_ESTABLISHED`.
const ESTABLISHED: u8 = 1;
/// `INET_DIAG_NOCOOKIE`, twice.
const NO_COOKIE: [u8; 8] = [0xff; 8];

/// Socket for questions about other sockets.
#[derive(Debug)]
pub(in crate::net) struct LoopbackUsers {
    /// `None`: the kernel has no such sockets.
    netlink: Option<OwnedFd>,
    /// Number of the last question.
    last: AtomicU32,
}

impl LoopbackUsers {
    pub(in crate::net) fn new() -> Self {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(SOCK_DIAG));
        let netlink = socket.inspect_err(|error| tracing::info!(%error, "no socket diagnostics"));
        Self { netlink: netlink.ok(), last: AtomicU32::new(0) }
    }

    /// Returns the user of the client at `from`, connected to `to`, if both are on loopback and the
    /// kernel states it. The kernel answers while the question is sent, so this doesn't wait.
    pub(in crate::net) fn user(&self, from: SocketAddr, to: SocketAddr) -> Option<u32> {
        let [from, to] =
            [from, to].map(|address| SocketAddr::new(address.ip().to_canonical(), address.port()));
        let netlink = self.netlink.as_ref().filter(|_| from.ip().is_loopback())?;
        let number = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(netlink, &request(number, from, to), SendFlags::empty(), &kernel).ok()?;
        let mut answer = [0; 512];
        loop {
            let (bytes, _) = recv(netlink, &mut answer[..], RecvFlags::empty()).ok()?;
            let answer = &answer[..bytes];
            if answer.get(8..12) == Some(&number.to_ne_bytes()) {
                return user(answer); // an earlier one that was not read is skipped
            }
        }
    }
}

/// Asks for the socket of the client.
fn request(number: u32, client: SocketAddr, ours: SocketAddr) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, &(REQUEST_BYTES as u32).to_ne_bytes());
    put(4, &BY_FAMILY.to_ne_bytes());
    put(6, &IS_REQUEST.to_ne_bytes());
    put(8, &number.to_ne_bytes());
    let family = if client.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    put(16, &[family.as_raw() as u8, libc::IPPROTO_TCP as u8]);
    put(20, &u32::MAX.to_ne_bytes()); // in any state
    for (at, socket) in [(0, client), (1, ours)] {
        put(24 + 2 * at, &socket.port().to_be_bytes());
        match socket.ip() {
            IpAddr::V4(v4) => put(28 + 16 * at, &v4.octets()),
            IpAddr::V6(v6) => put(28 + 16 * at, &v6.octets()),
        }
    }
    put(64, &NO_COOKIE);
    bytes
}

/// Reads the user of a connected socket. An error has another kind.
fn user(answer: &[u8]) -> Option<u32> {
    let word = |at: usize| answer.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let is_answer = answer.len() >= ANSWER_BYTES && answer[4..6] == BY_FAMILY.to_ne_bytes();
    let is_open = is_answer && answer[STATE] == ESTABLISHED && word(INODE)? != 0;
    is_open.then(|| word(UID)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn user_of_an_open_client_is_stated() {
        let users = LoopbackUsers::new();
        if users.netlink.is_none() {
            return reef_conformance::skip("no socket diagnostics");
        }
        let me = rustix::process::getuid().as_raw();
        for address in ["127.0.0.1:0", "127.3.2.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                reef_conformance::skip(&format!("no {address}"));
                continue;
            };
            let mut to = listener.local_addr().unwrap();
            if to.ip().is_unspecified() {
                to.set_ip([127, 0, 0, 1].into()); // as a client of IPv4 sees it
            }
            let client = TcpStream::connect(to).unwrap();
            let (served, from) = listener.accept().unwrap();
            let own = served.local_addr().unwrap();
            assert_eq!(users.user(from, own), Some(me), "{address}");
            assert_eq!(users.user(own, from), Some(me), "the other end is ours as well");
            drop(client);
            assert_eq!(users.user(from, own), None, "{address}: it is closed");
        }
    }

    #[test]
    fn client_that_is_not_on_loopback_has_no_user() {
        let (far, ours) = (([192, 0, 2, 1], 4000).into(), ([192, 0, 2, 2], 80).into());
        assert_eq!(LoopbackUsers::new().user(far, ours), None);
        let (none, ours) = (([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into());
        assert_eq!(LoopbackUsers::new().user(none, ours), None, "there is no such socket");
    }

    #[test]
    fn short_answer_states_no_user() {
        for bytes in [0, 4, 16, 17, 87] {
            assert_eq!(user(&vec![1; bytes]), None, "{bytes} bytes");
        }
    }
}
