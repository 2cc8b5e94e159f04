//! A scheduler that counts memory as that of Kubernetes does.

use super::daemon::GIB;
use crate::dra::config::{ClaimsConfig, SuspendedMemory};
use crate::dra::tests::cluster::{Cluster, device, object, path};
use crate::dra::tests::kubelet::{config, until};
use crate::tests::node::FakeNode;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::sync::Arc;

pub(super) const SLICE: &str = "/apis/resource.k8s.io/v1/resourceslices/node-1-reef.dev";

/// Configuration of a driver that gives memory back.
pub(super) fn giving(node: &FakeNode) -> ClaimsConfig {
    ClaimsConfig { suspended: SuspendedMemory::GiveBack, ..config(node) }
}

/// An allocated claim of `gib` GiB.
pub(super) fn counted(uid: &str, minor: u32, class: &str, gib: u64) -> Value {
    let mut claim = object(uid, minor, class, json!({}));
    let result = &mut claim["status"]["allocation"]["devices"]["results"][0];
    result["consumedCapacity"]["memory"] = format!("{gib}Gi").into();
    claim
}

/// Published memory of a GPU in GiB, if it is published.
pub(super) fn memory(cluster: &Cluster, minor: u32) -> Option<u64> {
    let slice = cluster.get(SLICE)?;
    let devices = slice["spec"]["devices"].as_array()?;
    let own = devices.iter().find(|it| it["name"] == device(minor).as_str())?;
    let bytes: u64 = own["capacity"]["memory"]["value"].as_str()?.parse().unwrap();
    Some(bytes / GIB)
}

/// Waits until a GPU has `gib` GiB.
pub(super) async fn until_memory(cluster: &Cluster, minor: u32, gib: u64) {
    until(&format!("{gib} GiB"), || memory(cluster, minor) == Some(gib)).await;
}

/// Allocates claims of a GPU.
pub(super) struct Scheduler {
    cluster: Arc<Cluster>,
    taken: RefCell<u64>,
}

impl Scheduler {
    pub(super) fn new(cluster: &Arc<Cluster>) -> Self {
        Self { cluster: cluster.clone(), taken: RefCell::default() }
    }

    /// Allocates a claim for the first GPU, if it has room.
    pub(super) fn allocate(&self, uid: &str, class: &str, gib: u64) -> bool {
        let mut taken = self.taken.borrow_mut();
        let has_room = memory(&self.cluster, 0).is_some_and(|all| *taken + gib <= all);
        if has_room {
            *taken += gib;
            self.cluster.put(&path(uid), counted(uid, 0, class, gib));
        }
        has_room
    }
}
