//! Commands of this machine's user to a worker or a server, by a socket in a folder of the user's
//! own.

use super::file;
use super::source::Migration;
use crate::server::proxy::Proxy;
use reef_files::MAX_PEM_BYTES;
use reef_remote::migration::{Report, Target};
use reef_remote::observe::Sessions;
use reef_wire::{Address, TlsClient, Token, codec};
use rustix::process::geteuid;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Maximum number of bytes of a command or an answer.
const MAX_LEN: u64 = 64 << 10;
/// Time after which a socket tries to accept again where the system could not.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Another server, as a command names it.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Destination {
    /// Its address: `HOST:PORT`, `tls:HOST:PORT` or `unix:PATH`.
    pub address: String,
    /// File with its token.
    pub token: Option<PathBuf>,
    /// Certificates of authorities, for `tls:`.
    pub ca: Option<PathBuf>,
    /// Properties of an emulated line to it, for tests.
    pub emulate: Option<String>,
}

impl Destination {
    /// A server without a token.
    pub fn new(address: &str) -> Self {
        Self { address: address.into(), ..Self::default() }
    }

    fn target(&self) -> Result<Target, String> {
        let address: Address = self.address.parse().map_err(|e| format!("--to: {e}"))?;
        let token = match &self.token {
            Some(path) => {
                let token = reef_files::token(path);
                let token = token.map_err(|e| format!("token {}: {e}", path.display()))?;
                Some(Token::new(token.as_bytes()))
            }
            None => None,
        };
        let tls = self.ca.as_deref().map(authorities).transpose()?;
        let line = self.emulate.as_deref().map(str::parse).transpose();
        let line = line.map_err(|e: reef_wire::Error| e.to_string())?;
        Ok(Target { address, token, tls, line, proxy: None })
    }
}

fn authorities(path: &Path) -> Result<TlsClient, String> {
    let invalid = |e: &dyn std::fmt::Display| format!("ca {}: {e}", path.display());
    let mut roots = RootCertStore::empty();
    let text = reef_files::read(path, MAX_PEM_BYTES).map_err(|e| invalid(&e))?;
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|e| invalid(&e))?;
        roots.add(certificate).map_err(|e| invalid(&e))?;
    }
    Ok(TlsClient::new(roots))
}

/// Name of a session of this machine, as `reef remote ps` shows it: the process number of a
/// worker, or `SERVER.NUMBER` for the session of a Rust program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionName {
    process: u32,
    /// Number of the session in a server. `None`: the process is a worker and has one.
    number: Option<u64>,
}

impl From<u32> for SessionName {
    fn from(worker: u32) -> Self {
        Self { process: worker, number: None }
    }
}

impl FromStr for SessionName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (process, number) = match text.split_once('.') {
            Some((process, number)) => (process.parse().ok(), number.parse().map(Some).ok()),
            None => (text.parse().ok(), Some(None)),
        };
        let name = process.zip(number).map(|(process, number)| Self { process, number });
        name.ok_or_else(|| format!("session: must be WORKER or SERVER.NUMBER, got {text:?}"))
    }
}

impl Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, number } = self;
        match number {
            None => write!(f, "{process}"),
            Some(number) => write!(f, "{process}.{number}"),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Command {
    /// Number of the session in a server.
    session: Option<u64>,
    action: Action,
}

#[derive(Debug, Serialize, Deserialize)]
enum Action {
    /// To a server, by a socket of the process that has its token.
    Migrate {
        to: String,
        proxy: PathBuf,
    },
    Snapshot {
        folder: PathBuf,
        ends: bool,
    },
}

/// Outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MigrationReport {
    /// Time for which the program's calls waited.
    pub pause: Duration,
    /// Bytes of the session's memory.
    pub memory: u64,
    /// Bytes of it that were read in that time.
    pub read: u64,
    /// Bytes that were sent or written in that time.
    pub delta: u64,
    /// True if its client knows where it is now. Otherwise the server has to tell it later.
    pub is_client_told: bool,
}

