//! A ResourceClaim as the API server has it, and what it grants on this node.
//!
//! The format is `resource.k8s.io/v1`, of which the parts are read that a driver needs.

use super::config::DRIVER;
use super::quantity::Quantity;
use super::settings::{Counted, Granted, Settings};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Grant of a claim on this node: the same for all containers that use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prepared {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) granted: Granted,
    pub(super) devices: Vec<Allocated>,
}

/// A GPU of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Allocated {
    /// The request that it was allocated for.
    pub(super) request: String,
    /// Its name in the ResourceSlice.
    pub(super) device: String,
    /// Share ID of this allocation, if the device is allocated several times.
    pub(super) share: Option<String>,
    /// Bytes of it that the scheduler counts for this claim, which may be none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(super) counted: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

#[derive(Debug, Deserialize)]
struct Claim {
    metadata: Metadata,
    status: Option<Status>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    namespace: String,
    name: String,
    uid: String,
}

#[derive(Debug, Deserialize)]
struct Status {
    allocation: Option<Allocation>,
}

#[derive(Debug, Deserialize)]
struct Allocation {
    devices: Devices,
}

#[derive(Debug, Deserialize)]
struct Devices {
    #[serde(default)]
    results: Vec<Outcome>,
    #[serde(default)]
    config: Vec<Configuration>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    request: String,
    driver: String,
    pool: String,
    device: String,
    #[serde(rename = "shareID")]
    share: Option<String>,
    #[serde(default)]
    consumed_capacity: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct Configuration {
    source: Source,
    #[serde(default)]
    requests: Vec<String>,
    opaque: Option<Opaque>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Source {
    FromClass,
    FromClaim,
}

#[derive(Debug, Deserialize)]
struct Opaque {
    driver: String,
    parameters: Value,
}

/// Grant on the node of the claim with this UID.
///
/// # Errors
///
/// It is another claim of the same name by now, isn't allocated, or not here; what it asks for
/// can't be granted.
pub(super) fn read(value: &Value, uid: &str, node: &str) -> Result<Prepared, String> {
    let claim = Claim::deserialize(value).map_err(|error| format!("not a claim: {error}"))?;
    if claim.metadata.uid != uid {
        return Err(format!("it is another one by now, with UID {}", claim.metadata.uid));
    }
    let devices = claim.status.and_then(|status| status.allocation).ok_or("it isn't allocated")?;
    let devices = devices.devices;
    let own: Vec<_> = devices.results.iter().filter(|it| it.driver == DRIVER).collect();
    let first = own.first().ok_or_else(|| format!("no device of driver {DRIVER} in it"))?;
    if let Some(other) = own.iter().find(|it| it.pool != node) {
        return Err(format!(
            "device {} is of pool {}, this node is {node}",
            other.device, other.pool
        ));
    }
    check_gpus(&own)?;
    let granted = devices.grant(first)?;
    for other in &own {
        if devices.grant(other)? != granted {
            let (one, other) = (&first.request, &other.request);
            return Err(format!(
                "requests {one} and {other} differ: a claim has one class and one limit"
            ));
        }
    }
    let Metadata { namespace, name, .. } = claim.metadata;
    let devices = own.into_iter().map(Outcome::allocated).collect::<Result<_, _>>()?;
    Ok(Prepared { namespace, name, granted, devices })
}

/// Two shares of one GPU would have one limit.
fn check_gpus(own: &[&Outcome]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    match own.iter().find(|it| !seen.insert(&it.device)) {
        Some(twice) => Err(format!("device {} is allocated twice in it", twice.device)),
        None => Ok(()),
    }
}

impl Outcome {
    fn allocated(&self) -> Result<Allocated, String> {
        let Self { request, device, share, .. } = self;
        Ok(Allocated {
            request: request.clone(),
            device: device.clone(),
            share: share.clone(),
            counted: self.counted()?.memory.map_or(0, Quantity::bytes),
        })
    }

    fn counted(&self) -> Result<Counted, String> {
        let amount = |name: &str| {
            let full = format!("{DRIVER}/{name}");
            let text = self.consumed_capacity.get(name).or(self.consumed_capacity.get(&full));
            text.map(|text| text.parse().map_err(|why| format!("capacity {name}: {why}")))
                .transpose()
        };
        Ok(Counted { memory: amount("memory")?, compute: amount("compute")? })
    }
}

impl Devices {
    fn grant(&self, of: &Outcome) -> Result<Granted, String> {
        let class = self.settings(Source::FromClass, &of.request)?;
        let claim = self.settings(Source::FromClaim, &of.request)?;
        Granted::new(&class, &claim, of.counted()?)
            .map_err(|why| format!("request {}: {why}", of.request))
    }

    /// Settings for a request, or for the request that it is an alternative of. Later settings take
    /// precedence.
    fn settings(&self, source: Source, request: &str) -> Result<Settings, String> {
        let main = request.split('/').next().unwrap_or(request);
        let is_for = |it: &&Configuration| {
            let of_all = it.requests.is_empty();
            it.source == source
                && (of_all || it.requests.iter().any(|name| name == request || name == main))
        };
        let opaque = self.config.iter().filter(is_for).filter_map(|it| it.opaque.as_ref());
        opaque.filter(|it| it.driver == DRIVER).try_fold(Settings::default(), |all, it| {
            let read = Settings::read(&it.parameters);
            Ok(all.and(read.map_err(|why| format!("parameters of {DRIVER}: {why}"))?))
        })
    }
}
