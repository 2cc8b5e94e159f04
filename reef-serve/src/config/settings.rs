//! Every key of the configuration, its default, and what is refused.

use super::guests::Guests;
use super::users::Users;
use crate::class::{self, Class};
use crate::config::rights::{self, RealTime, Rights};
use crate::error::{Error, Result};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The device that everything runs on, such as `cpu:0`, `cpu:0?units=4` or `cuda:1`.
    pub device: String,
    /// Who runs when: `reef`, or one of the other schedulers that `reef demo` compares.
    pub scheduler: String,
    /// How the device is shared between the classes.
    pub rt: RealTime,
    /// Who may do what. The daemon's own user and root, over Unix sockets, may all; others may run best-effort work.
    pub rights: Rights,
    /// Where clients come in.
    pub listen: Listen,
    /// What TCP is encrypted with.
    pub tls: Tls,
    /// Which models there are.
    pub models: Models,
    /// How much memory they may take.
    pub memory: Memory,
    /// How much of everything clients may have.
    pub limits: Limits,
    /// How long things may take.
    pub times: Times,
    /// Unmodified programs.
    pub guests: Guests,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            device: "cpu:0".into(),
            scheduler: "reef".into(),
            rt: RealTime::default(),
            rights: Rights::default(),
            listen: Listen::default(),
            tls: Tls::default(),
            models: Models::default(),
            memory: Memory::default(),
            limits: Limits::default(),
            times: Times::default(),
            guests: Guests::default(),
        }
    }
}

/// Where clients come in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    /// Folder of the sockets `grpc.sock`, `http.sock` and `local.sock`, to which only their owner may write. Default:
    /// `$XDG_RUNTIME_DIR/reef`, or else `reef-UID` in the temporary folder.
    pub folder: Option<PathBuf>,
    /// Who may open these sockets besides root: `owner` (the default), `group NAME` or `all`.
    pub users: Users,
    /// TCP address for gRPC, such as `127.0.0.1:8001`. Not loopback: only with a token
    /// or certificates of clients. A name such as `localhost:8001` does as well.
    #[serde(deserialize_with = "address")]
    pub grpc: Option<SocketAddr>,
    /// TCP address for HTTP, likewise.
    #[serde(deserialize_with = "address")]
    pub http: Option<SocketAddr>,
    /// A file whose first line every TCP client must send: `authorization: Bearer TOKEN`.
    pub token_file: Option<PathBuf>,
    /// Lets tokens come in plain text from other machines: somebody else encrypts, as a proxy does.
    pub insecure: bool,
    /// Lets clients come in from other machines who show neither token nor certificate: somebody else decides who
    /// reaches the daemon, as a cluster does.
    pub anonymous: bool,
    /// `GET /v2/health/live` and `/v2/health/ready` need no token.
    pub open_probes: bool,
    /// Lets TCP clients without a token register shared memory of the daemon's user. Any user of the
    /// machine can connect to a loopback address, so it is off.
    pub tcp_shared_memory: bool,
}

/// What TCP is encrypted with. Files are PEM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// The daemon's certificate and those that lead to its authority. None: TCP is not encrypted.
    pub cert: Option<PathBuf>,
    /// Its private key, which only its owner may read.
    pub key: Option<PathBuf>,
    /// Authorities of clients: a client without a certificate of theirs is refused.
    pub client_ca: Option<PathBuf>,
}

/// Which models there are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Models {
    /// Folder with a folder for each model; none by default.
    pub repository: Option<PathBuf>,
    /// Models that are loaded at the start; `*` is all of the repository.
    pub load: Vec<String>,
    /// The networks that can be built by name are there as well, with made-up weights; off by default.
    pub builtin: bool,
    /// A client of the local path that may control may name a model that is not loaded; it is loaded then.
    pub on_demand: bool,
    /// Class of requests that name no priority.
    #[serde(deserialize_with = "class::deserialize", serialize_with = "class::serialize")]
    pub class: Class,
}

