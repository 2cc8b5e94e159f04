//! Fleets: devices and the clients that want them.

use crate::class::Class;
use crate::error::Error;
use crate::profile::{Profile, in_range};
use crate::trace;
use reef_core::{did_you_mean, did_you_mean_in};
use reef_guest::colocation::{Allowance, Caps, Percent, ShareRequest, Slo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Upper bounds of devices and of clients of all kinds.
const MAX_DEVICES: u64 = 1_000_000;
const MAX_CLIENTS: u64 = 10_000_000;

/// Devices and the clients that want them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    /// Machines.
    pub nodes: u32,
    /// Devices of each.
    pub gpus_per_node: u32,
    /// Upper bound of the load of real-time clients that `pack` and `least-interference` put on a
    /// device: 0.7 is 70 % of its time.
    #[serde(default = "rt_load")]
    pub rt_load: f64,
    /// Upper bound of best-effort clients that `pack` and `least-interference` put on a device.
    #[serde(default = "be_per_gpu")]
    pub be_per_gpu: u32,
    /// Measured profile of the device and the networks.
    pub profile: Profile,
    /// Clients that want devices.
    pub clients: Vec<Client>,
    /// Arrivals of files, by the file's path, class and network.
    #[serde(skip)]
    pub(crate) traces: BTreeMap<(PathBuf, Class, String), Arc<[u64]>>,
}

/// Some clients that are alike.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Real-time or best-effort.
    pub class: Class,
    /// A network of the profile.
    pub network: String,
    /// Number of such clients; each is placed by itself.
    #[serde(default = "one_client")]
    pub count: u32,
    /// Arrivals of requests.
    pub arrivals: Arrivals,
    /// Time from its arrival by which a request should be finished, in ms.
    #[serde(default)]
    pub deadline_ms: Option<f64>,
    /// Of real-time tasks, for the scheduler `priority`.
    #[serde(default)]
    pub priority: i32,
    /// Best-effort, under `guests`: percent of the time for which its gate is open while real-time
    /// clients have work.
    #[serde(default)]
    pub colocate: Option<u8>,
    /// Best-effort, under `guests`: percent that it has whatever the targets of real-time clients.
    #[serde(default)]
    pub floor: Option<u8>,
    /// Real-time, under `guests`: bound of the 99th percentile of its latency, as a multiple of
    /// that alone.
    #[serde(default)]
    pub slo: Option<f64>,
}

/// Arrivals of the requests of one client.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Arrivals {
    /// The next one `pause_us` after the one before has finished.
    Closed {
        /// In µs.
        #[serde(default)]
        pause_us: f64,
    },
    /// At random.
    Poisson {
        /// Mean.
        per_second: f64,
    },
    /// At equal intervals.
    Periodic {
        /// Requests per second.
        per_second: f64,
        /// The first one, in ms.
        #[serde(default)]
        offset_ms: f64,
    },
    /// Bursts at random; the requests of one come at once.
    Bursts {
        /// Mean of bursts.
        per_second: f64,
        /// Requests of each.
        size: u32,
    },
    /// The rows of this class and network in a CSV file, dealt to the `count` clients in turns.
    /// Relative paths are from the fleet's folder.
    Trace(PathBuf),
}

fn rt_load() -> f64 {
    0.7
}

fn be_per_gpu() -> u32 {
    4
}

fn one_client() -> u32 {
    1
}

