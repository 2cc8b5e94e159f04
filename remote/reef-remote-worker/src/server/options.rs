//! Options of a server.

use reef_remote::observe::Sessions;
use reef_remote::server::Security;
use reef_remote_calls::SCHEMA;
use reef_wire::ServerOptions;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

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
    /// Numbers of users, of which each session has one; `None`: workers have the server's. The
    /// server must be root, and neither MPS nor a daemon nor parts of the time may want one user.
    pub users: Option<RangeInclusive<u32>>,
    /// Accepts clients without a token also where kernels of a device reach all memory of their
    /// worker.
    pub allow_host_access: bool,
    /// Sessions at a time.
    pub max_sessions: usize,
    /// List that has the sessions.
    pub sessions: Sessions,
    /// Time for which a session is kept whose client's system closed the connection, as it does
    /// when the client's process has ended; in whole milliseconds.
    pub closed_timeout: Duration,
}

impl WorkerOptions {
    /// Options with the worker's program, such as this crate's: the system's driver, no files, the
    /// server's user, 1,000 sessions, 3 s for a client whose connection was closed.
    pub fn new(program: PathBuf) -> Self {
        let command = vec!["session".into()];
        let (security, sessions) = (Security::default(), Sessions::default());
        Self {
            program,
            command,
            driver: None,
            security,
            users: None,
            allow_host_access: false,
            max_sessions: 1000,
            sessions,
            closed_timeout: ServerOptions::new(SCHEMA).closed_timeout,
        }
    }
}
