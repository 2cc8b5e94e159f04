//! The server: a worker process for each connection.

use reef_core::{Error, Result};
use reef_remote::server::{Listener, Security};
use reef_wire::Address;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Time after which a server tries to accept again where the system could not.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Bounds of a server, and what its workers use.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// File of the worker's program.
    pub program: PathBuf,
    /// First arguments of it, by which it calls [`run_worker`](crate::run_worker) with the others.
    pub command: Vec<OsString>,
    /// Library that workers take for the driver; `None`: the one of the system, or of `REEF_CUDA`.
    pub driver: Option<PathBuf>,
    /// Files for connections from other machines.
    pub security: Security,
    /// Sessions at a time.
    pub max_sessions: usize,
}

impl WorkerOptions {
    /// Options with the worker's program, such as this crate's: the system's driver, no files,
    /// 1,000 sessions.
    pub fn new(program: PathBuf) -> Self {
        let command = vec!["session".into()];
        Self { program, command, driver: None, security: Security::default(), max_sessions: 1000 }
    }
}

/// Listening socket, whose connections get a worker each.
#[derive(Debug)]
pub struct Workers {
    listener: Listener,
    options: WorkerOptions,
    running: Arc<AtomicUsize>,
}

impl Workers {
    /// Listens on an address. One that other machines can reach must have a token and TLS.
    ///
    /// # Errors
    ///
    /// `Invalid` if they are missing or the worker's program is; `Host` with the system's reason.
    pub fn bind(address: &Address, options: WorkerOptions) -> Result<Self> {
        if !options.program.is_file() {
            let text = format!("worker {}: no such file", options.program.display());
            return Err(Error::Invalid(text));
        }
        let listener = Listener::bind(address, &options.security)?;
        Ok(Self { listener, options, running: Arc::default() })
    }

    /// Returns the address that programs connect to.
    pub fn address(&self) -> String {
        self.listener.address()
    }

    /// Accepts connections for ever. A worker ends with its connection, or with this thread.
    pub fn run(&self) {
        loop {
            let Ok((socket, is_tcp)) = self.listener.accept() else {
                thread::sleep(ACCEPT_RETRY_INTERVAL); // too many files are open
                continue;
            };
            if self.running.load(Ordering::Relaxed) >= self.options.max_sessions {
                continue; // the connection is closed
            }
            if let Err(error) = self.start(socket, is_tcp) {
                eprintln!("reef: {}: {error}", self.options.program.display());
            }
        }
    }

    fn start(&self, socket: std::os::fd::OwnedFd, is_tcp: bool) -> std::io::Result<()> {
        let WorkerOptions { program, command: first, driver, security, .. } = &self.options;
        let mut command = Command::new(program);
        command.args(first).arg(if is_tcp { "tcp" } else { "unix" });
        command.args(["--parent", &std::process::id().to_string()]);
        let files = [
            ("--driver", driver),
            ("--token-file", &security.token),
            ("--cert", &security.cert),
            ("--key", &security.key),
        ];
        for (name, file) in files {
            if let Some(file) = file {
                command.arg(name).arg(file);
            }
        }
        // What kernels print goes where this server's messages go.
        let messages = std::io::stderr().as_fd().try_clone_to_owned()?;
        let mut child = command.stdin(Stdio::from(socket)).stdout(messages).spawn()?;
        let running = self.running.clone();
        running.fetch_add(1, Ordering::Relaxed);
        let wait = move || {
            let _ = child.wait(); // it has reported its own errors
            running.fetch_sub(1, Ordering::Relaxed);
        };
        thread::Builder::new().name("reef-worker".into()).spawn(wait).map(|_| ())
    }
}