impl From<Report> for MigrationReport {
    fn from(report: Report) -> Self {
        let Report { pause, memory, read, delta, is_client_told } = report;
        Self { pause, memory, read, delta, is_client_told }
    }
}

/// Moves a session of this machine to another server. This process connects to it, so that the
/// session's process does not have its token.
///
/// # Errors
///
/// Why it runs on where it is, or has ended.
pub fn migrate(
    session: impl Into<SessionName>,
    to: &Destination,
) -> Result<MigrationReport, String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let target = to.target()?;
    let (pid, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let (folder, to) = (own_folder(), target.address.to_string());
    let proxy = folder
        .and_then(|folder| Proxy::start(&folder.join(format!("{pid}.{number}.proxy")), target));
    let proxy = proxy.map_err(|e| format!("proxy to {to}: {e}"))?;
    migrated(session.into(), Action::Migrate { to, proxy: proxy.path().into() })
}

/// Writes a session of this machine to a folder. With `ends` it ends, and
/// [`restore`] continues it.
///
/// # Errors
///
/// Reason why it can't be written. The session runs on.
pub fn snapshot(
    session: impl Into<SessionName>,
    folder: &Path,
    ends: bool,
) -> Result<MigrationReport, String> {
    let folder = std::path::absolute(folder).map_err(|e| e.to_string())?;
    migrated(session.into(), Action::Snapshot { folder, ends })
}

/// Has a server begin the session that a folder has. Its program connects to that server by itself
/// if it is the one that it had. Returns the bytes of its memory.
///
/// # Errors
///
/// The file is damaged, or the server can't make the session.
pub fn restore(folder: &Path, to: &Destination) -> Result<u64, String> {
    file::restore(folder, &to.target()?)
}

fn migrated(session: SessionName, action: Action) -> Result<MigrationReport, String> {
    let SessionName { process, number } = session;
    let path = folder().join(format!("{process}.sock"));
    let failed = |e: io::Error| format!("session {session}: {e}");
    let mut socket = UnixStream::connect(&path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!("session {session}: {}", why_none(process))
        }
        _ => failed(e),
    })?;
    let command = Command { session: number, action };
    let bytes = codec::write(&command).map_err(|e| e.to_string())?;
    socket.write_all(&bytes).map_err(failed)?;
    socket.shutdown(Shutdown::Write).map_err(failed)?;
    let mut answer = Vec::new();
    socket.take(MAX_LEN).read_to_end(&mut answer).map_err(failed)?;
    let answer: Result<MigrationReport, String> =
        codec::read(&answer).map_err(|_| format!("session {session}: it has ended"))?;
    answer.map_err(|why| format!("session {session}: {why}"))
}

/// Reason for which a process does not listen for commands of this user.
fn why_none(process: u32) -> String {
    let own = geteuid().as_raw();
    match fs::metadata(format!("/proc/{process}")).map(|its| its.uid()) {
        Ok(user) if user != own && own == 0 => {
            format!(
                "its worker has a user of its own, {user}, so it does not move and is not written"
            )
        }
        Ok(user) if user != own => {
            format!("its process belongs to user {user}, got a command of {own}")
        }
        _ => "there is none on this machine, for this user".into(),
    }
}

/// Folder of the sockets: `REEF_REMOTE_FOLDER`, or one of the user's own.
fn folder() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folder) = variable("REEF_REMOTE_FOLDER") {
        return folder.into();
    }
    match variable("XDG_RUNTIME_DIR") {
        Some(folder) => PathBuf::from(folder).join("reef-remote"),
        None => std::env::temp_dir().join(format!("reef-remote-{}", geteuid().as_raw())),
    }
}

/// Makes the folder of the sockets, if it is not there.
///
/// # Errors
///
/// An error of the system; a folder that is another user's.
fn own_folder() -> io::Result<PathBuf> {
    let folder = folder();
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let its = fs::symlink_metadata(&folder)?;
    if !its.is_dir() || its.uid() != geteuid().as_raw() {
        let why = format!("{}: must be a folder of this user, and no link", folder.display());
        return Err(io::Error::other(why));
    }
    fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
    Ok(folder)
}

