//! TLS over TCP.
//!
//! One state serves both directions, under a lock that is not held during a call of the system. The
//! order of records on the wire is kept by a second lock, taken before the first.

use super::link::{Link, ReceiveHalf, SendHalf};
use super::socket;
use crate::error::{Error, Result};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::{
    ClientConfig, ClientConnection, Connection, IoState, RootCertStore, ServerConfig,
    ServerConnection,
};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Time within which the other end must complete the whole handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Label of the secret that a connection's ends share (RFC 5705, RFC 9266).
const EXPORTER_LABEL: &[u8] = b"EXPORTER-reef-remote";

/// Name of the protocol that both ends must speak (ALPN).
const PROTOCOL: &[u8] = b"reef-remote";

/// Authorities that a client trusts.
#[derive(Debug, Clone)]
pub struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// A client that trusts certificates of these authorities alone.
    ///
    /// # Panics
    ///
    /// Never: the provider has the protocol versions that it defaults to.
    pub fn new(roots: RootCertStore) -> Self {
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has what it defaults to")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Self(Arc::new(config))
    }

    /// Completes the handshake with a server whose certificate must name `host`.
    ///
    /// # Errors
    ///
    /// `Invalid` for a name that cannot be; `Refused` if the certificate is not trusted; `Broken`.
    pub fn connect(&self, stream: TcpStream, host: &str) -> Result<Link> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|e| Error::Invalid(format!("TLS: host {host:?}: {e}")))?;
        let state = ClientConnection::new(self.0.clone(), name)
            .map_err(|e| Error::Invalid(format!("TLS: {e}")))?;
        link(stream, state.into(), HANDSHAKE_TIMEOUT)
    }
}

/// Certificate and key of a server.
#[derive(Debug, Clone)]
pub struct TlsServer(Arc<ServerConfig>);

impl TlsServer {
    /// A server as `config` says. It speaks this protocol alone.
    pub fn new(config: &ServerConfig) -> Self {
        let mut config = config.clone();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Self(Arc::new(config))
    }

    /// Completes the handshake with a client.
    ///
    /// # Errors
    ///
    /// `Refused` if the client does not complete it; `Broken`.
    pub fn accept(&self, stream: TcpStream) -> Result<Link> {
        self.accept_within(stream, HANDSHAKE_TIMEOUT)
    }

    fn accept_within(&self, stream: TcpStream, time: Duration) -> Result<Link> {
        let state = ServerConnection::new(self.0.clone())
            .map_err(|e| Error::Invalid(format!("TLS: {e}")))?;
        link(stream, state.into(), time)
    }
}

/// A socket in its handshake. Its time is for the whole handshake: a peer that sends byte by byte
/// has no more.
struct Handshake<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl Handshake<'_> {
    fn remaining(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Handshake<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.remaining()?))?;
        self.stream.read(to)
    }
}

impl Write for Handshake<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.remaining()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn link(stream: TcpStream, mut state: Connection, time: Duration) -> Result<Link> {
    let broken = |e: io::Error| match e.kind() {
        io::ErrorKind::InvalidData => Error::Refused(format!("TLS: {e}")),
        _ => Error::io("TLS", &e),
    };
    socket::tcp_options(&stream).map_err(broken)?;
    let mut handshake = Handshake { stream: &stream, end: Instant::now() + time };
    while state.is_handshaking() {
        state.complete_io(&mut handshake).map_err(broken)?;
    }
    stream.set_read_timeout(None).map_err(broken)?;
    let mut binding = [0; 32];
    let export = match &state {
        Connection::Client(state) => {
            state.export_keying_material(&mut binding[..], EXPORTER_LABEL, None).map(|_| ())
        }
        Connection::Server(state) => {
            state.export_keying_material(&mut binding[..], EXPORTER_LABEL, None).map(|_| ())
        }
    };
    export.map_err(|e| Error::Refused(format!("TLS: {e}")))?;
    let inner = socket::link(stream.into()).map_err(broken)?;
    let control = inner.control.clone();
    let shared = Arc::new(Shared { state: Mutex::new(state), out: Mutex::new(inner.send) });
    let receive = Receive {
        shared: shared.clone(),
        inner: inner.receive,
        buffer: vec![0; 64 << 10],
        begin: 0,
        end: 0,
        failed: None,
    };
    Ok(Link {
        send: Box::new(Send(shared)),
        receive: Box::new(receive),
        control,
        binding: Some(binding),
        peer: inner.peer,
    })
}

#[derive(Debug)]
struct Shared {
    state: Mutex<Connection>,
    /// Taken before `state`.
    out: Mutex<Box<dyn SendHalf>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Encrypts and sends `bytes`, and whatever else the state has to send.
    fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        loop {
            let mut records = Vec::new();
            let mut state = self.lock();
            if !bytes.is_empty() {
                let count = state.writer().write(bytes)?;
                bytes = &bytes[count..];
            }
            while state.wants_write() {
                state.write_tls(&mut records)?;
            }
            drop(state);
            out.send(&records)?;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }
}

