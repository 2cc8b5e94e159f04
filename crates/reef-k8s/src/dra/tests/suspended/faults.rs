//! Driver, daemon or API server are away, or the daemon says what can't be.

use super::daemon::{Daemon, GIB, list, program};
use super::scheduler::{SLICE, Scheduler, giving, memory, until_memory};
use crate::dra::api::call::Call;
use crate::dra::config::ClaimsConfig;
use crate::dra::tests::cluster::Cluster;
use crate::dra::tests::kubelet::{Kubelet, Plugin, until};
use crate::tests::node::FakeNode;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// A best-effort claim of 100 GiB, whose program is suspended with 80.
async fn suspended(config: &ClaimsConfig) -> (Arc<Cluster>, Plugin, Daemon) {
    let cluster = Arc::new(Cluster::new());
    let daemon = Daemon::start(&config.node.daemon, &[program("train", 0, 80 * GIB)]);
    let plugin = Plugin::start(config, &cluster);
    until_memory(&cluster, 0, 141).await;
    assert!(Scheduler::new(&cluster).allocate("train", "be", 100));
    Kubelet::find(config).await.prepare("train").await.unwrap();
    until_memory(&cluster, 0, 221).await;
    (cluster, plugin, daemon)
}

/// Waits until the driver has looked a few times.
async fn polls(cluster: &Cluster) {
    let polled = cluster.calls(Call::Get, SLICE);
    until("three polls", || cluster.calls(Call::Get, SLICE) > polled + 3).await;
}

/// Memory and generation of the slice.
fn slice(cluster: &Cluster) -> (Option<u64>, Value) {
    let generation = cluster.get(SLICE).unwrap()["spec"]["pool"]["generation"].take();
    (memory(cluster, 0), generation)
}

#[tokio::test]
async fn restarted_driver_gives_back_what_the_daemon_says_now() {
    let node = FakeNode::new();
    let config = giving(&node);
    let (cluster, plugin, daemon) = suspended(&config).await;
    let before = cluster.get(SLICE).unwrap()["spec"]["devices"].take();
    plugin.end().await;
    let written = cluster.calls(Call::Put, SLICE);
    let plugin = Plugin::start(&config, &cluster);
    until("a write", || cluster.calls(Call::Put, SLICE) > written).await;
    assert_eq!(cluster.get(SLICE).unwrap()["spec"]["devices"], before, "not less in between");
    daemon.settle().await;
    assert_eq!(cluster.calls(Call::Put, SLICE), written + 1, "it is written once");
    plugin.end().await;
    daemon.list(&[]); // it returns while there is no driver
    let _plugin = Plugin::start(&config, &cluster);
    until_memory(&cluster, 0, 141).await;
}

#[tokio::test]
async fn restarted_daemon_changes_nothing_meanwhile() {
    let mut node = FakeNode::new();
    let config = giving(&node);
    let (cluster, _plugin, daemon) = suspended(&config).await;
    let before = slice(&cluster);
    daemon.end().await;
    polls(&cluster).await;
    assert_eq!(slice(&cluster), before, "an answer holds for a while");
    let daemon = Daemon::start(&config.node.daemon, &[program("train", 0, 80 * GIB)]);
    daemon.settle().await;
    assert_eq!(slice(&cluster), before);
    daemon.end().await;
    node.end_daemon(); // now guests have none either
    until("no GPUs", || memory(&cluster, 0).is_none()).await;
    node.start_daemon();
    let daemon = Daemon::start(&config.node.daemon, &[program("train", 0, 50 * GIB)]);
    until_memory(&cluster, 0, 191).await;
    daemon.list(&[]);
    until_memory(&cluster, 0, 141).await;
}

#[tokio::test]
async fn nothing_is_given_back_by_a_daemon_that_stays_silent() {
    let node = FakeNode::new();
    let mut config = giving(&node);
    config.pace.silence = Duration::from_millis(500);
    let (cluster, _plugin, daemon) = suspended(&config).await;
    daemon.end().await;
    until_memory(&cluster, 0, 141).await;
    let daemon = Daemon::start(&config.node.daemon, &[program("train", 0, 80 * GIB)]);
    until_memory(&cluster, 0, 221).await;
    daemon.say(200, b"garbage"); // is no answer either
    until_memory(&cluster, 0, 141).await;
}

#[tokio::test]
async fn change_is_written_when_the_api_server_is_back() {
    let node = FakeNode::new();
    let config = giving(&node);
    let (cluster, _plugin, daemon) = suspended(&config).await;
    cluster.is_away(true);
    daemon.list(&[]);
    polls(&cluster).await;
    assert_eq!(memory(&cluster, 0), Some(221));
    cluster.is_away(false);
    until_memory(&cluster, 0, 141).await;
    cluster.remove(SLICE); // its objects are lost
    daemon.list(&[program("train", 0, 80 * GIB)]);
    until_memory(&cluster, 0, 221).await;
}

#[tokio::test]
async fn garbage_of_the_daemon_changes_nothing() {
    let node = FakeNode::new();
    let config = giving(&node);
    let (cluster, _plugin, daemon) = suspended(&config).await;
    let before = slice(&cluster);
    let negative = list(&[program("train", 0, 1)]).replace("\"bytes\":1", "\"bytes\":-1");
    let beyond = list(&[program("train", 0, 1)]).replace("\"bytes\":1", "\"bytes\":1e30");
    assert!(negative.contains("-1") && beyond.contains("1e30"));
    let garbage = [
        b"".to_vec(),
        b"{".to_vec(),
        b"[]".to_vec(),
        b"{\"suspended\":[{}]}".to_vec(),
        b"{\"suspended\":null}".to_vec(),
        negative.into_bytes(),
        beyond.into_bytes(),
        b"[".repeat(1 << 20),
        vec![b' '; 5 << 20],
        vec![0xff; 100],
    ];
    for body in garbage {
        daemon.say(200, &body);
        daemon.settle().await;
        assert_eq!(slice(&cluster), before, "{:?}", &body[..body.len().min(80)]);
    }
    daemon.say(500, list(&[]).as_bytes());
    daemon.settle().await;
    assert_eq!(slice(&cluster), before, "an error isn't a list");
    let train = program("train", 0, 80 * GIB);
    let huge = program("train", 0, u64::MAX);
    let (unknown, elsewhere) = (program("train", 9, GIB), program("train", 1, GIB));
    let outsider = program("nobody", 0, 20 * GIB);
    daemon.list(&[train, huge, unknown, elsewhere, outsider]);
    daemon.settle().await;
    assert_eq!(slice(&cluster), before, "parts that can't be count as nothing");
}
