//! How much of everything there is for clients, and how long things may take.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How much memory models and clients may take, in MiB; 0 is no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Memory {
    /// All models and clients together; default 4096.
    pub total_mib: u64,
    /// One version of a model, weights and instances; default 2048.
    pub model_mib: u64,
    /// One client of the local path: its instance and its shared memory; default 512.
    pub client_mib: u64,
    /// Requests of gRPC and HTTP with their answers, of which a principal has its part (see
    /// [`Limits::principal_percent`]); default 256.
    pub requests_mib: u64,
    /// Those of one connection; default 64.
    pub connection_mib: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            total_mib: 4096,
            model_mib: 2048,
            client_mib: 512,
            requests_mib: 256,
            connection_mib: 64,
        }
    }
}

/// How much of everything clients may have. Whatever is above is refused at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections at a time by each way in: local path, Unix sockets, TCP; default 256.
    pub clients: usize,
    /// Connections over TCP that one address may make in a second, 0 is no limit; default 200. What
    /// is over is closed at once.
    pub connects_per_second: u32,
    /// Requests of gRPC and HTTP that are open at a time; default 256.
    pub open_requests: usize,
    /// How much of connections, open requests and their memory one principal may have, in percent:
    /// the rest is kept for others; default 50.
    pub principal_percent: u64,
    /// Requests that wait for one model in one class; default 64.
    pub queue: usize,
    /// Largest message in MiB; default 16.
    pub message_mib: usize,
    /// Versions of models that are loaded at a time; default 64.
    pub models: usize,
    /// Networks of one model for shapes that requests come with, where its sizes are open; default 16. A principal has its
    /// part of them.
    pub shapes: usize,
    /// Inputs or outputs that a request may name; default 16.
    pub tensors: usize,
    /// Regions of shared memory that are registered at a time; default 256.
    pub regions: usize,
    /// Requests that one client of the local path has open, a power of two up to 64; default 4.
    pub ring: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 256,
            connects_per_second: 200,
            open_requests: 256,
            principal_percent: 50,
            queue: 64,
            message_mib: 16,
            models: 64,
            shapes: 16,
            tensors: 16,
            regions: 256,
            ring: 4,
        }
    }
}

impl Limits {
    /// What of `all` clients may have together that have shown nothing: three quarters, or more if
    /// one of them may.
    pub(crate) fn of_anonymous(&self, all: u64) -> u64 {
        self.part(all).max(all - all / 4)
    }

    /// What of `all` one principal may have: one at least.
    pub(crate) fn part(&self, all: u64) -> u64 {
        let part = u128::from(all) * u128::from(self.principal_percent) / 100;
        u64::try_from(part).unwrap_or(u64::MAX).max(1)
    }
}

/// How long things may take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Times {
    /// Longest time of a request in milliseconds, whatever it asks for; default 60000.
    pub request_ms: u64,
    /// How long open requests are waited for at the end, in milliseconds; default 30000.
    pub drain_ms: u64,
    /// How long a handshake of TLS may take, and over HTTP the head of a request, with the wait for
    /// it, and its body, and over gRPC the wait for the first request; in milliseconds, default
    /// 60000.
    pub idle_ms: u64,
    /// After how long a silence a gRPC client is asked for a sign of life, and how long it may then
    /// take to give one; in milliseconds, default 30000.
    pub keepalive_ms: u64,
    /// How long a client may take nothing of what is sent to it; in milliseconds, default 10000.
    pub write_ms: u64,
    /// How long a network for shapes that requests came with stays after its last request, in
    /// milliseconds, 0 is for ever; default 600000.
    pub shapes_ms: u64,
    /// How long a thread of the local path polls before it sleeps, in microseconds; default 50.
    pub spin_us: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            request_ms: 60_000,
            drain_ms: 30_000,
            idle_ms: 60_000,
            keepalive_ms: 30_000,
            write_ms: 10_000,
            shapes_ms: 600_000,
            spin_us: 50,
        }
    }
}

impl Times {
    /// As a duration.
    pub fn request(&self) -> Duration {
        Duration::from_millis(self.request_ms)
    }

    /// As a duration.
    pub fn drain(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }

    /// As a duration.
    pub fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_ms)
    }

    /// As a duration.
    pub fn keepalive(&self) -> Duration {
        Duration::from_millis(self.keepalive_ms)
    }

    /// As a duration.
    pub fn write(&self) -> Duration {
        Duration::from_millis(self.write_ms)
    }

    /// As a duration; `None` is for ever.
    pub fn shapes(&self) -> Option<Duration> {
        (self.shapes_ms > 0).then(|| Duration::from_millis(self.shapes_ms))
    }

    /// As a duration.
    pub fn spin(&self) -> Duration {
        Duration::from_micros(self.spin_us)
    }
}
