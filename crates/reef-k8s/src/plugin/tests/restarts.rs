//! Restarts of kubelets and daemon, and removals of sockets and GPUs.

use super::super::run::serve;
use super::kubelet::Kubelet;
use crate::config::Config;
use crate::error::Result;
use crate::tests::node::{FakeNode, names};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// A plugin that runs until it is aborted.
pub(super) fn start(config: &Config) -> JoinHandle<Result<()>> {
    let config = config.clone();
    tokio::spawn(async move { serve(&config, std::future::pending()).await })
}

#[tokio::test]
async fn both_classes_are_registered_and_sockets_removed_at_end() {
    let node = FakeNode::new();
    let config = node.config();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let plugin = {
        let config = config.clone();
        tokio::spawn(async move { serve(&config, async { drop(ended.await) }).await })
    };
    let kubelet = Kubelet::start(&config.kubelet); // the plugin has to wait for it
    let lists = kubelet.until_healthy(4).await;
    assert!(lists["reef.dev/rt"].contains_key(&format!("{}-rt-01", FakeNode::uuid(1))));
    let mut told = kubelet.registrations();
    told.sort_by(|a, b| a.resource_name.cmp(&b.resource_name));
    // One whose list is watched late is told again.
    told.dedup_by(|a, b| a.resource_name == b.resource_name);
    let told: Vec<_> = told.iter().map(|t| [&t.version, &t.resource_name, &t.endpoint]).collect();
    assert_eq!(told[0], ["v1beta1", "reef.dev/be", "reef.dev-be.sock"]);
    assert_eq!(told[1], ["v1beta1", "reef.dev/rt", "reef.dev-rt.sock"]);
    end.send(()).unwrap();
    timeout(Duration::from_secs(60), plugin).await.expect("an end").unwrap().unwrap();
    assert_eq!(names(&config.kubelet), ["kubelet.sock"]);
}

#[tokio::test]
async fn a_kubelet_that_restarts_or_loses_sockets_is_told_again() {
    let node = FakeNode::new();
    let config = node.config();
    let plugin = start(&config);
    let mut kubelet = Kubelet::start(&config.kubelet);
    kubelet.until_healthy(4).await;
    for round in 0..12_u64 {
        match round % 4 {
            0 => {
                drop(kubelet);
                sleep(Duration::from_millis(round)).await; // sleep: any length is right
                kubelet = Kubelet::start(&config.kubelet);
            }
            1 => std::fs::remove_file(config.kubelet.join("reef.dev-be.sock")).unwrap(),
            2 => kubelet.stop_watching(), // nothing but silence shows it
            _ => {
                drop(kubelet);
                let _ = std::fs::remove_file(config.kubelet.join("reef.dev-rt.sock"));
                kubelet = Kubelet::start(&config.kubelet);
            }
        }
        let before = kubelet.registrations().len();
        if round % 4 == 1 {
            let is_told = || kubelet.registrations().len() > before;
            kubelet.until("a registration", |_| is_told()).await;
        }
        kubelet.until_healthy(4).await;
    }
    assert!(!plugin.is_finished());
    plugin.abort();
}

#[tokio::test]
async fn health_follows_gpus_and_the_daemon() {
    let mut node = FakeNode::new();
    let config = node.config();
    let plugin = start(&config);
    let kubelet = Kubelet::start(&config.kubelet);
    kubelet.until_healthy(4).await;
    node.lose_gpu(1);
    let lists = kubelet.until_healthy(2).await;
    assert_eq!(
        lists["reef.dev/be"].len(),
        4,
        "the lost GPU's devices are unhealthy, not forgotten"
    );
    let ids = [format!("{}-be-00", FakeNode::uuid(1))];
    let gone = kubelet.allocate("reef.dev-be.sock", &ids).await.unwrap_err();
    assert!(gone.message().contains("has gone"), "{gone}");
    node.add_gpu(1);
    node.add_gpu(2);
    kubelet.until_healthy(6).await;
    node.end_daemon();
    kubelet.until_healthy(0).await;
    plugin.abort();
}

#[tokio::test]
async fn a_plugin_whose_socket_another_one_takes_ends_with_a_line() {
    let node = FakeNode::new();
    let config = node.config();
    let first = start(&config);
    let kubelet = Kubelet::start(&config.kubelet);
    kubelet.until_healthy(4).await;
    let second = start(&config);
    let ended = timeout(Duration::from_secs(60), first).await.expect("an end").unwrap();
    let line = ended.unwrap_err().to_string();
    assert!(line.ends_with(".sock: another plugin has taken it"), "{line}");
    kubelet.until_healthy(4).await;
    assert!(!second.is_finished());
    second.abort();
}

#[tokio::test]
async fn without_a_kubelets_folder_there_is_no_plugin() {
    let node = FakeNode::new();
    let config = Config { kubelet: node.folder.join("none"), ..node.config() };
    let line = serve(&config, std::future::pending()).await.unwrap_err().to_string();
    let folder = config.kubelet.display();
    let wanted = format!(
        "no kubelet's folder for device plugins at {folder} (--kubelet names another place)"
    );
    assert_eq!(line, wanted);
}
