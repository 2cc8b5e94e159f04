//! Asking a daemon over HTTP: on its Unix socket, or over TCP with a token.

use crate::report::usage::Usage;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use reef_serve::no_daemon;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};

/// The daemon's socket for HTTP.
const HTTP: &str = "http.sock";
/// Most bytes of an answer.
const MAX_BYTES: usize = 1 << 30;
/// Most characters of an answer that is shown as an error.
const SHOWN: usize = 300;

/// Address of the daemon.
#[derive(clap::Args)]
pub(crate) struct DaemonAddress {
    /// Folder of the daemon's sockets [default: $XDG_RUNTIME_DIR/reef, or /tmp/reef-UID].
    #[arg(long = "socket-dir", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Daemon's Unix socket for HTTP, instead of http.sock in the folder.
    #[arg(long, conflicts_with = "folder")]
    socket: Option<PathBuf>,
    /// Daemon's TCP address, such as http://127.0.0.1:8000.
    #[arg(long, conflicts_with_all = ["folder", "socket"])]
    url: Option<String>,
    /// File whose first line is the token that the daemon wants over TCP.
    #[arg(long, requires = "url")]
    token_file: Option<PathBuf>,
}

impl DaemonAddress {
    /// Folder of the daemon's sockets, if it is named.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns whether an option names it.
    pub(crate) fn is_given(&self) -> bool {
        self.folder.is_some() || self.socket.is_some() || self.url.is_some()
    }

    /// Returns whether its sockets are in a folder, where those of servers may be as well.
    pub(crate) fn may_be_local(&self) -> bool {
        self.url.is_none() && self.socket.is_none()
    }

    /// The daemon there, whether it runs or not.
    pub(crate) fn daemon(&self) -> anyhow::Result<Daemon> {
        let address = match (&self.url, &self.socket) {
            (Some(url), _) => Address::Tcp(tcp(url)?),
            (None, Some(socket)) => Address::Unix(socket.clone()),
            (None, None) => return Daemon::in_folder(self.folder.as_deref()),
        };
        Daemon::at(address, self.token_file.as_deref().map(token).transpose()?)
    }
}

/// Host and port of `http://host:port`.
fn tcp(url: &str) -> Result<String, Usage> {
    let wrong = || Usage(format!("--url must be http://HOST:PORT, got {url:?}"));
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let authority = uri.authority().filter(|authority| authority.port().is_some());
    match (uri.scheme_str(), uri.path(), uri.query(), authority) {
        (Some("http"), "" | "/", None, Some(authority)) => Ok(authority.to_string()),
        _ => Err(wrong()),
    }
}

fn token(file: &Path) -> Result<String, Usage> {
    let wrong = |why: &dyn fmt::Display| Usage(format!("--token-file {}: {why}", file.display()));
    let token = reef_files::token(file).map_err(|error| wrong(&error))?;
    if token.is_empty() || token.contains(|c: char| !c.is_ascii_graphic()) {
        return Err(wrong(&"its first line is not a token"));
    }
    Ok(token)
}

/// A daemon that may be there.
pub(crate) struct Daemon {
    address: Address,
    token: Option<String>,
    runtime: Runtime,
}

enum Address {
    /// A socket in a folder that is known to be the daemon's.
    Folder(Option<PathBuf>, String),
    Unix(PathBuf),
    Tcp(String),
}

