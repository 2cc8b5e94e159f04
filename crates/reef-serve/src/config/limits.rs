//! Bounds on memory, connections, requests and times.

use crate::error::{Error, Result};
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum of [`Limits::tensors`].
pub(crate) const MAX_TENSORS: usize = 4096;

/// Bounds on the memory of models and clients, in MiB; 0 means no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Memory {
    /// All models and clients together; default 4096.
    pub total_mib: u64,
    /// One version of a model, weights and instances; default 2048.
    pub model_mib: u64,
    /// One client of the local path: its instance and its shared memory; default 512.
    pub client_mib: u64,
    /// Requests of gRPC and HTTP with their answers; a principal may have its quota of them (see
    /// [`Limits::principal_percent`]), and an eighth is for the owner alone; default 512.
    pub requests_mib: u64,
    /// Requests and answers of one connection; default 256.
    pub connection_mib: u64,
    /// Host memory of all programs that are off their GPU on demand; default 0.
    pub away_mib: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            total_mib: 4096,
            model_mib: 2048,
            client_mib: 512,
            requests_mib: 512,
            connection_mib: 256,
            away_mib: 0,
        }
    }
}

/// Address space of the daemon without the memory that it bounds, in MiB: programs, stacks, and the
/// allocator's reserve for each thread.
const OWN_MIB: u64 = 512;

impl Memory {
    /// Refuses a limit of the address space (`ulimit -v`) that is below the bounds: a failed
    /// allocation would end the daemon.
    ///
    /// # Errors
    ///
    /// `Invalid`, with what is needed.
    pub(crate) fn check_address_space(&self) -> Result<()> {
        let limit = getrlimit(Resource::As).current;
        limit.map_or(Ok(()), |bytes| self.check_limit(bytes >> 20))
    }

    fn check_limit(&self, limit: u64) -> Result<()> {
        let needed = self.total_mib.saturating_add(self.requests_mib).saturating_add(OWN_MIB);
        if limit >= needed {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "address space (ulimit -v): must be at least {needed} MiB for memory.total_mib = {}, \
             memory.requests_mib = {} and {OWN_MIB} MiB of the daemon, got {limit} MiB: raise the \
             limit or lower the keys",
            self.total_mib, self.requests_mib
        )))
    }
}

/// Bounds on clients' use of the daemon. Anything above is refused at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections at a time for each kind of endpoint: local path, Unix sockets, TCP; default 256.
    pub clients: usize,
    /// Connections over TCP that one address, or one user on loopback, may make in a second, 0
    /// means no limit; default 200. One above the limit must show a token or a certificate. If the
    /// configuration has none, it is closed at once.
    pub connects_per_second: u32,
    /// Open requests of gRPC and HTTP; default 256. An eighth is for the owner alone.
    pub open_requests: usize,
    /// Quota of one principal in connections, open requests and their memory, in percent of all.
    /// The rest is left to others; default 50.
    pub principal_percent: u64,
    /// Waiting requests for one model in one class; default 64.
    pub queue: usize,
    /// Maximum length of a message in MiB; default 64.
    pub message_mib: usize,
    /// Loaded versions of models; default 64.
    pub models: usize,
    /// Networks of one model for different request shapes, if its sizes are open; default 16. A
    /// principal may have its quota of them.
    pub shapes: usize,
    /// Inputs or outputs of one request, up to 4096; default 1024.
    pub tensors: usize,
    /// Registered regions of shared memory; default 256. One tenant may have its quota of them, and
    /// an eighth is for the owner alone.
    pub regions: usize,
    /// Open requests of one client of the local path, a power of two up to 64; default 4.
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
            message_mib: 64,
            models: 64,
            shapes: 16,
            tensors: 1024,
            regions: 256,
            ring: 4,
        }
    }
}

impl Limits {
    /// Returns the quota in `all` of unauthenticated clients together: three quarters, or the quota
    /// of one principal if that is more.
    pub(crate) fn of_anonymous(&self, all: u64) -> u64 {
        self.part(all).max(all - all / 4)
    }

    /// Returns the quota in `all` of all principals other than the owner together: the rest, an
    /// eighth, is for the owner alone.
    pub(crate) fn of_others(all: u64) -> u64 {
        all - all / 8
    }

    /// Returns the quota in `all` of one principal: at least one.
    pub(crate) fn part(&self, all: u64) -> u64 {
        let part = u128::from(all) * u128::from(self.principal_percent) / 100;
        u64::try_from(part).unwrap_or(u64::MAX).max(1)
    }
}

/// Timeouts and intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Times {
    /// Maximum time of a request in milliseconds, whatever the request asks for; default 60000.
    pub request_ms: u64,
    /// Time for open requests to end and for their answers to be sent before the daemon stops, in
    /// milliseconds; default 30000.
    pub drain_ms: u64,
    /// Time in milliseconds, default 60000: for a handshake of TLS, for the first request of a
    /// connection, including the wait for it, and for the body of each request.
    pub idle_ms: u64,
    /// Silence after which a gRPC client is pinged, and the time that it has to answer; in
    /// milliseconds, default 30000.
    pub keepalive_ms: u64,
    /// Time after which a client that reads nothing of its answer is cut off; in milliseconds,
    /// default 10000.
    pub write_ms: u64,
    /// Time that a network for request shapes stays after its last request, in milliseconds, 0 is
    /// for ever; default 600000.
    pub shapes_ms: u64,
    /// Time that a thread of the local path polls before it sleeps, in microseconds; default 50.
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
    /// Returns `request_ms` as a duration.
    pub fn request(&self) -> Duration {
        Duration::from_millis(self.request_ms)
    }

    /// Returns `drain_ms` as a duration.
    pub fn drain(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }

    /// Returns `idle_ms` as a duration.
    pub fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_ms)
    }

    /// Returns `keepalive_ms` as a duration.
    pub fn keepalive(&self) -> Duration {
        Duration::from_millis(self.keepalive_ms)
    }

    /// Returns `write_ms` as a duration.
    pub fn write(&self) -> Duration {
        Duration::from_millis(self.write_ms)
    }

    /// Returns `shapes_ms` as a duration; `None` is for ever.
    pub fn shapes(&self) -> Option<Duration> {
        (self.shapes_ms > 0).then(|| Duration::from_millis(self.shapes_ms))
    }

    /// Returns `spin_us` as a duration.
    pub fn spin(&self) -> Duration {
        Duration::from_micros(self.spin_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_space_below_the_bounds_is_refused() {
        let memory = Memory { total_mib: 1024, requests_mib: 256, ..Memory::default() };
        memory.check_limit(1792).unwrap();
        let said = memory.check_limit(1000).unwrap_err().to_string();
        assert!(
            said.starts_with(
                "address space (ulimit -v): must be at least 1792 MiB for memory.total_mib = 1024"
            ),
            "{said}"
        );
        assert!(said.contains("got 1000 MiB"), "{said}");
        Memory { total_mib: 0, ..memory }.check_limit(1000).unwrap();
    }
}
