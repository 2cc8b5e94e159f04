//! Variables, mounts and device nodes of a container as plain values, made from the configuration
//! and its device ids alone.

use crate::node::gpu::Gpu;
use crate::node::paths::Node;
use crate::resource::{Resource, gpu_of};
use reef_guest::page::Class;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Folder of REEF's files in containers.
const HOME: &str = "/opt/reef";
/// Folder of the daemon's sockets in containers.
const DAEMON: &str = "/run/reef";
/// File with the token of real-time containers.
const TOKEN: &str = "/opt/reef/token";
/// Nodes that all GPUs share; those that there are.
const SHARED_NODES: [&str; 3] = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"];

/// A file or folder of the node in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) node: String,
    pub(crate) container: String,
    pub(crate) read_only: bool,
}

/// Paths were checked to be UTF-8 when the plugin started.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn mount(node: &Path, container: impl Into<String>) -> Mount {
    Mount { node: text(node), container: container.into(), read_only: true }
}

/// The GPUs of these ids, each once.
///
/// # Errors
///
/// An id that isn't one of the resource's, a GPU that isn't there, two ids of one GPU: its limits
/// would be one container's, so what the second is for can't be said.
pub(crate) fn gpus_of<'a>(
    resource: &Resource,
    ids: &[String],
    gpus: &'a [Gpu],
) -> Result<Vec<&'a Gpu>, String> {
    let name = resource.name();
    let find = |id: &String| {
        let gpu = gpus.iter().find(|gpu| gpu_of(id) == Some(&gpu.uuid));
        let gpu = gpu.filter(|gpu| resource.ids(&gpu.uuid).any(|own| own == *id));
        let gpu = gpu.ok_or_else(|| format!("{name}: no device {id:?} on this node"))?;
        if gpu.is_there { Ok(gpu) } else { Err(format!("{name}: the GPU of {id} has gone")) }
    };
    let found: Vec<_> = ids.iter().map(find).collect::<Result<_, String>>()?;
    let distinct: BTreeSet<_> = found.iter().map(|gpu| &gpu.uuid).collect();
    match (found.len(), distinct.len()) {
        (0, _) => Err(format!("{name}: a container without devices")),
        (all, each) if all == each => Ok(found),
        (all, each) => {
            Err(format!("{name}: {all} devices of {each} GPUs, a container has one of each GPU"))
        }
    }
}

/// Terms of a container: its class, its limits as programs read them, and the name by which its
/// programs share one limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) class: Class,
    pub(crate) memory: Option<&'a str>,
    pub(crate) compute: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
}

/// Variables of a container that has these GPUs.
pub(crate) fn variables(node: &Node, terms: &Terms<'_>, gpus: &[&Gpu]) -> BTreeMap<String, String> {
    let uuids: Vec<_> = gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
    let home = |path: &PathBuf| format!("{HOME}/{}", file_name(path));
    let driver = node.driver.as_ref().map(home);
    let shim = driver.is_none().then(|| home(&node.shim));
    let nvml = node.nvml.as_ref().filter(|_| terms.memory.is_some()).map(home);
    let preload: Vec<_> = shim.into_iter().chain(nvml).collect();
    let is_rt = terms.class == Class::RealTime;
    let own = |text: Option<&str>| text.map(str::to_owned);
    let variables = [
        ("REEF_CLASS", Some(terms.class.to_string())),
        ("REEF_GUESTS", Some(format!("{DAEMON}/guests.sock"))),
        ("REEF_LIMIT_ID", own(terms.name)),
        ("REEF_MEMORY", own(terms.memory)),
        ("REEF_COMPUTE", own(terms.compute)),
        ("REEF_ACCOUNTS", node.accounts.as_ref().map(|_| format!("{HOME}/accounts"))),
        ("REEF_TOKEN_FILE", node.token.as_ref().filter(|_| is_rt).map(|_| TOKEN.to_owned())),
        ("LD_PRELOAD", (!preload.is_empty()).then(|| preload.join(":"))),
        ("REEF_CUDA", driver),
        // For NVIDIA's container runtime, which brings the driver's libraries.
        ("NVIDIA_VISIBLE_DEVICES", Some(uuids.join(","))),
    ];
    variables.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Mounts of all containers: the library, the driver that it stands for, the daemon's sockets, the
/// accounts.
pub(crate) fn mounts(node: &Node) -> Vec<Mount> {
    let mut mounts = vec![mount(&node.daemon, DAEMON)];
    match &node.driver {
        Some(driver) => mounts.extend([
            mount(&node.shim, text(driver)),
            mount(driver, format!("{HOME}/{}", file_name(driver))),
        ]),
        None => mounts.push(mount(&node.shim, format!("{HOME}/{}", file_name(&node.shim)))),
    }
    let nvml = node.nvml.as_ref();
    mounts.extend(nvml.map(|path| mount(path, format!("{HOME}/{}", file_name(path)))));
    let accounts = node.accounts.as_ref();
    mounts.extend(
        accounts.map(|path| Mount { read_only: false, ..mount(path, format!("{HOME}/accounts")) }),
    );
    mounts
}

/// Mounts of containers of this class alone.
pub(crate) fn own_mounts(node: &Node, class: Class) -> Vec<Mount> {
    let token = node.token.as_ref().filter(|_| class == Class::RealTime);
    token.map(|path| mount(path, TOKEN)).into_iter().collect()
}

/// Device nodes of all GPUs together.
pub(crate) fn shared_nodes(root: &Path) -> Vec<String> {
    let is_there = |node: &&str| root.join(node.trim_start_matches('/')).exists();
    SHARED_NODES.into_iter().filter(is_there).map(str::to_owned).collect()
}

/// The device node of one GPU.
pub(crate) fn device_node(gpu: &Gpu) -> String {
    format!("/dev/nvidia{}", gpu.minor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::node::FakeNode;

    /// If the library is mounted over the driver, the one for NVML alone is preloaded.
    #[test]
    fn container_with_a_memory_limit_has_the_nvml_library() {
        let node = FakeNode::new();
        let with = |driver: Option<&str>| Node {
            nvml: Some("/reef/nvml.so".into()),
            driver: driver.map(PathBuf::from),
            ..node.node()
        };
        let preload = |node: &Node, memory| {
            let terms = Terms { class: Class::BestEffort, memory, compute: None, name: None };
            variables(node, &terms, &[]).remove("LD_PRELOAD")
        };
        let (preloaded, mounted) = (with(None), with(Some("/lib/libcuda.so.1")));
        let both = "/opt/reef/shim.so:/opt/reef/nvml.so";
        assert_eq!(preload(&preloaded, Some("8GiB")).as_deref(), Some(both));
        assert_eq!(preload(&preloaded, None).as_deref(), Some("/opt/reef/shim.so"));
        assert_eq!(preload(&mounted, Some("8GiB")).as_deref(), Some("/opt/reef/nvml.so"));
        assert_eq!(preload(&mounted, None), None);
        let is_there = |mount: &Mount| mount.container == "/opt/reef/nvml.so";
        assert!(mounts(&mounted).iter().any(is_there) && mounts(&preloaded).iter().any(is_there));
        assert!(!mounts(&node.node()).iter().any(is_there));
    }
}