#[derive(Debug)]
struct Send(Arc<Shared>);

impl SendHalf for Send {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.send(bytes)
    }
}

#[derive(Debug)]
struct Receive {
    shared: Arc<Shared>,
    inner: Box<dyn ReceiveHalf>,
    /// Received bytes; those from `begin` to `end` are to be decrypted.
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// Error of a read during a wait, for the next call that receives.
    failed: Option<io::Error>,
}

impl Receive {
    /// Reads decrypted bytes that are there.
    fn decrypted(&self, to: &mut [u8]) -> io::Result<Option<usize>> {
        match self.shared.lock().reader().read(to) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => Ok(Some(count)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Decrypts a part of what was received, as much as the state takes. Returns whether there are
    /// decrypted bytes now, or no more will come.
    fn decrypt(&mut self) -> io::Result<bool> {
        let mut state = self.shared.lock();
        let mut records = &self.buffer[self.begin..self.end];
        self.begin += state.read_tls(&mut records)?;
        let seen =
            state.process_new_packets().map_err(|e| io::Error::other(format!("TLS: {e}")))?;
        let (is_ready, has_answer) = (is_ready(&seen), state.wants_write());
        drop(state);
        if has_answer {
            self.shared.send(&[])?;
        }
        Ok(is_ready)
    }

    /// Decrypts what was received until there is something for the caller. Returns whether there
    /// is.
    fn decrypt_all(&mut self) -> io::Result<bool> {
        while self.begin < self.end {
            if self.decrypt()? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_ready(seen: &IoState) -> bool {
    seen.plaintext_bytes_to_read() > 0 || seen.peer_has_closed()
}

impl ReceiveHalf for Receive {
    fn receive(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(count) = self.decrypted(to)? {
                return Ok(count);
            }
            if self.begin == self.end {
                self.failed.take().map_or(Ok(()), Err)?;
                (self.begin, self.end) = (0, self.inner.receive(&mut self.buffer)?);
            }
            self.decrypt()?;
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let seen = self.shared.lock().process_new_packets();
        let seen = seen.map_err(|e| io::Error::other(format!("TLS: {e}")))?;
        if is_ready(&seen) || self.decrypt_all()? {
            return Ok(true);
        }
        // A part of a record is nothing to receive: its rest may never come.
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if !self.inner.wait(left)? {
                return Ok(false);
            }
            match self.inner.receive(&mut self.buffer) {
                Ok(count) => (self.begin, self.end) = (0, count),
                Err(error) => {
                    self.failed = Some(error);
                    return Ok(true);
                }
            }
            if self.decrypt_all()? {
                return Ok(true);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
        }
    }

    fn spin_for(&mut self, time: Duration) {
        self.inner.spin_for(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::PrivateKeyDer;
    use std::net::TcpListener;
    use std::thread;

    /// Returns a server, and the authorities that trust it.
    fn server() -> (TlsServer, RootCertStore) {
        let pair = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(pair.signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![pair.cert.der().clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(pair.cert.der().clone()).unwrap();
        (TlsServer::new(&config), roots)
    }

    /// Returns both ends of a connection: the client's and the server's.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn part_of_a_record_is_nothing_to_receive() {
        let ((server, roots), (client, served)) = (server(), connection());
        let time = Duration::from_secs(60);
        let accepted = thread::spawn(move || server.accept_within(served, time));
        let mut raw = client.try_clone().unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let state = ClientConnection::new(TlsClient::new(roots).0, name).unwrap();
        let mut client = link(client, state.into(), time).unwrap();
        let mut served = accepted.join().unwrap().unwrap();
        client.send.send(b"hello").unwrap();
        assert!(served.receive.wait(Some(Duration::from_secs(60))).unwrap());
        let mut bytes = [0; 64];
        let count = served.receive.receive(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"hello");
        raw.write_all(&[23, 3, 3, 0x10, 0, 1, 2, 3]).unwrap();
        assert!(!served.receive.wait(Some(Duration::from_secs(1))).unwrap());
        drop((raw, client));
        assert!(served.receive.wait(Some(Duration::from_secs(60))).unwrap(), "its end");
        assert!(served.receive.receive(&mut bytes).is_err());
    }

    #[test]
    fn handshake_byte_by_byte_ends_in_time() {
        let ((server, _), (mut client, served)) = (server(), connection());
        let accepted = thread::spawn(move || {
            server.accept_within(served, Duration::from_millis(100)).map(|_| ())
        });
        // A record of 16 KiB, which would take minutes.
        let _ = client.write_all(&[22, 3, 1, 0x40, 0]); // it may be closed
        let deadline = Instant::now() + Duration::from_secs(60);
        while !accepted.is_finished() && Instant::now() < deadline {
            let _ = client.write_all(&[0]); // likewise
            thread::sleep(Duration::from_millis(10)); // sleep: pace of the bytes
        }
        assert!(accepted.is_finished(), "it reads for as long as bytes arrive");
        accepted.join().unwrap().unwrap_err();
    }
}
