//! Mounts and device nodes by name: a file of the Container Device Interface.
//!
//! Version 0.6.0, the lowest that has what is used here and names like ours; newer container
//! runtimes read it too. Variables aren't in it: they differ from container to container.

use crate::error::{Error, Result};
use crate::node::edits::{Mount, device_node, mounts, shared_nodes};
use crate::node::gpu::Gpu;
use crate::node::paths::Node;
use serde_json::{Value, json};
use std::path::Path;

/// The version of the format.
pub(crate) const VERSION: &str = "0.6.0";
/// The kind of our devices.
const KIND: &str = "reef.dev/gpu";
/// The file in the folder of all.
const FILE: &str = "reef.dev-gpu.json";

/// CDI name of this GPU.
pub(crate) fn name(gpu: &Gpu) -> String {
    format!("{KIND}={}", gpu.uuid)
}

/// Writes the file for these GPUs if it doesn't say so already.
pub(crate) fn write(node: &Node, folder: &Path, gpus: &[Gpu]) -> Result<()> {
    write_file(&folder.join(FILE), &spec(node, gpus))
}

/// Writes a file if it doesn't say so already. A reader sees the old one or the new one whole.
pub(crate) fn write_file(path: &Path, spec: &Value) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (text, new) = (format!("{spec:#}\n"), path.with_file_name(format!(".{name}.new")));
    if std::fs::read_to_string(path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    std::fs::write(&new, text).map_err(|error| Error::of(&new, &error))?;
    std::fs::rename(&new, path).map_err(|error| Error::of(path, &error))
}

/// A mount in the format's words.
pub(crate) fn mount(mount: &Mount) -> Value {
    let options = ["bind", "nosuid", "nodev", if mount.read_only { "ro" } else { "rw" }];
    json!({ "hostPath": mount.node, "containerPath": mount.container, "options": options })
}

fn spec(node: &Node, gpus: &[Gpu]) -> Value {
    let device = |gpu: &Gpu| json!({ "name": gpu.uuid, "containerEdits": { "deviceNodes": [{ "path": device_node(gpu) }] } });
    let mounts: Vec<_> = mounts(node).iter().map(mount).collect();
    let shared: Vec<_> =
        shared_nodes(&node.root).iter().map(|node| json!({ "path": node })).collect();
    json!({
        "cdiVersion": VERSION,
        "kind": KIND,
        "devices": gpus.iter().map(device).collect::<Vec<_>>(),
        "containerEdits": { "deviceNodes": shared, "mounts": mounts },
    })
}
