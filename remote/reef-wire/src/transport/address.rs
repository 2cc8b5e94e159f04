//! Addresses as text.

use super::link::Link;
use super::socket;
use super::tls::TlsClient;
use crate::error::{Error, Result};
use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Address of a server: `HOST:PORT`, `[V6]:PORT`, `tls:HOST:PORT`, `unix:PATH` or `shm:PATH`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// TCP.
    Tcp(String),
    /// TCP with TLS.
    Tls(String),
    /// A socket of this machine.
    Unix(PathBuf),
    /// Memory that both processes share, and a socket of this machine by which it is agreed on.
    Shared(PathBuf),
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = || {
            let forms = "HOST:PORT, [V6]:PORT, tls:HOST:PORT, unix:PATH or shm:PATH";
            Error::Invalid(format!("address: must be {forms}, got {text:?}"))
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(invalid()) } else { Ok(Self::Unix(path.into())) };
        }
        if let Some(path) = text.strip_prefix("shm:") {
            return if path.is_empty() { Err(invalid()) } else { Ok(Self::Shared(path.into())) };
        }
        let (rest, is_tls) = match text.strip_prefix("tls:") {
            Some(rest) => (rest, true),
            None => (text.strip_prefix("tcp:").unwrap_or(text), false),
        };
        let (host, port) = rest.rsplit_once(':').ok_or_else(invalid)?;
        let is_bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        if host.is_empty() || is_bare_v6 || port.parse::<u16>().is_err() {
            return Err(invalid());
        }
        Ok(if is_tls { Self::Tls(rest.into()) } else { Self::Tcp(rest.into()) })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(at) => f.write_str(at),
            Self::Tls(at) => write!(f, "tls:{at}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Shared(path) => write!(f, "shm:{}", path.display()),
        }
    }
}

impl Address {
    /// Connects within `timeout` for each address that the name has.
    ///
    /// # Errors
    ///
    /// `Broken` names the address, `Absent` where nothing listens; `Invalid` without `tls` for an
    /// address that wants it.
    pub fn connect(&self, timeout: Duration, tls: Option<&TlsClient>) -> Result<Link> {
        self.dial(timeout, tls, true)
    }

    /// Connects to the place of a session that has moved, as its server names it, for a client that
    /// came by this address. The server may be hostile: a client by TCP goes to no socket or memory
    /// of its own machine, to a loopback address only from one, and from TLS only to TLS. `is_near`
    /// is whether it came from one: [`Link::is_loopback`] of its connection to this address, whose
    /// name may have another meaning by now.
    ///
    /// # Errors
    ///
    /// `Refused` for such a place, which gets no byte; the errors of [`connect`](Self::connect).
    pub fn follow(
        &self,
        to: &str,
        is_near: bool,
        timeout: Duration,
        tls: Option<&TlsClient>,
    ) -> Result<Link> {
        let to: Self = to.parse()?;
        let refused =
            |why: &str| Err(Error::Refused(format!("the session has moved to {to}, {why}")));
        match (self, &to) {
            (Self::Unix(_) | Self::Shared(_), _) => to.connect(timeout, tls),
            (_, Self::Unix(_) | Self::Shared(_)) => refused("a socket of this machine"),
            (Self::Tls(_), Self::Tcp(_)) => refused("without TLS"),
            _ => to.dial(timeout, tls, is_near),
        }
    }