impl Address {
    /// Option that names an address of this kind.
    fn option(&self) -> &'static str {
        match self {
            Self::Folder(..) => "--socket-dir",
            Self::Unix(_) => "--socket",
            Self::Tcp(_) => "--url",
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder, socket) => {
                write!(f, "{}", reef_serve::folder(folder.as_deref()).join(socket).display())
            }
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(host) => f.write_str(host),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Error {
    /// No daemon listens there: the place, and the option that names another.
    Absent(String, &'static str),
    /// No answer.
    Gone(String),
    /// The daemon is there and refuses: the status and its reason.
    Refused(StatusCode, String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(place, option) => f.write_str(&no_daemon(place, "reef serve", option)),
            Self::Gone(why) => f.write_str(why),
            Self::Refused(status @ StatusCode::UNAUTHORIZED, why) => {
                write!(f, "{status}: {why}; --token-file names a file with a token of the daemon")
            }
            Self::Refused(status, why) => write!(f, "{status}: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// Returns whether a daemon may answer later.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Absent(..) | Self::Gone(_))
    }

    /// Text without a remedy, for a place that shows one elsewhere or has no room for it.
    pub(crate) fn short(&self) -> String {
        match self {
            Self::Absent(place, _) => format!("no daemon at {place}"),
            other => other.to_string(),
        }
    }
}

impl Daemon {
    /// The one whose sockets are in `folder`, or in the user's own.
    pub(crate) fn in_folder(folder: Option<&Path>) -> anyhow::Result<Self> {
        Self::at_socket(folder, HTTP)
    }

    /// The process that listens at a socket in `folder`, or in the user's own.
    pub(crate) fn at_socket(folder: Option<&Path>, socket: &str) -> anyhow::Result<Self> {
        Self::at(Address::Folder(folder.map(Path::to_path_buf), socket.into()), None)
    }

    fn at(address: Address, token: Option<String>) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { address, token, runtime })
    }

    /// Name for messages.
    pub(crate) fn name(&self) -> String {
        self.address.to_string()
    }

    /// Answer to `GET path` within `time`.
    ///
    /// # Errors
    ///
    /// `Absent` or `Gone` without an answer, `Refused` with another one than 200.
    pub(crate) fn get(&self, path: &str, time: Duration) -> Result<Bytes, Error> {
        self.request(Method::GET, path, time)
    }

    /// Its answer to `POST path` with an empty object, within `time`.
    ///
    /// # Errors
    ///
    /// Like [`get`](Self::get).
    pub(crate) fn post(&self, path: &str, time: Duration) -> Result<Bytes, Error> {
        self.request(Method::POST, path, time)
    }

    fn request(&self, method: Method, path: &str, time: Duration) -> Result<Bytes, Error> {
        let gone = |why: &dyn fmt::Display| Error::Gone(format!("{}: {why}", self.address));
        let answer = async { tokio::time::timeout(time, self.answer(method, path)).await };
        let (status, body) = match self.runtime.block_on(answer) {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if is_absent(&error) => {
                return Err(Error::Absent(self.name(), self.address.option()));
            }
            Ok(Err(error)) if is_another_protocol(&error) => {
                return Err(gone(&"must be the daemon's HTTP endpoint, got another protocol"));
            }
            Ok(Err(error)) => return Err(gone(&error)),
            Err(_) => return Err(gone(&format_args!("no answer in {time:?}"))),
        };
        match status {
            StatusCode::OK => Ok(body),
            status => Err(Error::Refused(status, reason(&body))),
        }
    }

    async fn answer(&self, method: Method, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
        match &self.address {
            Address::Folder(folder, socket) => {
                self.ask(self.connect(folder.as_deref(), socket)?, "localhost", method, path).await
            }
            Address::Unix(socket) => {
                self.ask(UnixStream::connect(socket).await?, "localhost", method, path).await
            }
            Address::Tcp(host) => {
                self.ask(TcpStream::connect(host).await?, host, method, path).await
            }
        }
    }

    fn connect(&self, folder: Option<&Path>, socket: &str) -> anyhow::Result<UnixStream> {
        let stream = reef_serve::connect(folder, socket).map_err(|error| {
            if let reef_serve::Error::Unavailable(_) = error {
                return io::Error::from(ErrorKind::NotFound).into();
            }
            let said = error.to_string();
            let named = format!("{}: ", self.address);
            anyhow::Error::msg(said.strip_prefix(&named).unwrap_or(&said).to_owned())
        })?;
        stream.set_nonblocking(true)?;
        Ok(UnixStream::from_std(stream)?)
    }

    /// One request on a connection of its own.
    async fn ask(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        host: &str,
        method: Method,
        path: &str,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection); // ends with the sender
        let body = if method == Method::POST { "{}" } else { "" };
        let mut request = Request::builder().method(method).uri(path).header(HOST, host);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let answer = sender.send_request(request.body(Full::new(Bytes::from(body)))?).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_BYTES).collect().await;
        Ok((status, body.map_err(anyhow::Error::from_boxed)?.to_bytes()))
    }
}

/// Returns whether nothing listens, as opposed to a daemon that refuses or is silent.
fn is_absent(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(is_unanswered)
}

/// Returns whether the answer is none of HTTP, as that of the endpoint for gRPC.
fn is_another_protocol(error: &anyhow::Error) -> bool {
    error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse)
}