impl Default for Models {
    fn default() -> Self {
        Self {
            repository: None,
            load: Vec::new(),
            builtin: false,
            on_demand: true,
            class: Class::BestEffort,
        }
    }
}

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
    /// Connections over TCP that one address may make in a second, 0 is no limit; default 200. What is over is closed
    /// at once.
    pub connects_per_second: u32,
    /// Requests of gRPC and HTTP that are open at a time; default 256.
    pub open_requests: usize,
    /// How much of connections, open requests and their memory one principal may have, in percent: the rest is
    /// kept for others; default 50.
    pub principal_percent: u64,
    /// Requests that wait for one model in one class; default 64.
    pub queue: usize,
    /// Largest message in MiB; default 16.
    pub message_mib: usize,
    /// Versions of models that are loaded at a time; default 64.
    pub models: usize,
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
            tensors: 16,
            regions: 256,
            ring: 4,
        }
    }
}

impl Limits {
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
    /// How long a handshake of TLS may take, and over HTTP the head of a request, with the wait for it, and
    /// its body, and over gRPC the wait for the first request; in milliseconds, default 60000.
    pub idle_ms: u64,
    /// After how long a silence a gRPC client is asked for a sign of life, and how long it may then take to
    /// give one; in milliseconds, default 30000.
    pub keepalive_ms: u64,
    /// How long a client may take nothing of what is sent to it; in milliseconds, default 10000.
    pub write_ms: u64,
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

    /// As a duration.
    pub fn spin(&self) -> Duration {
        Duration::from_micros(self.spin_us)
    }
}

impl Config {
    /// Refuses what contradicts itself or would be unsafe.
    ///
    /// # Errors
    ///
    /// `Invalid` with the key.
    pub fn check(&self) -> Result<()> {
        let limits = &self.limits;
        for (key, value) in [
            ("limits.clients", limits.clients),
            ("limits.open_requests", limits.open_requests),
            ("limits.queue", limits.queue),
            ("limits.message_mib", limits.message_mib),
            ("limits.models", limits.models),
            ("limits.tensors", limits.tensors),
            ("times.request_ms", self.times.request_ms as usize),
            ("times.idle_ms", self.times.idle_ms as usize),
            ("times.keepalive_ms", self.times.keepalive_ms as usize),
            ("times.write_ms", self.times.write_ms as usize),
        ] {
            in_range(key, value, 1, 1 << 30)?;
        }
        in_range("limits.message_mib", limits.message_mib, 1, 2048)?;
        in_range("limits.principal_percent", limits.principal_percent as usize, 1, 100)?;
        for (key, mib) in [
            ("memory.requests_mib", self.memory.requests_mib),
            ("memory.connection_mib", self.memory.connection_mib),
        ] {
            if mib > 0 {
                in_range(key, mib as usize, limits.message_mib, 1 << 30)?;
            }
        }
        in_range("limits.ring", limits.ring, 1, 64)?;
        in_range("times.spin_us", self.times.spin_us as usize, 0, 1_000_000)?;
        if !limits.ring.is_power_of_two() {
            return Err(Error::Invalid(format!("limits.ring: {} is no power of two", limits.ring)));
        }
        if reef::scheduler::by_name(&self.scheduler).is_none() {
            let have = reef::scheduler::NAMES.join(", ");
            let asked = &self.scheduler;
            return Err(Error::Invalid(format!("scheduler: no {asked:?} (have: {have})")));
        }
        rights::check(&self.rights, &self.rt)?;
        self.tls.check()?;
        let tokens = self.listen.token_file.is_some()
            || self.rights.values().any(|right| right.token_file.is_some());
        self.listen.check(&self.tls, tokens)
    }
}

impl Tls {
    fn check(&self) -> Result<()> {
        let wrong = |text: &str| Err(Error::Invalid(text.into()));
        match (&self.cert, &self.key, &self.client_ca) {
            (Some(_), None, _) => wrong("tls.cert: set tls.key as well"),
            (None, Some(_), _) => wrong("tls.key: set tls.cert as well"),
            (None, None, Some(_)) => wrong("tls.client_ca: set tls.cert and tls.key as well"),
            (Some(_), Some(_), _) | (None, None, None) => Ok(()),
        }
    }
}