impl Fleet {
    /// Reads a fleet and the traces that it names.
    ///
    /// # Errors
    ///
    /// A file that can't be read or isn't a fleet, or a value that makes no sense.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = reef_files::read_to_string(path, reef_files::MAX_TEXT_BYTES)
            .map_err(|source| Error::File { path: path.into(), source })?;
        let format = |what: String| Error::Format { path: path.into(), what };
        let mut fleet: Self =
            serde_json::from_str(&text).map_err(|error| format(with_meant(&error.to_string())))?;
        fleet.check().map_err(|error| format(error.to_string()))?;
        fleet.load_traces(path.parent().unwrap_or(Path::new(".")))?;
        Ok(fleet)
    }

    /// Devices in all.
    pub fn devices(&self) -> usize {
        self.nodes as usize * self.gpus_per_node as usize
    }

    /// Clients in all.
    pub(crate) fn count(&self) -> u64 {
        self.clients.iter().map(|client| u64::from(client.count)).sum()
    }

    /// Checks that all numbers and names make sense.
    ///
    /// # Errors
    ///
    /// The first number or name that doesn't.
    pub fn check(&self) -> Result<(), Error> {
        let devices = u64::from(self.nodes) * u64::from(self.gpus_per_node);
        if !(1..=MAX_DEVICES).contains(&devices) {
            let (nodes, each) = (self.nodes, self.gpus_per_node);
            return Error::invalid(format!(
                "GPUs must be from 1 to {MAX_DEVICES} in all, got {nodes} nodes of {each}"
            ));
        }
        let clients = self.count();
        if clients > MAX_CLIENTS {
            return Error::invalid(format!("{clients} clients: at most {MAX_CLIENTS}"));
        }
        in_range("rt_load", self.rt_load, 0.001, 1e3)?;
        self.profile.check()?;
        let each = self.clients.iter().enumerate();
        each.into_iter().try_for_each(|(at, client)| client.check(at, &self.profile))
    }

    /// The arrivals of a client that has them from a file.
    pub(crate) fn times(&self, client: &Client) -> Option<&Arc<[u64]>> {
        let Arrivals::Trace(path) = &client.arrivals else { return None };
        self.traces.get(&(path.clone(), client.class, client.network.clone()))
    }

    fn load_traces(&mut self, folder: &Path) -> Result<(), Error> {
        for client in &self.clients {
            let Arrivals::Trace(path) = &client.arrivals else { continue };
            let key = (path.clone(), client.class, client.network.clone());
            if let Entry::Vacant(entry) = self.traces.entry(key) {
                let times = trace::read(&folder.join(path), client.class, &client.network)?;
                entry.insert(times.into());
            }
        }
        Ok(())
    }
}

/// Message of a file's reader, with the key that a misspelt one was meant to be.
fn with_meant(said: &str) -> String {
    format!("{said}{}", did_you_mean_in(said))
}

impl Client {
    fn check(&self, at: usize, profile: &Profile) -> Result<(), Error> {
        if !profile.networks.contains_key(&self.network) {
            let have: Vec<&str> = profile.networks.keys().map(String::as_str).collect();
            let (name, meant) = (&self.network, did_you_mean(&self.network, have.iter().copied()));
            let have = have.join(", ");
            return Error::invalid(format!(
                "clients[{at}]: no network {name:?} (have: {have}){meant}"
            ));
        }
        if let Some(deadline) = self.deadline_ms {
            in_range(&format!("clients[{at}].deadline_ms"), deadline, 0.001, 1e9)?;
        }
        self.check_shares(&format!("clients[{at}]"))?;
        self.arrivals.check(&format!("clients[{at}].arrivals"))
    }

    fn check_shares(&self, at: &str) -> Result<(), Error> {
        for (name, part) in [("colocate", self.colocate), ("floor", self.floor)] {
            let Some(part) = part else { continue };
            in_range(&format!("{at}.{name}"), part.into(), 0.0, 100.0)?;
            if self.class == Class::Rt {
                return Error::invalid(format!("{at}.{name}: class must be be, got rt"));
            }
        }
        let Some(slo) = self.slo else { return Ok(()) };
        in_range(&format!("{at}.slo"), slo, 1.01, 10.0)?;
        if self.class == Class::Be {
            return Error::invalid(format!("{at}.slo: class must be rt, got be"));
        }
        Ok(())
    }

    /// Target of a real-time client.
    pub(crate) fn target(&self) -> Option<Slo> {
        self.slo.and_then(Slo::of)
    }

    /// Shares of a best-effort client. A daemon allows all that it wishes.
    pub(crate) fn allowance(&self) -> Allowance {
        let part = |part: Option<u8>| part.and_then(Percent::new);
        let (colocate, floor) = (part(self.colocate), part(self.floor));
        Allowance::of(&ShareRequest { colocate, floor, slo: None }, &Caps::default())
    }
}

impl Arrivals {
    fn check(&self, at: &str) -> Result<(), Error> {
        match self {
            Self::Closed { pause_us } => in_range(&format!("{at}.pause_us"), *pause_us, 0.0, 1e12),
            Self::Periodic { per_second, offset_ms } => {
                in_range(&format!("{at}.offset_ms"), *offset_ms, 0.0, 1e9)?;
                in_range(&format!("{at}.per_second"), *per_second, 1e-6, 1e7)
            }
            Self::Bursts { per_second, size } => {
                in_range(&format!("{at}.size"), f64::from(*size), 1.0, 1e6)?;
                in_range(&format!("{at}.per_second"), *per_second, 1e-6, 1e7)
            }
            Self::Poisson { per_second } => {
                in_range(&format!("{at}.per_second"), *per_second, 1e-6, 1e7)
            }
            Self::Trace(_) => Ok(()),
        }
    }
}