    /// As [`connect`](Self::connect). Without `may_be_loopback` loopback addresses are left out: a
    /// name that has no others is refused.
    fn dial(
        &self,
        timeout: Duration,
        tls: Option<&TlsClient>,
        may_be_loopback: bool,
    ) -> Result<Link> {
        let failed = |e: &std::io::Error| self.failed(e);
        match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(|e| failed(&e))?;
                Link::unix(stream).map_err(|e| failed(&e))
            }
            Self::Shared(path) => {
                let stream = UnixStream::connect(path).map_err(|e| failed(&e))?;
                Link::share(stream).map_err(|e| failed(&e))
            }
            Self::Tcp(at) => {
                Link::tcp(self.tcp(at, timeout, may_be_loopback)?).map_err(|e| failed(&e))
            }
            Self::Tls(at) => {
                let text = || Error::Invalid(format!("{self}: needs certificates of authorities"));
                let tls = tls.ok_or_else(text)?;
                let host = at.rsplit_once(':').map_or(at.as_str(), |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                tls.connect(self.tcp(at, timeout, may_be_loopback)?, host)
            }
        }
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        let text = format!("{self}: {error}");
        match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::NotFound => Error::Absent(text),
            _ => Error::Broken(text),
        }
    }

    fn tcp(&self, at: &str, timeout: Duration, may_be_loopback: bool) -> Result<TcpStream> {
        let failed = |e: &std::io::Error| self.failed(e);
        let mut last = None;
        for address in at.to_socket_addrs().map_err(|e| failed(&e))? {
            if !may_be_loopback && is_loopback(address.ip()) {
                let text = format!("the session has moved to {self}, a loopback address");
                last.get_or_insert(Error::Refused(text));
                continue;
            }
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(failed(&error)),
            }
        }
        let none = || failed(&std::io::Error::other("the name has no address"));
        Err(last.unwrap_or_else(none))
    }

    /// True if no other machine can reach it: a socket or memory of this one, or a loopback address
    /// as a number.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) | Self::Shared(_) => true,
            Self::Tcp(at) | Self::Tls(at) => {
                let host = at.rsplit_once(':').map_or(at.as_str(), |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
        }
    }
}

/// True if connections to it stay on this machine. The unspecified address is among them.
fn is_loopback(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip.is_unspecified()
}

impl Link {
    /// A link over TCP: no delay for small segments, and a dead peer is noticed after 30 s.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    pub fn tcp(stream: TcpStream) -> std::io::Result<Self> {
        socket::tcp_options(&stream)?;
        socket::link(stream.into())
    }

    /// A link over a UNIX socket.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    pub fn unix(stream: UnixStream) -> std::io::Result<Self> {
        socket::link(stream.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn address_round_trips_or_is_refused() {
        for text in
            ["host:7733", "[::1]:1", "tls:host:7733", "unix:/run/reef.sock", "shm:/run/reef.sock"]
        {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("tcp:a:1".parse::<Address>().unwrap().to_string(), "a:1");
        for text in ["", "host", "host:", "host:70000", ":1", "::1:5", "unix:", "shm:", "tls:host"]
        {
            let said = text.parse::<Address>().unwrap_err().to_string();
            assert!(said.contains("HOST:PORT"), "{text}: {said}");
        }
    }

    #[test]
    fn loopback_and_unix_sockets_are_local() {
        let is_local = |text: &str| text.parse::<Address>().unwrap().is_local();
        for text in
            ["127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/a", "shm:/a", "tls:127.9.0.1:1"]
        {
            assert!(is_local(text), "{text}");
        }
        for text in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "host:1"] {
            assert!(!is_local(text), "{text}");
        }
    }

    fn follow(from: &str, is_near: bool, to: &str) -> Result<Link> {
        from.parse::<Address>().unwrap().follow(to, is_near, TIMEOUT, None)
    }

    #[test]
    fn client_by_tcp_follows_to_no_socket_of_its_machine() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let hosts = ["127.0.0.1", "0.0.0.0", "[::ffff:127.0.0.1]", "[::1]", "[::]"];
        let loopback = hosts.map(|host| format!("{host}:{port}"));
        let sockets = ["unix:/run/reef.sock", "shm:/run/reef.sock"].map(String::from);
        for to in loopback.iter().chain(&sockets) {
            let refused = follow("192.0.2.1:7733", false, to).unwrap_err();
            assert!(matches!(refused, Error::Refused(_)), "{to}: {refused}");
        }
        for to in &sockets {
            let refused = follow("127.0.0.1:7733", true, to).unwrap_err();
            assert!(matches!(refused, Error::Refused(_)), "{to}: {refused}");
        }
        let refused = follow("tls:127.0.0.1:7733", true, &loopback[0]).unwrap_err();
        assert!(refused.to_string().contains("without TLS"), "{refused}");
        let none = listener.accept().unwrap_err();
        assert_eq!(none.kind(), ErrorKind::WouldBlock, "a port of the machine had a connection");
        // The name of a machine is often that of a loopback address there.
        for from in ["127.0.0.1:7733", "[::1]:7733", "this-machine:7733"] {
            assert!(follow(from, true, &loopback[0]).unwrap().is_loopback());
        }
        follow("unix:/run/reef.sock", false, &loopback[0]).unwrap();
        assert!(!Link::unix(UnixStream::pair().unwrap().0).unwrap().is_loopback());
    }
}
