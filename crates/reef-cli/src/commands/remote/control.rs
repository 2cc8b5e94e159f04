//! A server's control socket, and its metrics: both HTTP.
//!
//! ```text
//! control socket of the owner    GET /metrics, GET /sessions, POST /sessions/NUMBER/end
//! address of --metrics           GET /metrics
//! ```

use crate::remote::servers::{PREFIX, SUFFIX, socket};
use crate::report::usage::Usage;
use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use reef::remote::observe::Sessions;
use reef_guest::unix_peer::Peer;
use serde_json::json;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, JoinError};

/// Connections at a time.
const MAX_CONNECTIONS: usize = 64;
/// Time within which a client must send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time within which a client must also have read the answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which a server tries to accept again where the system could not.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Text for a client that a web page may have made a browser be.
const PAGE_REFUSED: &str = "must have no Origin, and localhost or an address as Host: a web page \
                            has another name";
/// Text for the client of a session that is ended.
const ENDED: &str = "the operator of the server has ended it";

/// Source of the sockets' answers.
pub(super) struct Control {
    pub(super) sessions: Sessions,
    /// Addresses of the server.
    pub(super) listening: Vec<String>,
}

/// Address for metrics: one that no other machine can reach.
///
/// # Errors
///
/// It is not such an address.
pub(super) fn metrics_address(text: &str) -> Result<SocketAddr, Usage> {
    let address: Option<SocketAddr> = text.parse().ok();
    address.filter(|address| address.ip().is_loopback()).ok_or_else(|| {
        Usage(format!(
            "--metrics: must be a loopback address, such as 127.0.0.1:7735, got {text:?}"
        ))
    })
}

/// Starts the control socket in a folder, and the metrics at an address, on a thread of their own.
/// Returns the address of the metrics. If there can be no control socket, that is said on stderr.
///
/// # Errors
///
/// The address is in use.
pub(super) fn start(
    control: Control,
    folder: Option<&Path>,
    metrics: Option<SocketAddr>,
) -> Result<Option<SocketAddr>> {
    remove_stale(&reef_serve::folder(folder));
    let unix = match reef_serve::listen_owner(folder, &socket(std::process::id())) {
        Ok(listener) => Some(listener),
        Err(error) => {
            note!("reef: no control socket, so `reef remote ps` has nothing of this: {error}");
            None
        }
    };
    let tcp = metrics.map(std::net::TcpListener::bind).transpose().context("--metrics")?;
    let address = tcp.as_ref().map(std::net::TcpListener::local_addr).transpose()?;
    if let Some(listener) = &unix {
        listener.set_nonblocking(true)?;
    }
    if let Some(listener) = &tcp {
        listener.set_nonblocking(true)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let body = move || {
        let control = Arc::new(control);
        let served = runtime.block_on(async move {
            let unix = unix.map(UnixListener::from_std).transpose()?;
            let tcp = tcp.map(TcpListener::from_std).transpose()?;
            let scrapes = Scrapes::default();
            if let Some(unix) = unix {
                tokio::spawn(serve_owner(unix, control.clone(), scrapes.clone()));
            }
            if let Some(tcp) = tcp {
                tokio::spawn(serve_metrics(tcp, control, scrapes));
            }
            std::future::pending::<std::io::Result<()>>().await
        });
        let _ = served; // only sockets that tokio doesn't take end it
    };
    std::thread::Builder::new().name("reef-control".into()).spawn(body)?;
    Ok(address)
}

/// Removes sockets of servers that are gone.
fn remove_stale(folder: &Path) {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX))
    };
    for path in files.map(|file| file.path()).filter(is_ours) {
        let _ = reef_files::clear(&path); // of a server that runs, or another server was faster
    }
}

async fn serve_owner(listener: UnixListener, control: Arc<Control>, scrapes: Scrapes) {
    let mut places = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) if is_owner(&stream) => {
                let served = serve(stream, control.clone(), scrapes.clone(), true);
                places.take(tokio::spawn(served).abort_handle());
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await, // too many files
        }
    }
}

async fn serve_metrics(listener: TcpListener, control: Arc<Control>, scrapes: Scrapes) {
    let mut places = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let served = serve(stream, control.clone(), scrapes.clone(), false);
                places.take(tokio::spawn(served).abort_handle());
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await, // too many files
        }
    }
}

/// Connections that are served. The oldest one gives its place up for a new one: an answer takes
/// milliseconds, and a client that is slower asks again.
#[derive(Default)]
struct Connections(VecDeque<AbortHandle>);

impl Connections {
    fn take(&mut self, connection: AbortHandle) {
        self.0.retain(|connection| !connection.is_finished());
        if self.0.len() >= MAX_CONNECTIONS
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
        }
        self.0.push_back(connection);
    }
}

