//! CDI files: one for each prepared claim, which containers that use the claim are given by name.
//!
//! Version 0.6.0 of the format, as for `reef.dev-gpu.json`.

use super::checkpoint::Claims;
use super::claim::Prepared;
use super::config::ClaimsConfig;
use crate::error::{Error, Result};
use crate::node::cdi;
use crate::node::dmem::ContainerLimit;
use crate::node::edits::{Terms, device_node, mounts, own_mounts, shared_nodes, variables};
use crate::node::gpu::Gpu;
use reef_guest::limit::percent;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The kind of our claims.
const KIND: &str = "reef.dev/claim";
/// Prefix of the names of their files.
const PREFIX: &str = "reef.dev-claim_";

/// CDI name by which a container gets one device of a claim.
pub(super) fn id(uid: &str, number: usize) -> String {
    format!("{KIND}={}", name(uid, number))
}

fn name(uid: &str, number: usize) -> String {
    format!("{uid}-{number}")
}

fn path(folder: &Path, uid: &str) -> PathBuf {
    folder.join(format!("{PREFIX}{uid}.json"))
}

/// Writes a claim's file if it doesn't say so already.
///
/// # Errors
///
/// A GPU of the claim isn't there, or the file can't be written.
pub(super) fn write(
    config: &ClaimsConfig,
    uid: &str,
    claim: &Prepared,
    gpus: &[Gpu],
) -> Result<()> {
    let spec = spec(config, uid, claim, gpus).map_err(Error::Failed)?;
    cdi::write_file(&path(&config.cdi, uid), &spec)
}

/// Removes a claim's file if there is one.
pub(super) fn remove(folder: &Path, uid: &str) -> Result<()> {
    let path = path(folder, uid);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::of(&path, &error)),
        _ => Ok(()),
    }
}

/// Removes files of claims that aren't prepared.
pub(super) fn sweep(folder: &Path, claims: &Claims) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let uid = name.to_str().and_then(|it| it.strip_prefix(PREFIX)?.strip_suffix(".json"));
        if uid.is_some_and(|uid| !claims.contains_key(uid)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The GPU that a ResourceSlice calls so: names there are in small letters.
pub(super) fn gpu<'a>(device: &str, gpus: &'a [Gpu]) -> std::result::Result<&'a Gpu, String> {
    let is_it = |gpu: &&Gpu| gpu.is_there && gpu.uuid.to_ascii_lowercase() == device;
    gpus.iter().find(is_it).ok_or_else(|| format!("no device {device:?} on this node"))
}

fn spec(
    config: &ClaimsConfig,
    uid: &str,
    claim: &Prepared,
    gpus: &[Gpu],
) -> std::result::Result<Value, String> {
    let gpus: Vec<_> = claim
        .devices
        .iter()
        .map(|it| gpu(&it.device, gpus))
        .collect::<std::result::Result<_, _>>()?;
    let devices = gpus.iter().enumerate().map(|(number, gpu)| {
        let edits = json!({ "deviceNodes": [{ "path": device_node(gpu) }] });
        json!({ "name": name(uid, number), "containerEdits": edits })
    });
    let node = &config.node;
    let class = claim.granted.class();
    let (memory, compute) = (claim.granted.memory, claim.granted.compute);
    let memory = memory.map(|bytes| bytes.to_string());
    let compute = compute.map(|part| format!("{}%", percent(part.into())));
    let terms =
        Terms { class, memory: memory.as_deref(), compute: compute.as_deref(), name: Some(uid) };
    let env =
        variables(node, &terms, &gpus).into_iter().map(|(name, value)| format!("{name}={value}"));
    let mounts = [mounts(node), own_mounts(node, class)].concat();
    let nodes = shared_nodes(&node.root).into_iter().map(|path| json!({ "path": path }));
    let mut edits = json!({
        "env": env.collect::<Vec<_>>(),
        "deviceNodes": nodes.collect::<Vec<_>>(),
        "mounts": mounts.iter().map(cdi::mount).collect::<Vec<_>>(),
    });
    if let Some(hook) = hook(config, claim, &gpus) {
        edits["hooks"] = json!([hook]);
    }
    Ok(json!({
        "cdiVersion": cdi::VERSION,
        "kind": KIND,
        "devices": devices.collect::<Vec<_>>(),
        "containerEdits": edits,
    }))
}

/// Hook that has the kernel keep the claim's limit of memory, if it has one.
fn hook(config: &ClaimsConfig, claim: &Prepared, gpus: &[&Gpu]) -> Option<Value> {
    let gpus = gpus.iter().map(|gpu| gpu.address.clone()).collect();
    let limit = ContainerLimit { max: claim.granted.memory?, gpus };
    Some(limit.hook(config.dmem_hook.as_ref()?))
}
