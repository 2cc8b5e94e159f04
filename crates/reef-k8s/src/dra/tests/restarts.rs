//! The plugin ends, the machine starts anew, files are damaged, sockets are removed.

use super::cluster::Cluster;
use super::kubelet::{Kubelet, Plugin, config, until};
use super::prepare::file;
use crate::tests::node::{FakeNode, names};
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn restarted_plugin_knows_claims_without_api_server() {
    let node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    cluster.allocate("a", 0, "be", json!({ "memory": "1GiB" }));
    let plugin = Plugin::start(&config, &cluster);
    let first = Kubelet::find(&config).await.prepare("a").await.unwrap();
    plugin.end().await;
    assert_eq!(names(&config.registry), [""; 0], "its socket goes with it");
    cluster.is_away(true);
    let _plugin = Plugin::start(&config, &cluster);
    let kubelet = Kubelet::find(&config).await;
    assert_eq!(kubelet.prepare("a").await.unwrap(), first);
    kubelet.unprepare("a").await.unwrap();
    assert_eq!(names(&config.cdi), [""; 0]);
}

#[tokio::test]
async fn reboot_rewrites_files_for_the_current_gpus() {
    let node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    for (uid, minor) in [("a", 0), ("b", 1)] {
        cluster.allocate(uid, minor, "be", json!({}));
    }
    let plugin = Plugin::start(&config, &cluster);
    let kubelet = Kubelet::find(&config).await;
    let first = kubelet.prepare("a").await.unwrap();
    kubelet.prepare("b").await.unwrap();
    let (a, b) = (file(&config.cdi, "a"), file(&config.cdi, "b"));
    plugin.end().await;
    std::fs::remove_dir_all(&config.cdi).unwrap(); // it is in memory
    std::fs::create_dir(&config.cdi).unwrap();
    std::fs::write(config.cdi.join("reef.dev-claim_left.json"), "{}").unwrap();
    node.renumber(1, 5); // the same GPU by another node
    let _plugin = Plugin::start(&config, &cluster);
    let kubelet = Kubelet::find(&config).await;
    assert_eq!(names(&config.cdi), ["reef.dev-claim_a.json", "reef.dev-claim_b.json"]);
    assert_eq!(file(&config.cdi, "a"), a);
    let again = file(&config.cdi, "b").unwrap();
    assert_eq!(again["devices"][0]["containerEdits"]["deviceNodes"][0]["path"], "/dev/nvidia5");
    assert_ne!(Some(again), b);
    assert_eq!(kubelet.prepare("a").await.unwrap(), first);
    std::fs::remove_file(config.cdi.join("reef.dev-claim_a.json")).unwrap();
    kubelet.prepare("a").await.unwrap();
    assert_eq!(file(&config.cdi, "a"), a, "preparing again mends what is missing");
}

#[tokio::test]
async fn a_damaged_checkpoint_ends_the_plugin_with_a_line_and_is_kept() {
    let node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    cluster.allocate("a", 0, "be", json!({}));
    let plugin = Plugin::start(&config, &cluster);
    Kubelet::find(&config).await.prepare("a").await.unwrap();
    plugin.end().await;
    let path = config.plugins.join("reef.dev/claims.json");
    let whole = std::fs::read_to_string(&path).unwrap();
    for (damage, wanted) in [
        (whole[..whole.len() / 2].to_owned(), "EOF while parsing"),
        (String::new(), "EOF while parsing"),
        (whole.replace("\"version\": 1", "\"version\": 2"), "version 2, this plugin has 1"),
        (whole.replace("\"version\": 1", "\"v\": 1"), "no version in it"),
        (whole.replace("\"namespace\"", "\"nomespace\""), "unknown field `nomespace`"),
        (whole.replace("\"be\"", "\"gold\""), "unknown variant `gold`"),
    ] {
        std::fs::write(&path, &damage).unwrap();
        let line = Plugin::start(&config, &cluster).line().await;
        assert!(line.starts_with(&format!("{}: ", path.display())), "{line}");
        assert!(
            line.contains(wanted) && line.contains("no claim is known to be prepared"),
            "{line}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), damage, "it isn't overwritten");
    }
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(Plugin::start(&config, &cluster).line().await.contains("not UTF-8"));
    std::fs::write(&path, &whole).unwrap();
    let plugin = Plugin::start(&config, &cluster);
    let kubelet = Kubelet::find(&config).await;
    std::fs::write(&path, "{").unwrap(); // while it runs
    let line = kubelet.prepare("a").await.unwrap_err();
    assert!(line.contains("claims.json: EOF"), "{line}");
    plugin.end().await;
}

#[tokio::test]
async fn removed_sockets_are_remade_and_second_plugin_takes_over() {
    let node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    cluster.allocate("a", 0, "be", json!({}));
    let plugin = Plugin::start(&config, &cluster);
    let sockets = [config.registry.join("reef.dev-reg.sock"), config.home().join("dra.sock")];
    for socket in &sockets {
        Kubelet::find(&config).await.prepare("a").await.unwrap();
        std::fs::remove_file(socket).unwrap();
        until("both sockets", || sockets.iter().all(|it| it.exists())).await;
    }
    Kubelet::find(&config).await.prepare("a").await.unwrap();
    let _second = Plugin::start(&config, &cluster);
    let line = plugin.line().await;
    assert!(line.ends_with(".sock: another plugin has taken it"), "{line}");
    Kubelet::find(&config).await.prepare("a").await.unwrap();
}
