//! Options of a client, and timing of its requests.

use crate::class::Class;
use reef::Rate;
use std::path::PathBuf;
use std::time::Duration;

/// Options of a client's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Folder of the daemon's sockets; `None` for the default one.
    pub folder: Option<PathBuf>,
    /// Class of all its requests; `None` for the daemon's default.
    pub class: Option<Class>,
    /// Device time that a real-time client needs in each period. Admitted if it fits: see
    /// [`Client::has_budget`](super::connection::Client::has_budget).
    pub rate: Option<Rate>,
    /// Time that it polls for an answer before it sleeps.
    pub spin: Duration,
    /// Maximum time of a request; `None` for the daemon's.
    pub timeout: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        let spin = Duration::from_micros(50);
        Self { folder: None, class: None, rate: None, spin, timeout: None }
    }
}

/// Timing of an inference, as measured by the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Time on the device, including the wait for it.
    pub infer: Duration,
    /// Time until its first command could start; 0 for best-effort work.
    pub delay: Duration,
    /// Time from the request until the daemon began with it: its thread may have to wake up, or
    /// serve others first.
    pub way_in: Duration,
    /// Time from the daemon's answer until [`Client::receive`](super::connection::Client::receive)
    /// saw it.
    pub way_out: Duration,
}