impl Listen {
    fn check(&self, tls: &Tls, tokens: bool) -> Result<()> {
        for (key, address) in [("listen.grpc", self.grpc), ("listen.http", self.http)] {
            let Some(address) = address.filter(|address| !address.ip().is_loopback()) else {
                continue;
            };
            let wanted = match (tokens, tls.cert.is_some(), tls.client_ca.is_some()) {
                (false, _, false) if !self.anonymous => "set listen.token_file or tls.client_ca",
                (true, false, _) if !self.insecure => {
                    "tokens would go in plain text: set tls.cert and tls.key, or listen.insecure = true"
                }
                _ => continue,
            };
            return Err(Error::Invalid(format!("{key}: {address} is not loopback: {wanted}")));
        }
        Ok(())
    }
}

/// An address, or what a host's name leads to: its first address of IPv4, or else its first.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let found: Vec<_> = text.to_socket_addrs().into_iter().flatten().collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    let wanted = || format!("{text:?} is no address (such as 127.0.0.1:8000 or localhost:8000)");
    first.map(|&address| Some(address)).ok_or_else(|| D::Error::custom(wanted()))
}

fn in_range(key: &str, value: usize, min: usize, max: usize) -> Result<()> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::Invalid(format!("{key}: {value}, possible are {min} to {max}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_a_configuration() {
        Config::default().check().unwrap();
    }

    #[test]
    fn tcp_beyond_loopback_needs_a_token_or_certificates() {
        let mut config = Config::default();
        config.listen.http = Some("127.0.0.1:8000".parse().unwrap());
        config.check().unwrap();
        config.listen.grpc = Some("0.0.0.0:8001".parse().unwrap());
        let said = config.check().unwrap_err().to_string();
        let want =
            "listen.grpc: 0.0.0.0:8001 is not loopback: set listen.token_file or tls.client_ca";
        assert_eq!(said, want);
        config.listen.anonymous = true;
        config.check().unwrap();
        config.listen.anonymous = false;
        config.listen.token_file = Some("token".into());
        let said = config.check().unwrap_err().to_string();
        assert!(said.ends_with("plain text: set tls.cert and tls.key, or listen.insecure = true"));
        config.listen.insecure = true;
        config.check().unwrap();
        config.listen.insecure = false;
        let right = crate::config::rights::Right::default();
        let right = crate::config::rights::Right { token_file: Some("x".into()), ..right };
        config.rights.insert("token x".into(), right);
        assert!(config.check().is_err(), "neither do the tokens of rights");
        config.rights.clear();
        config.listen.token_file = None;
        let file = || Some("file.pem".into());
        config.tls = Tls { cert: file(), key: file(), client_ca: None };
        assert!(config.check().is_err(), "encryption alone says nothing about who is there");
        config.tls.client_ca = file();
        config.check().unwrap();
        config.tls.key = None;
        assert_eq!(config.check().unwrap_err().to_string(), "tls.cert: set tls.key as well");
    }

    #[test]
    fn an_address_may_be_a_name() {
        let listen = |http: &str| toml::from_str::<Listen>(&format!("http = {http:?}"));
        for text in ["127.0.0.1:8000", "localhost:8000"] {
            assert_eq!(listen(text).unwrap().http, Some(([127, 0, 0, 1], 8000).into()), "{text}");
        }
        for text in ["localhost", "8000", "localhost:80000", ""] {
            let said = listen(text).unwrap_err().to_string();
            assert!(said.contains(&format!("{text:?} is no address (such as ")), "{said}");
        }
    }

    #[test]
    fn values_out_of_range_are_named() {
        let broken = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert_eq!(broken(|c| c.limits.ring = 3), "limits.ring: 3 is no power of two");
        assert_eq!(broken(|c| c.limits.ring = 128), "limits.ring: 128, possible are 1 to 64");
        assert!(broken(|c| c.limits.queue = 0).starts_with("limits.queue: 0, "));
        assert!(
            broken(|c| c.scheduler = "reaf".into()).starts_with("scheduler: no \"reaf\" (have")
        );
    }
}