/// Returns whether nothing listens where a connection was tried.
pub(crate) fn is_unanswered(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

/// A part of a path, whatever is in it.
pub(crate) fn segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    let one = |byte: u8| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(one).collect()
}

/// Reason in an answer that refuses the request: `{"error": "…"}`, or its first line.
fn reason(body: &[u8]) -> String {
    let json: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    if let Some(said) = json.as_ref().and_then(|json| json["error"].as_str()) {
        return said.to_owned();
    }
    let text = String::from_utf8_lossy(body);
    if text.trim_start().starts_with('<') {
        return "a web page, not a daemon's answer".into();
    }
    text.lines().next().unwrap_or_default().chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn addresses_are_read() {
        assert_eq!(tcp("http://127.0.0.1:8000").unwrap(), "127.0.0.1:8000");
        assert_eq!(tcp("http://[::1]:8000/").unwrap(), "[::1]:8000");
        for wrong in ["127.0.0.1:8000", "https://a:1", "http://a", "http://a:1/x", "http://a:b", ""]
        {
            let said = tcp(wrong).unwrap_err().to_string();
            assert!(said.contains("must be http://HOST:PORT, got "), "{wrong}: {said}");
        }
    }

    #[test]
    fn reason_is_the_daemons_or_that_another_server_answered() {
        assert_eq!(reason(br#"{"error": "no such model"}"#), "no such model");
        assert_eq!(reason(b"busy\nmore"), "busy");
        assert_eq!(reason(b"<!DOCTYPE HTML>\n<html>"), "a web page, not a daemon's answer");
    }

    #[test]
    fn endpoint_of_another_protocol_is_named_as_such() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 4]).unwrap(); // of a request
            stream.write_all(b"\0\0\x12\x04\0\0\0\0\0").unwrap(); // as HTTP/2 begins
            stream.read_to_end(&mut Vec::new())
        });
        let daemon = Daemon::at(Address::Tcp(place.clone()), None).unwrap();
        let said = daemon.get("/v2", Duration::from_secs(60)).unwrap_err();
        drop(daemon);
        let _ = server.join().unwrap(); // the connection may be reset
        let why = "must be the daemon's HTTP endpoint, got another protocol";
        assert_eq!(said, Error::Gone(format!("{place}: {why}")));
    }

    #[test]
    fn refusal_without_a_token_names_the_option() {
        let said = Error::Refused(StatusCode::UNAUTHORIZED, "a token is required".into());
        let want = "401 Unauthorized: a token is required; --token-file names a file with a token of the daemon";
        assert_eq!(said.to_string(), want);
        let said = Error::Refused(StatusCode::FORBIDDEN, "no".into());
        assert_eq!(said.to_string(), "403 Forbidden: no");
    }

    #[test]
    fn absent_daemon_is_one_text_with_the_option_that_names_it() {
        let place = |folder, socket: Option<&str>, url: Option<&str>| DaemonAddress {
            folder,
            socket: socket.map(Into::into),
            url: url.map(Into::into),
            token_file: None,
        };
        let nowhere = Some(std::env::temp_dir().join("reef-nowhere"));
        for (place, option) in [
            (place(nowhere, None, None), "--socket-dir"),
            (place(None, Some("/nowhere.sock"), None), "--socket"),
            (place(None, None, Some("http://127.0.0.1:1")), "--url"),
        ] {
            let daemon = place.daemon().unwrap();
            let error = daemon.get("/v2", Duration::from_secs(60)).unwrap_err();
            let at = format!("no daemon at {}", daemon.name());
            assert!(error.is_gone() && error.short() == at, "{error}");
            let want = format!("{at}: start `reef serve` or name it with {option}");
            assert_eq!(error.to_string(), want);
        }
    }

    #[test]
    fn segment_escapes_what_ends_a_path() {
        assert_eq!(segment("cuda:0?a=1/ä"), "cuda:0%3Fa%3D1%2F%C3%A4");
    }

    #[test]
    fn reasons_are_short() {
        assert_eq!(reason(b"{\"error\":\"no such thing\"}"), "no such thing");
        assert_eq!(reason(b"Not Found\nmore"), "Not Found");
        assert_eq!(reason(&[b'x'; 5000]).len(), SHOWN);
    }
}
