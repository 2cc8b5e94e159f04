//! A worker's process, as the server sees it.

use super::bridge::{Bridge, Bridges, bridge};
use super::options::WorkerOptions;
use crate::cage::environment::environment;
use crate::cage::users::User;
use crate::control::{self, FromWorker, Status, ToWorker};
use crate::state::lock::lock;
use reef_remote::observe::{SessionCounts, Watched};
use reef_remote::server::Account;
use reef_wire::{Hello, Key, Link, Moved};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// Time that a process has for its end before it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for which the worker is not told that its client's connection has timed out: the client may
/// come back. One that the client's system closed is closed at once.
const LINGER: Duration = Duration::from_secs(30);

/// Connection of a client that has been greeted.
#[derive(Debug)]
pub(super) enum Greeted {
    /// The client's own socket, which the worker uses from now on.
    Plain { socket: OwnedFd, is_tcp: bool, peer: String },
    /// A link whose secrets stay here.
    Tls(Link),
}

impl Greeted {
    /// Returns the client's end, for people.
    fn peer(&self) -> &str {
        match self {
            Self::Plain { peer, .. } => peer,
            Self::Tls(link) => &link.peer,
        }
    }

    /// Returns a socket for the worker, whether it is TCP, and the bridge that it needs.
    fn into_socket(self) -> io::Result<(OwnedFd, bool, Option<Weak<Bridge>>)> {
        match self {
            Self::Plain { socket, is_tcp, .. } => Ok((socket, is_tcp, None)),
            Self::Tls(link) => {
                let (near, far) = UnixStream::pair()?;
                let bridge = bridge(link, near, LINGER)?;
                Ok((far.into(), false, Some(bridge)))
            }
        }
    }
}

/// Message of a worker about a session by its name.
#[derive(Debug)]
pub(super) enum Notice {
    /// It has one that another server had.
    Adopted([u8; 16], Key),
    /// One is at another server.
    Moved([u8; 16], Moved),
}

/// Client and user of a worker.
pub(super) struct Identity<'a> {
    pub(super) tenant: Option<&'a str>,
    /// The client has shown that it is one of the server's, or the server trusts all.
    pub(super) is_trusted: bool,
    pub(super) user: Option<User>,
}

/// A worker, and the socket to it.
#[derive(Debug)]
pub(super) struct Worker {
    control: OwnedFd,
    pub(super) pid: u32,
    pub(super) tenant: Option<String>,
    /// Its user, if no other session has it.
    _user: Option<User>,
    /// Class as a guest; `None`: the server's.
    pub(super) class: Option<String>,
    account: Account,
    /// A reservation was refused, and the server's log has it.
    has_complained: AtomicBool,
    /// Number of answers, and the last one.
    status: Mutex<(u64, Status)>,
    told: Condvar,
    /// Number of answers before the last question.
    asked: AtomicU64,
    /// The client's end of the last connection.
    peer: Mutex<String>,
    bridges: Bridges,
    /// Name of the process by which it can be killed, whatever its number means then.
    process: Option<OwnedFd>,
    /// Reason for which the operator has ended it.
    ended: OnceLock<String>,
}

impl Worker {
    /// Starts a process. It ends with the thread that calls this.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    pub(super) fn start(
        options: &WorkerOptions,
        account: Account,
        of: Identity<'_>,
        variables: Vec<(&'static str, String)>,
    ) -> io::Result<(Self, Child)> {
        let Identity { tenant, is_trusted, user } = of;
        let (control, theirs) = control::pair()?;
        let mut command = Command::new(&options.program);
        command.args(&options.command).args(["--parent", &std::process::id().to_string()]);
        command.args(["--closed-timeout", &options.closed_timeout.as_millis().to_string()]);
        if is_trusted {
            command.args(["--trusted", "1"]);
        }
        command.env_clear().envs(environment(user.is_some()));
        if let Some(User { number, .. }) = &user {
            command.args(["--own-user", "1"]).uid(*number).gid(*number);
            command.env("CUDA_CACHE_DISABLE", "1").current_dir("/"); // it has no folder
        }
        if account.is_bounded() {
            command.args(["--quota", "1"]);
        }
        if let Some(driver) = &options.driver {
            command.arg("--driver").arg(driver);
        }
        let class = variables.iter().find(|(name, _)| *name == "REEF_CLASS");
        let class = class.map(|(_, class)| class.clone());
        command.envs(variables);
        // The output of kernels goes where this server's messages go.
        let messages = io::stderr().as_fd().try_clone_to_owned()?;
        let child = command.stdin(Stdio::from(theirs)).stdout(messages).spawn()?;
        // An old system has no such names: its workers end by themselves alone.
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        let worker = Self {
            control,
            pid: child.id(),
            tenant: tenant.map(Into::into),
            _user: user,
            class,
            account,
            has_complained: AtomicBool::new(false),
            status: Mutex::default(),
            told: Condvar::new(),
            asked: AtomicU64::new(0),
            peer: Mutex::default(),
            bridges: Bridges::default(),
            process,
            ended: OnceLock::new(),
        };
        Ok((worker, child))
    }