/// Returns whether the peer is this user or root, as the system says.
fn is_owner(stream: &UnixStream) -> bool {
    let own = rustix::process::getuid().as_raw();
    Peer::of(stream).is_ok_and(|peer| [own, 0].contains(&peer.uid))
}

/// Metrics, which are read once for all requests that wait for them: a session may take its time,
/// and the request of a connection that is closed meanwhile goes on.
#[derive(Clone, Default)]
struct Scrapes(Arc<Mutex<Option<(Instant, String)>>>);

impl Scrapes {
    /// Returns metrics that were read after this call.
    async fn text(&self, control: Arc<Control>) -> Result<String, JoinError> {
        let asked = Instant::now();
        let mut last = self.0.clone().lock_owned().await;
        if let Some((begun, text)) = &*last
            && *begun >= asked
        {
            return Ok(text.clone());
        }
        let read = move || {
            let begun = Instant::now();
            let text = control.sessions.metrics();
            *last = Some((begun, text.clone()));
            text
        };
        tokio::task::spawn_blocking(read).await
    }
}

/// True if a web page may have sent it: browsers name the page that does (`Origin`), and the owner
/// of a name with a dot can make it resolve to loopback. A socket may be reached through a tunnel
/// of `ssh`; some clients send its path, which has a `%` or a `/`.
fn is_of_page(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_domain = name.contains('.') && !name.contains(['%', '/']);
    headers.contains_key(ORIGIN) || is_domain && name.parse::<Ipv4Addr>().is_err()
}

async fn serve<S>(stream: S, control: Arc<Control>, scrapes: Scrapes, is_owner: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (control, scrapes) = (control.clone(), scrapes.clone());
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let is_refused = is_of_page(request.headers());
        async move {
            let answer = if is_refused {
                Ok((StatusCode::FORBIDDEN, "text/plain", PAGE_REFUSED.to_owned()))
            } else if method == Method::GET && path == "/metrics" {
                let kind = "text/plain; version=0.0.4; charset=utf-8";
                scrapes.text(control).await.map(|text| (StatusCode::OK, kind, text))
            } else {
                let answer = move || control.answer(is_owner, &method, &path);
                tokio::task::spawn_blocking(answer).await
            };
            let (status, kind, text) = answer.unwrap_or_else(|panic| {
                (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", panic.to_string())
            });
            let mut response = Response::new(Full::new(Bytes::from(text)));
            *response.status_mut() = status;
            let kind = hyper::header::HeaderValue::from_static(kind);
            response.headers_mut().insert(CONTENT_TYPE, kind);
            Ok::<_, Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT).keep_alive(false);
    let served = http.serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, served).await; // or the client is gone
}

