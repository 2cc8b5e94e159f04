//! A worker's process, as the server sees it.

use super::bridge::bridge;
use super::options::WorkerOptions;
use crate::control::{self, FromWorker, ToWorker};
use crate::state::lock::lock;
use reef_remote::server::Account;
use reef_wire::{Hello, Key, Link, Moved, Traffic};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Connection of a client that has been greeted.
#[derive(Debug)]
pub(super) enum Greeted {
    /// The client's own socket, which the worker uses from now on.
    Plain { socket: OwnedFd, is_tcp: bool },
    /// A link whose secrets stay here.
    Tls(Link),
}

impl Greeted {
    /// Returns a socket for the worker, and whether it is TCP.
    fn into_socket(self) -> io::Result<(OwnedFd, bool)> {
        match self {
            Self::Plain { socket, is_tcp } => Ok((socket, is_tcp)),
            Self::Tls(link) => {
                let (near, far) = UnixStream::pair()?;
                bridge(link, near)?;
                Ok((far.into(), false))
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

/// A worker, and the socket to it.
#[derive(Debug)]
pub(super) struct Worker {
    control: OwnedFd,
    pub(super) pid: u32,
    pub(super) tenant: Option<String>,
    account: Account,
    /// A reservation was refused, and the server's log has it.
    has_complained: AtomicBool,
    /// Number of answers, and the last one.
    status: Mutex<(u64, Traffic)>,
    told: Condvar,
}

impl Worker {
    /// Starts a process. It ends with the thread that calls this.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(super) fn start(
        options: &WorkerOptions,
        tenant: Option<&str>,
        account: Account,
    ) -> io::Result<(Self, Child)> {
        let (control, theirs) = control::pair()?;
        let mut command = Command::new(&options.program);
        command.args(&options.command).args(["--parent", &std::process::id().to_string()]);
        if account.is_bounded() {
            command.args(["--quota", "1"]);
        }
        if let Some(driver) = &options.driver {
            command.arg("--driver").arg(driver);
        }
        // What kernels print goes where this server's messages go.
        let messages = io::stderr().as_fd().try_clone_to_owned()?;
        let child = command.stdin(Stdio::from(theirs)).stdout(messages).spawn()?;
        let (status, told) = (Mutex::default(), Condvar::new());
        let tenant = tenant.map(Into::into);
        let (pid, has_complained) = (child.id(), AtomicBool::new(false));
        Ok((Self { control, pid, tenant, account, has_complained, status, told }, child))
    }

    /// Hands a connection to the process.
    ///
    /// # Errors
    ///
    /// The process has ended.
    pub(super) fn hand(&self, greeted: Greeted, hello: Hello, name: [u8; 16]) -> io::Result<()> {
        let (socket, is_tcp) = greeted.into_socket()?;
        let message = ToWorker::Arrived { hello, name, is_tcp };
        control::send(&self.control, &message, Some(socket.as_fd()))
    }

    /// Reads the process's messages until it has ended.
    pub(super) fn listen(&self, mut notice: impl FnMut(Notice)) {
        while let Ok((message, _)) = control::receive(&self.control) {
            match message {
                FromWorker::Adopted { name, key } => {
                    notice(Notice::Adopted(name, key));
                    let _ = control::send(&self.control, &ToWorker::Noted, None); // it has ended
                }
                FromWorker::Moved { name, moved } => {
                    notice(Notice::Moved(name, moved));
                    let _ = control::send(&self.control, &ToWorker::Noted, None); // as above
                }
                FromWorker::Status(traffic) => {
                    let mut status = lock(&self.status);
                    *status = (status.0 + 1, traffic);
                    self.told.notify_all();
                }
                FromWorker::Reserve(bytes) => {
                    let reserved = self.account.reserve(bytes);
                    let answer = ToWorker::Reserved(reserved.is_ok());
                    let _ = control::send(&self.control, &answer, None); // gone: the loop ends
                    if let Err(text) = reserved
                        && !self.has_complained.swap(true, Ordering::Relaxed)
                    {
                        eprintln!("reef: worker {}: {text}", self.pid);
                    }
                }
                FromWorker::Release(bytes) => self.account.release(bytes),
            }
        }
    }

    /// Asks the process for its status, and waits for it for a limited time. Without an answer it
    /// is the last one.
    #[allow(dead_code)] // for lists of sessions
    pub(super) fn status(&self, timeout: Duration) -> Traffic {
        let status = lock(&self.status);
        let before = status.0;
        if control::send(&self.control, &ToWorker::Ask, None).is_err() {
            return status.1;
        }
        let waited = self.told.wait_timeout_while(status, timeout, |status| status.0 == before);
        waited.unwrap_or_else(std::sync::PoisonError::into_inner).0.1
    }
}
