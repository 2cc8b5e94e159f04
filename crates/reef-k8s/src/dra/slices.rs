//! Capacities of this node's GPUs for the scheduler: one ResourceSlice.
//!
//! The format is `resource.k8s.io/v1`. Each GPU is a device that may be allocated more than once,
//! with capacities that each allocation takes a part of.

use super::api::call::{Api, Call};
use super::config::{ClaimsConfig, DRIVER};
use super::suspended::spare::SpareMemory;
use crate::node::gpu::Gpu;
use crate::node::state::State;
use reef_guest::limit::MAX_JOBS;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::Instant;

const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

/// Keeps the slice as it should be.
pub(super) struct Slices {
    config: Arc<ClaimsConfig>,
    api: Arc<dyn Api>,
    /// The slice that was written last, the version of the object, and the time of the last check.
    last: Option<(Value, String, Instant)>,
    /// The last line of the log, so that it isn't said each time.
    said: Option<String>,
}

impl Slices {
    pub(super) fn new(config: Arc<ClaimsConfig>, api: Arc<dyn Api>) -> Self {
        Self { config, api, last: None, said: None }
    }

    /// Writes the slice if what it should say has changed, or if it isn't there as it was left.
    pub(super) async fn keep(&mut self, state: &State, more: &SpareMemory) {
        let wanted = devices(state, self.config.memory, more);
        let due = |at: &Instant| at.elapsed() >= self.config.pace.slices;
        if self.last.as_ref().is_some_and(|(last, _, at)| *last == wanted && !due(at)) {
            return;
        }
        let said = self.sync(wanted).await.err();
        if let Some(line) = said.as_ref().filter(|line| self.said.as_ref() != Some(line)) {
            tracing::warn!("ResourceSlice {}: {line}", self.name());
        }
        self.said = said;
    }

    fn name(&self) -> String {
        format!("{}-{DRIVER}", self.config.name)
    }

    async fn call(
        &self,
        call: Call,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Option<Value>, String> {
        let reply = self.api.call(call, path, body).await.map_err(|error| error.to_string())?;
        match (call, reply.status) {
            (Call::Get, 404) => Ok(None),
            _ => reply.ok().map(Some),
        }
    }

    async fn sync(&mut self, wanted: Value) -> Result<(), String> {
        let path = format!("{SLICES}/{}", self.name());
        let found = self.call(Call::Get, &path, None).await?;
        let version = |object: &Value| {
            object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
        };
        let is_left = |found: &Value| {
            self.last
                .as_ref()
                .is_some_and(|(last, own, _)| *last == wanted && *own == version(found))
        };
        let written = match found {
            Some(found) if is_left(&found) => found,
            Some(found) => {
                let next =
                    found["spec"]["pool"]["generation"].as_i64().unwrap_or(0).saturating_add(1);
                let body = self.slice(&wanted, next, Some(&found["metadata"]));
                self.call(Call::Put, &path, Some(&body)).await?.unwrap_or_default()
            }
            None => {
                let owner = self.node().await?;
                let metadata = json!({ "ownerReferences": [owner] });
                let body = self.slice(&wanted, 1, Some(&metadata));
                self.call(Call::Post, SLICES, Some(&body)).await?.unwrap_or_default()
            }
        };
        self.last = Some((wanted, version(&written), Instant::now()));
        Ok(())
    }

    /// The node as the slice's owner: the slice goes with it.
    async fn node(&self) -> Result<Value, String> {
        let name = &self.config.name;
        let node = self.call(Call::Get, &format!("/api/v1/nodes/{name}"), None).await?;
        let node = node.ok_or_else(|| format!("no node {name} in the cluster"))?;
        let uid =
            node["metadata"]["uid"].as_str().ok_or_else(|| format!("node {name} has no UID"))?;
        Ok(
            json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": true }),
        )
    }

    fn slice(&self, devices: &Value, generation: i64, metadata: Option<&Value>) -> Value {
        let mut metadata = metadata.cloned().unwrap_or_else(|| json!({}));
        metadata["name"] = self.name().into();
        json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": metadata,
            "spec": {
                "driver": DRIVER,
                "nodeName": self.config.name,
                "pool": { "name": self.config.name, "generation": generation, "resourceSliceCount": 1 },
                "devices": devices,
            },
        })
    }
}

/// Devices that work. Without a daemon no program can have a class, so there are none.
fn devices(state: &State, memory: Option<u64>, more: &SpareMemory) -> Value {
    let there = state.gpus.iter().filter(|gpu| gpu.is_there && state.has_daemon);
    Value::Array(there.map(|gpu| device(gpu, memory, more)).collect())
}

/// Zero of a capacity is what a claim takes that asks for none of it: no limit.
fn device(gpu: &Gpu, memory: Option<u64>, more: &SpareMemory) -> Value {
    let name = gpu.uuid.to_ascii_lowercase();
    let part = |value: String| json!({ "value": value, "requestPolicy": { "default": "0", "validRange": { "min": "0" } } });
    let one = json!({ "default": "1", "validValues": ["1"] });
    let mut capacity = json!({
        "compute": part("100".into()),
        "claims": { "value": MAX_JOBS.to_string(), "requestPolicy": one },
    });
    if let Some(bytes) = memory {
        let more = more.get(&name).copied().unwrap_or(0);
        capacity["memory"] = part(bytes.saturating_add(more).to_string());
    }
    let model: String = gpu.model.chars().take(64).collect();
    json!({
        "name": name,
        "attributes": { "uuid": { "string": gpu.uuid }, "model": { "string": model } },
        "allowMultipleAllocations": true,
        "capacity": capacity,
    })
}