    /// Returns the reason for which the operator has ended it.
    pub(super) fn ended(&self) -> Option<&str> {
        self.ended.get().map(String::as_str)
    }

    /// Hands a connection to the process. Never waits.
    ///
    /// # Errors
    ///
    /// The process has ended, or reads no messages.
    pub(super) fn hand(&self, greeted: Greeted, hello: Hello, name: [u8; 16]) -> io::Result<()> {
        let peer = greeted.peer().to_owned();
        lock(&self.peer).clone_from(&peer);
        let (socket, is_tcp, bridge) = greeted.into_socket()?;
        let message = ToWorker::Arrived { hello, name, is_tcp, peer };
        control::offer(&self.control, &message, Some(socket.as_fd()))?;
        if let Some(bridge) = bridge {
            self.bridges.replace(name, bridge);
        }
        Ok(())
    }

    /// Reads the process's messages until it has ended. `notice` returns whether it takes notice.
    pub(super) fn listen(&self, mut notice: impl FnMut(Notice) -> bool) {
        while let Ok((message, _)) = control::receive(&self.control) {
            match message {
                FromWorker::Adopted { name, key } => {
                    let noted = ToWorker::Noted(notice(Notice::Adopted(name, key)));
                    let _ = control::send(&self.control, &noted, None); // it has ended
                }
                FromWorker::Moved { name, moved } => {
                    let noted = ToWorker::Noted(notice(Notice::Moved(name, moved)));
                    let _ = control::send(&self.control, &noted, None); // as above
                }
                FromWorker::Status(new) => {
                    let mut status = lock(&self.status);
                    *status = (status.0 + 1, new);
                    self.told.notify_all();
                }
                FromWorker::Reserve(what, amount) => {
                    let reserved = self.account.reserve(what, amount);
                    let answer = ToWorker::Reserved(reserved.is_ok());
                    let _ = control::send(&self.control, &answer, None); // gone: the loop ends
                    if let Err(text) = reserved
                        && !self.has_complained.swap(true, Ordering::Relaxed)
                    {
                        eprintln!("reef: worker {}: {text}", self.pid);
                    }
                }
                FromWorker::Release(what, amount) => self.account.release(what, amount),
            }
        }
    }
}

impl Watched for Worker {
    fn ask(&self) {
        self.asked.store(lock(&self.status).0, Ordering::Relaxed);
        // A process that has ended answers no more, and its last answer counts.
        let _ = control::offer(&self.control, &ToWorker::Ask, None);
    }

    fn counts(&self, until: Option<Instant>) -> SessionCounts {
        let mut status = lock(&self.status);
        if let Some(until) = until {
            let left = until.saturating_duration_since(Instant::now());
            let asked = self.asked.load(Ordering::Relaxed);
            let waited = self.told.wait_timeout_while(status, left, |status| status.0 == asked);
            status = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let Status { traffic, single_calls, replayed_calls, memory_bytes } = status.1;
        SessionCounts {
            peer: lock(&self.peer).clone(),
            memory_bytes,
            traffic,
            single_calls: Some(single_calls),
            replayed_calls: Some(replayed_calls),
        }
    }

    /// The process is killed if it does not end within a second.
    fn end(&self, why: &str) {
        let _ = self.ended.set(why.into()); // the first reason counts
        // One that has ended, or reads no messages, is not told.
        let _ = control::offer(&self.control, &ToWorker::End(why.into()), None);
        let Some(process) = self.process.as_ref().and_then(|fd| fd.try_clone().ok()) else {
            return;
        };
        let kill = move || {
            thread::sleep(END_TIMEOUT);
            let _ = pidfd_send_signal(process, Signal::KILL); // it has ended
        };
        // Without a thread it has its chance alone.
        let _ = thread::Builder::new().name("reef-end".into()).spawn(kill);
    }
}