/// Binds the socket of this process. Returns its path too.
fn bind() -> io::Result<(UnixListener, PathBuf)> {
    let path = own_folder()?.join(format!("{}.sock", std::process::id()));
    reef_files::clear(&path)?; // of a process that had this number
    UnixListener::bind(&path).map(|listener| (listener, path))
}

/// Listens for commands about the session of this process, on a thread of its own.
///
/// # Errors
///
/// An error of the system; a folder that is another user's.
pub(crate) fn listen(migration: Migration) -> io::Result<()> {
    let (listener, path) = bind()?;
    let body = move || {
        for socket in listener.incoming() {
            let Ok(socket) = socket else {
                thread::sleep(ACCEPT_RETRY_INTERVAL); // too many files are open
                continue;
            };
            // A session that ends takes this process along.
            let migrated = |report: &Report| MigrationReport::from(*report);
            let last = |outcome: &Result<Report, String>| {
                let _ = fs::remove_file(&path);
                answer(&socket, &outcome.as_ref().map(migrated));
            };
            answer(&socket, &serve(&migration, &socket, last).as_ref());
        }
    };
    thread::Builder::new().name("reef-commands".into()).spawn(body).map(|_| ())
}

/// Listens for commands about the sessions of a server in this process, on a thread of its own.
///
/// # Errors
///
/// An error of the system; a folder that is another user's.
pub fn listen_for_server(sessions: &Sessions) -> io::Result<()> {
    let (listener, _) = bind()?;
    let sessions = sessions.clone();
    let body = move || {
        for socket in listener.incoming() {
            let Ok(socket) = socket else {
                thread::sleep(ACCEPT_RETRY_INTERVAL); // too many files are open
                continue;
            };
            let sessions = sessions.clone();
            let serve = move || answer(&socket, &serve_one(&sessions, &socket).as_ref());
            // Without a thread the command ends without an answer.
            let _ = thread::Builder::new().name("reef-command".into()).spawn(serve);
        }
    };
    thread::Builder::new().name("reef-commands".into()).spawn(body).map(|_| ())
}

fn answer(mut socket: &UnixStream, outcome: &impl Serialize) {
    let bytes = codec::write(outcome).unwrap_or_default();
    let _ = socket.write_all(&bytes); // it is gone
    let _ = socket.shutdown(Shutdown::Both);
}

fn read(socket: &UnixStream) -> Result<Command, String> {
    let mut bytes = Vec::new();
    socket.take(MAX_LEN).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    codec::read(&bytes).map_err(|e| e.to_string())
}

/// Returns the way to a server by a process that has its token.
fn by_proxy(to: &str, proxy: PathBuf) -> Result<Target, String> {
    let address = to.parse().map_err(|e| format!("--to: {e}"))?;
    Ok(Target { proxy: Some(Address::Unix(proxy)), ..Target::new(address) })
}

fn serve(
    migration: &Migration,
    socket: &UnixStream,
    last: impl FnOnce(&Result<Report, String>),
) -> Result<MigrationReport, String> {
    let Command { session, action } = read(socket)?;
    if session.is_some() {
        return Err("must be a process number: a worker has one session".into());
    }
    let report = match action {
        Action::Migrate { to, proxy } => migration.migrate(&by_proxy(&to, proxy)?, last)?,
        Action::Snapshot { folder, ends } => migration.snapshot(&folder, ends, last)?,
    };
    Ok(report.into())
}

/// Moves or writes one of a server's sessions.
fn serve_one(sessions: &Sessions, socket: &UnixStream) -> Result<MigrationReport, String> {
    let Command { session, action } = read(socket)?;
    let number = session.ok_or("must be SERVER.NUMBER: the process is a server")?;
    let session = sessions.migration(number)?;
    let report = match action {
        Action::Migrate { to, proxy } => session.migrate(&by_proxy(&to, proxy)?)?,
        Action::Snapshot { folder, ends } => {
            session.snapshot(&mut |frozen| file::write_device(&folder, frozen), ends)?
        }
    };
    Ok(report.into())
}
