//! Claims that have room while others are suspended.

use super::daemon::{Daemon, GIB, program};
use super::scheduler::{SLICE, Scheduler, giving, memory, until_memory};
use crate::dra::api::call::Call;
use crate::dra::tests::cluster::Cluster;
use crate::dra::tests::kubelet::{Kubelet, Plugin, config, until};
use crate::dra::tests::prepare::file;
use crate::tests::node::FakeNode;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn rt_claim_starts_where_a_suspended_one_was() {
    let node = FakeNode::new();
    let (config, cluster) = (giving(&node), Arc::new(Cluster::new()));
    let daemon = Daemon::start(&config.node.daemon, &[]);
    let scheduler = Scheduler::new(&cluster);
    let _plugin = Plugin::start(&config, &cluster);
    let kubelet = Kubelet::find(&config).await;
    until_memory(&cluster, 0, 141).await;
    assert!(scheduler.allocate("train", "be", 100));
    kubelet.prepare("train").await.unwrap();
    assert!(!scheduler.allocate("serve", "rt", 60), "the GPU is full");

    daemon.list(&[program("train", 0, 80 * GIB)]);
    until_memory(&cluster, 0, 221).await;
    assert_eq!(memory(&cluster, 1), Some(141), "the other GPU has what it had");
    assert!(scheduler.allocate("serve", "rt", 60));
    let serve = kubelet.prepare("serve").await.unwrap();
    let env = file(&config.cdi, "serve").unwrap()["containerEdits"]["env"].take();
    assert!(env.as_array().unwrap().contains(&format!("REEF_MEMORY={}", 60 * GIB).into()));
    assert!(!scheduler.allocate("more", "be", 62), "61 GiB are left of what was given back");

    daemon.list(&[]);
    until_memory(&cluster, 0, 141).await;
    assert_eq!(kubelet.prepare("serve").await.unwrap(), serve, "it stays");
    assert!(!scheduler.allocate("more", "be", 1), "160 of 141 GiB are counted");
}

#[tokio::test]
async fn claim_that_ends_while_it_is_suspended_gives_nothing_back() {
    let node = FakeNode::new();
    let (config, cluster) = (giving(&node), Arc::new(Cluster::new()));
    let _daemon = Daemon::start(&config.node.daemon, &[program("train", 0, 80 * GIB)]);
    let _plugin = Plugin::start(&config, &cluster);
    let kubelet = Kubelet::find(&config).await;
    until_memory(&cluster, 0, 141).await;
    assert!(Scheduler::new(&cluster).allocate("train", "be", 100));
    kubelet.prepare("train").await.unwrap();
    until_memory(&cluster, 0, 221).await;
    kubelet.unprepare("train").await.unwrap();
    until_memory(&cluster, 0, 141).await;
}

#[tokio::test]
async fn memory_of_suspended_programs_stays_counted_by_default() {
    let node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    let _daemon = Daemon::start(&config.node.daemon, &[program("train", 0, 80 * GIB)]);
    let _plugin = Plugin::start(&config, &cluster);
    until_memory(&cluster, 0, 141).await;
    assert!(Scheduler::new(&cluster).allocate("train", "be", 100));
    Kubelet::find(&config).await.prepare("train").await.unwrap();
    let polled = cluster.calls(Call::Get, SLICE);
    until("three polls", || cluster.calls(Call::Get, SLICE) > polled + 3).await;
    assert_eq!((memory(&cluster, 0), cluster.calls(Call::Put, SLICE)), (Some(141), 0));
}

#[tokio::test]
async fn storm_of_suspensions_is_one_write() {
    let node = FakeNode::new();
    let (mut config, cluster) = (giving(&node), Arc::new(Cluster::new()));
    config.pace.given_back = Duration::from_secs(3_600);
    let daemon = Daemon::start(&config.node.daemon, &[]);
    let _plugin = Plugin::start(&config, &cluster);
    until_memory(&cluster, 0, 141).await;
    assert!(Scheduler::new(&cluster).allocate("train", "be", 100));
    Kubelet::find(&config).await.prepare("train").await.unwrap();
    daemon.list(&[program("train", 0, 80 * GIB)]);
    until_memory(&cluster, 0, 221).await;
    let written = cluster.calls(Call::Put, SLICE);
    for gib in 1..20 {
        daemon.list(&[program("train", 0, gib * GIB)]);
        daemon.settle().await;
    }
    assert_eq!((memory(&cluster, 0), cluster.calls(Call::Put, SLICE)), (Some(221), written));
}
