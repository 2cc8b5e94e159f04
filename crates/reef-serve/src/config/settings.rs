//! Every key of the configuration, its default and its range.

use super::guests::Guests;
use super::limits::{Limits, MAX_TENSORS, Memory, Times};
use super::listen::{Listen, Tls};
use crate::class::{self, Class};
use crate::config::rights::{self, RealTime, Rights};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Device for all work, such as `cpu:0`, `cpu:0?units=4` or `cuda:1`. Several devices of one
    /// backend are joined by commas; `cuda:*` is all of them. `auto` is a GPU if there is one, else
    /// the CPU; for a daemon with guests and without models it is the CPU.
    pub device: String,
    /// Scheduler by its [name](reef::scheduler::by_name): `reef`, or another one; with a latency
    /// target behind an `@`, such as `reef@1.10`.
    pub scheduler: String,
    /// Sharing of the device between the classes.
    pub rt: RealTime,
    /// Rights by principal. The daemon's own user and root have all rights over Unix sockets;
    /// others may run best-effort work.
    pub rights: Rights,
    /// Endpoints.
    pub listen: Listen,
    /// Encryption of TCP.
    pub tls: Tls,
    /// Models to serve.
    pub models: Models,
    /// Bounds on memory.
    pub memory: Memory,
    /// Bounds on clients.
    pub limits: Limits,
    /// Timeouts and intervals.
    pub times: Times,
    /// Unmodified programs.
    pub guests: Guests,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            device: reef::AUTO.into(),
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

/// Models to serve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Models {
    /// Folder with a folder for each model; none by default.
    pub repository: Option<PathBuf>,
    /// Models loaded at the start; `*` is every model of the repository.
    pub load: Vec<String>,
    /// Adds the networks that can be built by name, with made-up weights; off by default.
    pub builtin: bool,
    /// Loads folders with kernels as source as well, which run native code of their authors; off by
    /// default.
    pub kernels: bool,
    /// Starts the programs of models whose engine is a process; off by default. Only the daemon's
    /// user may be able to write to the repository.
    pub processes: bool,
    /// Folder from which processes on demand start; none by default. Only the daemon's user may
    /// be able to open it.
    pub checkpoints: Option<PathBuf>,
    /// Maximum size of that folder in MiB; 0 means no limit.
    pub checkpoints_mib: u64,
    /// Loads a model that is not loaded when a client of the local path with the right `control`
    /// names it.
    pub on_demand: bool,
    /// Number of devices of a model whose description does not set it; 0 is all.
    pub replicas: usize,
    /// Class of requests without a priority.
    #[serde(deserialize_with = "class::deserialize", serialize_with = "class::serialize")]
    pub class: Class,
}

impl Default for Models {
    fn default() -> Self {
        Self {
            repository: None,
            load: Vec::new(),
            builtin: false,
            kernels: false,
            processes: false,
            checkpoints: None,
            checkpoints_mib: 65536,
            on_demand: true,
            replicas: 1,
            class: Class::BestEffort,
        }
    }
}

impl Models {
    /// Returns whether no model is configured.
    fn is_empty(&self) -> bool {
        self.repository.is_none() && self.load.is_empty() && !self.builtin
    }
}

impl Config {
    /// Returns the device or devices to open, and the reason for a choice of `auto`.
    pub(crate) fn devices(&self) -> (String, Option<String>) {
        if self.device != reef::AUTO {
            return (self.device.clone(), None);
        }
        // A GPU's context takes memory that guests could have.
        if self.guests.listen && self.models.is_empty() {
            return ("cpu:0".into(), Some("on the CPU, as there are no models".into()));
        }
        reef::auto_device()
    }