impl Control {
    /// Returns status, media type and text of all but metrics. Waits for workers' answers.
    fn answer(
        &self,
        is_owner: bool,
        method: &Method,
        path: &str,
    ) -> (StatusCode, &'static str, String) {
        const JSON: &str = "application/json";
        let refused =
            |status: StatusCode, why: &str| (status, JSON, json!({"error": why}).to_string());
        match (method, path) {
            (&Method::GET, "/sessions") if is_owner => {
                let (pid, listening) = (std::process::id(), &self.listening);
                let sessions = self.sessions.list();
                let body = json!({"pid": pid, "listening": listening, "sessions": sessions});
                (StatusCode::OK, JSON, body.to_string())
            }
            (&Method::POST, path) if is_owner => {
                let id = path.strip_prefix("/sessions/").and_then(|rest| rest.strip_suffix("/end"));
                match id.and_then(|id| id.parse().ok()) {
                    Some(id) if self.sessions.end(id, ENDED) => (StatusCode::OK, JSON, "{}".into()),
                    Some(id) => {
                        refused(StatusCode::NOT_FOUND, &format!("session {id}: there is none"))
                    }
                    None => refused(StatusCode::NOT_FOUND, "no such path"),
                }
            }
            _ => refused(StatusCode::NOT_FOUND, "no such path"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef::remote::observe::{Facts, Kind, SessionCounts, Watched};
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn metrics_are_for_this_machine_alone() {
        assert!(metrics_address("127.0.0.1:0").is_ok() && metrics_address("[::1]:9").is_ok());
        for text in ["0.0.0.0:1", "10.0.0.1:9", "localhost", "[::]:1", ""] {
            let said = metrics_address(text).unwrap_err().to_string();
            assert!(said.contains("must be a loopback address") && said.contains(text), "{said}");
        }
    }

    /// Connections that never finish their request keep no other one out.
    #[test]
    fn metrics_are_served_next_to_half_requests() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control { sessions: Sessions::default(), listening: Vec::new() };
        let loopback = Some(([127, 0, 0, 1], 0).into());
        let address = start(control, Some(folder.path()), loopback).unwrap().unwrap();
        let connect = |request: &[u8]| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request).unwrap();
            stream
        };
        let scrape = || {
            let half: Vec<_> = (0..3 * MAX_CONNECTIONS).map(|_| connect(b"GET /met")).collect();
            let (begin, mut answer) = (Instant::now(), String::new());
            let mut scraped = connect(b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n");
            scraped.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            drop(half);
            begin.elapsed()
        };
        // On a busy machine one may take as long.
        assert!((0..5).any(|_| scrape() < REQUEST_TIMEOUT / 2), "it waits for the others' timeout");
    }

    #[test]
    fn metrics_are_refused_to_web_pages() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control { sessions: Sessions::default(), listening: Vec::new() };
        let loopback = Some(([127, 0, 0, 1], 0).into());
        let address = start(control, Some(folder.path()), loopback).unwrap().unwrap();
        for (host, want) in [
            ("localhost", "200"),
            ("127.0.0.1:7735", "200"),
            ("[::1]:7735", "200"),
            ("evil.example", "403"),
            ("127.0.0.1.evil.example:7735", "403"),
        ] {
            let (mut stream, mut answer) = (TcpStream::connect(address).unwrap(), String::new());
            let request = format!("GET /metrics HTTP/1.1\r\nhost: {host}\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {want} ")), "{host}: {answer}");
        }
    }

    #[test]
    fn web_page_behind_a_tunnel_ends_no_session() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control { sessions: Sessions::default(), listening: Vec::new() };
        start(control, Some(folder.path()), None).unwrap();
        let path = folder.path().join(socket(std::process::id()));
        for (headers, want) in [
            ("host: localhost", "404"), // there is no session
            ("host: %2Frun%2Freef%2Fremote-1.sock", "404"),
            ("host: localhost:8000\r\norigin: http://evil.example", "403"),
            ("host: localhost:8000\r\norigin: null", "403"),
            ("host: evil.example:8000", "403"),
        ] {
            let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
            let mut answer = String::new();
            let request = format!("POST /sessions/1/end HTTP/1.1\r\n{headers}\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {want} ")), "{headers}: {answer}");
        }
    }

    /// Counts how many threads ask it at a time.
    #[derive(Debug, Default)]
    struct Slow {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    impl Watched for Slow {
        fn counts(&self, _: Option<Instant>) -> SessionCounts {
            self.most.fetch_max(self.now.fetch_add(1, SeqCst) + 1, SeqCst);
            std::thread::sleep(Duration::from_millis(20)); // sleep: time of a slow session
            self.now.fetch_sub(1, SeqCst);
            SessionCounts::default()
        }

        fn end(&self, _: &str) {}
    }

    #[test]
    fn sessions_are_asked_once_for_all_scrapes_that_wait() {
        let (sessions, slow) = (Sessions::default(), Arc::new(Slow::default()));
        let (kind, program) = (Kind::Shared, "slow".into());
        let facts = Facts { kind, tenant: None, program, device: None, pid: None, class: None };
        let _session = sessions.begin(facts, slow.clone());
        let folder = tempfile::tempdir().unwrap();
        let control = Control { sessions, listening: Vec::new() };
        let loopback = Some(([127, 0, 0, 1], 0).into());
        let address = start(control, Some(folder.path()), loopback).unwrap().unwrap();
        let scrapes: Vec<_> = (0..MAX_CONNECTIONS / 2)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
                stream
            })
            .collect();
        for mut stream in scrapes {
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            assert!(answer.contains("reef_remote_sessions"), "{answer}");
        }
        assert_eq!(slow.most.load(SeqCst), 1, "threads ask a session at the same time");
    }

    /// By TCP there are no sessions, and none can be ended.
    #[test]
    fn sessions_are_shown_to_the_owner_alone() {
        let control = Control { sessions: Sessions::default(), listening: vec!["a".into()] };
        let status = |is_owner, method: Method, path| control.answer(is_owner, &method, path).0;
        for (path, method) in [("/sessions", Method::GET), ("/sessions/1/end", Method::POST)] {
            assert_eq!(status(false, method, path), StatusCode::NOT_FOUND, "{path}");
        }
        assert_eq!(status(true, Method::GET, "/sessions"), StatusCode::OK);
        let (status, _, text) = control.answer(true, &Method::POST, "/sessions/7/end");
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert_eq!(text, "{\"error\":\"session 7: there is none\"}");
    }
}
