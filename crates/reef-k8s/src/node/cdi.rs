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
    let text = format!("{spec:#}\n");
    let found = reef_files::read_to_string(path, reef_files::MAX_TEXT_BYTES);
    if found.is_ok_and(|found| found == text) {
        return Ok(());
    }
    reef_files::write(path, text).map_err(|error| Error::of(path, &error))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_written_through_no_link_and_read_from_no_fifo() {
        let folder = std::env::temp_dir().join(format!("reef-cdi-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder); // of a test that was killed
        std::fs::create_dir_all(&folder).unwrap();
        let [path, precious] = [FILE, "precious"].map(|name| folder.join(name));
        std::fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, folder.join(format!(".{FILE}.new"))).unwrap();
        write_file(&path, &json!({ "a": 1 })).unwrap();
        let read: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read, json!({ "a": 1 }));
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = write_file(&path, &json!({})).unwrap_err().to_string();
        let want = "must be absent or a regular file, got a FIFO";
        assert_eq!(error, format!("{}: {want}", path.display()));
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
