//! Slices as the scheduler sees them.

use super::cluster::Cluster;
use super::kubelet::{Plugin, config, until};
use crate::dra::api::call::Call;
use crate::tests::node::FakeNode;
use serde_json::{Value, json};
use std::sync::Arc;

const PATH: &str = "/apis/resource.k8s.io/v1/resourceslices/node-1-reef.dev";

fn devices(cluster: &Cluster) -> Option<usize> {
    cluster.get(PATH)?["spec"]["devices"].as_array().map(Vec::len)
}

fn generation(cluster: &Cluster) -> i64 {
    cluster.get(PATH).unwrap()["spec"]["pool"]["generation"].as_i64().unwrap()
}

#[tokio::test]
async fn a_slice_says_what_each_gpu_has_for_many_claims() {
    let node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    let _plugin = Plugin::start(&config, &cluster);
    until("a slice of two GPUs", || devices(&cluster) == Some(2)).await;
    // `tools/helm_check.sh` compares this file with Kubernetes' schemas.
    let wanted: Value = serde_json::from_str(include_str!("slice.json")).unwrap();
    assert_eq!(cluster.get(PATH).unwrap(), wanted);
}

#[tokio::test]
async fn slice_follows_gpus_and_daemon_and_is_written_on_change_only() {
    let mut node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    cluster.is_away(true);
    let _plugin = Plugin::start(&config, &cluster);
    until("a try", || cluster.calls(Call::Get, PATH) > 0).await;
    cluster.is_away(false);
    until("a slice of two GPUs", || devices(&cluster) == Some(2)).await;
    node.lose_gpu(1);
    until("one GPU", || devices(&cluster) == Some(1)).await;
    assert_eq!(generation(&cluster), 2);
    node.add_gpu(1);
    until("two GPUs", || devices(&cluster) == Some(2)).await;
    cluster.remove(PATH);
    until("the slice again", || devices(&cluster) == Some(2)).await;
    let mut changed = cluster.get(PATH).unwrap();
    changed["spec"]["devices"] = json!([]);
    changed["metadata"]["resourceVersion"] = "else".into();
    cluster.put(PATH, changed);
    until("the changed slice", || devices(&cluster) == Some(2)).await;
    let (written, polled) = (cluster.calls(Call::Put, PATH), cluster.calls(Call::Get, PATH));
    until("three polls", || cluster.calls(Call::Get, PATH) > polled + 3).await;
    assert_eq!(cluster.calls(Call::Put, PATH), written, "nothing has changed");
    node.end_daemon();
    until("no GPU without a daemon", || devices(&cluster) == Some(0)).await;
}
