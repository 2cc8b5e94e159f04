//! How a client connects, and what it is told of a request.

use crate::class::Class;
use reef::Rate;
use std::path::PathBuf;
use std::time::Duration;

/// How a client connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Folder of the daemon's sockets; `None`: where a daemon has it by default.
    pub folder: Option<PathBuf>,
    /// Class of all its requests; `None`: the daemon's default.
    pub class: Option<Class>,
    /// The device time that it needs in each period, of a real-time client: admitted if it fits,
    /// see [`Client::has_budget`](super::connection::Client::has_budget).
    pub rate: Option<Rate>,
    /// How long it polls for an answer before it sleeps.
    pub spin: Duration,
    /// Longest time of a request; `None`: the daemon's.
    pub timeout: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        let spin = Duration::from_micros(50);
        Self { folder: None, class: None, rate: None, spin, timeout: None }
    }
}

/// How long an inference took, as the daemon saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// On the device, with the time until it could begin.
    pub infer: Duration,
    /// Until its first command could start; 0 for best-effort work.
    pub delay: Duration,
    /// From the moment when it was asked for until the daemon began with it: its thread may have to
    /// wake up, or has others before it.
    pub way_in: Duration,
    /// From the daemon's answer until [`Client::receive`](super::connection::Client::receive) saw
    /// it.
    pub way_out: Duration,
}