    /// Refuses contradictory and unsafe settings.
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
            ("limits.shapes", limits.shapes),
            ("times.request_ms", self.times.request_ms as usize),
            ("times.idle_ms", self.times.idle_ms as usize),
            ("times.keepalive_ms", self.times.keepalive_ms as usize),
            ("times.write_ms", self.times.write_ms as usize),
        ] {
            in_range(key, value, 1, 1 << 30)?;
        }
        in_range("limits.message_mib", limits.message_mib, 1, 2048)?;
        in_range("limits.tensors", limits.tensors, 1, MAX_TENSORS)?;
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
            return Err(Error::Invalid(format!(
                "limits.ring must be a power of two, got {}",
                limits.ring
            )));
        }
        if reef::scheduler::by_name(&self.scheduler).is_none() {
            return Err(Error::Invalid(reef::scheduler::no_scheduler(&self.scheduler)));
        }
        if self.models.checkpoints.is_some() && !self.guests.listen {
            let why = "models.checkpoints requires guests.listen = true (reef serve --guests): only processes on demand are written";
            return Err(Error::Invalid(why.into()));
        }
        in_range("models.checkpoints_mib", self.models.checkpoints_mib as usize, 0, 1 << 30)?;
        rights::check(&self.rights, &self.rt)?;
        self.tls.check()?;
        self.guests.check()?;
        self.listen.check(&self.tls, self.has_tokens())
    }

    fn has_tokens(&self) -> bool {
        self.listen.token_file.is_some()
            || self.rights.values().any(|right| right.token_file.is_some())
    }

    /// True if a client over TCP can have a token or a certificate.
    pub(crate) fn has_proofs(&self) -> bool {
        self.has_tokens() || self.tls.client_ca.is_some()
    }
}

fn in_range(key: &str, value: usize, min: usize, max: usize) -> Result<()> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::Invalid(format!("{key} must be {min} to {max}, got {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid() {
        Config::default().check().unwrap();
    }

    #[test]
    fn auto_is_the_cpu_for_guests_without_models() {
        let mut config = Config::default();
        assert_eq!(config.devices(), reef::auto_device());
        config.guests.listen = true;
        let (device, why) = config.devices();
        assert_eq!((&*device, &*why.unwrap()), ("cpu:0", "on the CPU, as there are no models"));
        config.models.builtin = true;
        assert_eq!(config.devices(), reef::auto_device());
        config.device = "cpu:0?units=1".into();
        assert_eq!(config.devices(), ("cpu:0?units=1".into(), None));
    }

    #[test]
    fn endpoints_of_one_address_are_refused() {
        let mut config = Config::default();
        let address = |port: u16| Some(std::net::SocketAddr::from(([127, 0, 0, 1], port)));
        (config.listen.grpc, config.listen.http) = (address(8000), address(8000));
        let said = config.check().unwrap_err().to_string();
        assert_eq!(said, "listen.http: must differ from listen.grpc, got 127.0.0.1:8000 for both");
        config.listen.http = address(8001);
        config.check().unwrap();
        (config.listen.grpc, config.listen.http) = (address(0), address(0));
        config.check().unwrap();
    }

    #[test]
    fn tcp_beyond_loopback_requires_token_or_certificates() {
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
        assert!(config.check().is_err(), "encryption alone does not identify clients");
        config.tls.client_ca = file();
        config.check().unwrap();
        config.tls.key = None;
        assert_eq!(config.check().unwrap_err().to_string(), "tls.cert: set tls.key as well");
    }

    #[test]
    fn value_out_of_range_is_refused_by_key() {
        let broken = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert_eq!(broken(|c| c.limits.ring = 3), "limits.ring must be a power of two, got 3");
        assert_eq!(broken(|c| c.limits.ring = 128), "limits.ring must be 1 to 64, got 128");
        let said = broken(|c| c.models.checkpoints = Some("saved".into()));
        assert!(said.starts_with("models.checkpoints requires guests.listen = true"), "{said}");
        assert!(broken(|c| c.limits.queue = 0).starts_with("limits.queue must be 1 to"));
        assert!(broken(|c| c.scheduler = "reaf".into()).starts_with("no scheduler \"reaf\" (have"));
    }
}
