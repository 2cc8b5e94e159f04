//! Devices of a prepared claim, also when it is prepared again.

use super::cluster::{Cluster, device, object, path};
use super::kubelet::{Kubelet, Plugin, config};
use crate::dra::api::call::Call;
use crate::dra::config::ClaimsConfig;
use crate::dra::settings::Settings;
use crate::tests::node::{FakeNode, names};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// A claim's CDI file.
pub(super) fn file(folder: &Path, uid: &str) -> Option<Value> {
    let text = std::fs::read_to_string(folder.join(format!("reef.dev-claim_{uid}.json"))).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

#[tokio::test]
async fn a_plugin_is_found_by_its_socket_and_says_what_it_is() {
    let node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    let _plugin = Plugin::start(&config, &cluster);
    let info = Kubelet::find(&config).await.info;
    assert_eq!((info.r#type.as_str(), info.name.as_str()), ("DRAPlugin", "reef.dev"));
    assert_eq!(info.supported_versions, ["v1.DRAPlugin"]);
    assert_eq!(Path::new(&info.endpoint), config.plugins.join("reef.dev/dra.sock"));
}

#[tokio::test]
async fn a_claim_is_prepared_once_and_answered_again() {
    let node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    cluster.allocate("a-1", 1, "rt", json!({ "memory": "8GiB", "compute": "33.4%" }));
    let _plugin = Plugin::start(&config, &cluster);
    let kubelet = Kubelet::find(&config).await;
    let devices = kubelet.prepare("a-1").await.unwrap();
    let [one] = devices.as_slice() else { panic!("{devices:?}") };
    assert_eq!((one.pool_name.as_str(), one.device_name.clone()), ("node-1", device(1)));
    assert_eq!(one.request_names, ["gpu"]);
    assert_eq!(one.cdi_device_ids, ["reef.dev/claim=a-1-0"]);
    assert_eq!(one.share_id.as_deref(), Some("share-1"));
    let written = file(&config.cdi, "a-1").unwrap();
    assert_eq!(
        written,
        file_of_a_1(&config.node.shim, &config.node.daemon, config.node.token.as_deref())
    );
    cluster.remove(&path("a-1")); // a claim may be gone while its pod still ends
    assert_eq!(kubelet.prepare("a-1").await.unwrap(), devices);
    assert_eq!(file(&config.cdi, "a-1").unwrap(), written);
    assert_eq!(cluster.calls(Call::Get, "resourceclaims"), 1);
    kubelet.unprepare("a-1").await.unwrap();
    assert_eq!(names(&config.cdi), [""; 0]);
    kubelet.unprepare("a-1").await.unwrap();
    kubelet.unprepare("never-seen").await.unwrap();
    let gone = kubelet.prepare("a-1").await.unwrap_err();
    assert!(gone.starts_with("claim team/claim-a-1: the API server: 404: "), "{gone}");
}

/// Byte for byte what a container gets: a change of it is a change for running nodes.
fn file_of_a_1(shim: &Path, daemon: &Path, token: Option<&Path>) -> Value {
    let mount = |node: &Path, container: &str| json!({ "hostPath": node, "containerPath": container, "options": ["bind", "nosuid", "nodev", "ro"] });
    let edits = json!({
        "env": [
            "LD_PRELOAD=/opt/reef/shim.so",
            format!("NVIDIA_VISIBLE_DEVICES={}", FakeNode::uuid(1)),
            "REEF_CLASS=rt",
            "REEF_COMPUTE=33.4%",
            "REEF_GUESTS=/run/reef/guests.sock",
            "REEF_LIMIT_ID=a-1",
            "REEF_MEMORY=8589934592",
            "REEF_TOKEN_FILE=/opt/reef/token",
        ],
        "deviceNodes": [{ "path": "/dev/nvidiactl" }],
        "mounts": [
            mount(daemon, "/run/reef"),
            mount(shim, "/opt/reef/shim.so"),
            mount(token.unwrap(), "/opt/reef/token"),
        ],
    });
    let one = json!({ "deviceNodes": [{ "path": "/dev/nvidia1" }] });
    json!({
        "cdiVersion": "0.6.0",
        "kind": "reef.dev/claim",
        "devices": [{ "name": "a-1-0", "containerEdits": one }],
        "containerEdits": edits,
    })
}

/// A claim without a limit has nothing for the kernel to keep.
#[tokio::test]
async fn claim_with_a_memory_limit_has_the_kernels_hook() {
    let node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    let command = node.folder.join("reef");
    std::fs::write(&command, "").unwrap();
    let config = ClaimsConfig { dmem_hook: Some(command.clone()), ..config };
    cluster.allocate("a-1", 1, "be", json!({ "memory": "8GiB" }));
    cluster.allocate("a-2", 1, "be", json!({ "compute": "30%" }));
    let _plugin = Plugin::start(&config, &cluster);
    let kubelet = Kubelet::find(&config).await;
    kubelet.prepare("a-1").await.unwrap();
    kubelet.prepare("a-2").await.unwrap();
    let hooks = |uid| file(&config.cdi, uid).unwrap()["containerEdits"]["hooks"].take();
    let args = ["reef", "k8s", "dmem-hook", "--max=8589934592", "--gpu=0000:01:00.0"];
    let wanted =
        json!([{ "hookName": "createRuntime", "path": command, "args": args, "timeout": 10 }]);
    assert_eq!((hooks("a-1"), hooks("a-2")), (wanted, Value::Null));
}

#[tokio::test]
async fn counted_amount_is_the_limit_of_its_claim_alone() {
    let node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    let mut claim = object("b-1", 0, "be", json!({}));
    let devices = &mut claim["status"]["allocation"]["devices"];
    devices["results"][0]["consumedCapacity"] =
        json!({ "reef.dev/memory": "8Gi", "compute": "30" });
    let other = json!({ "request": "nic", "driver": "net.example", "pool": "p", "device": "eth0" });
    devices["results"].as_array_mut().unwrap().push(other);
    let opaque = json!({ "driver": "net.example", "parameters": { "mtu": 9000 } });
    devices["config"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "source": "FromClaim", "opaque": opaque }));
    cluster.put(&path("b-1"), claim);
    let _plugin = Plugin::start(&config, &cluster);
    let devices = Kubelet::find(&config).await.prepare("b-1").await.unwrap();
    assert_eq!(devices.len(), 1);
    let file = file(&config.cdi, "b-1").unwrap();
    let env = file["containerEdits"]["env"].as_array().unwrap();
    for wanted in ["REEF_MEMORY=8589934592", "REEF_COMPUTE=30%", "REEF_CLASS=be"] {
        assert!(env.contains(&wanted.into()), "{wanted}: {env:?}");
    }
    assert!(!env.iter().any(|it| it.as_str().unwrap().starts_with("REEF_TOKEN")), "{env:?}");
}

#[test]
fn manifest_parameters_are_read_and_classes_match_the_chart() {
    let claims = crate::tests::manifests::documents("claims.yaml");
    let templates = claims.iter().filter(|it| it["kind"].as_str() == Some("ResourceClaimTemplate"));
    let mut classes = Vec::new();
    for template in templates {
        let devices = &template["spec"]["spec"]["devices"];
        let class = &devices["requests"][0]["exactly"]["deviceClassName"];
        classes.push(class.as_str().unwrap());
        for config in devices["config"].as_vec().into_iter().flatten() {
            assert_eq!(config["opaque"]["driver"].as_str(), Some("reef.dev"));
            let parameters = config["opaque"]["parameters"].as_hash().unwrap().iter();
            let each = parameters.map(|(key, value)| {
                (key.as_str().unwrap().to_owned(), value.as_str().unwrap().into())
            });
            Settings::read(&Value::Object(each.collect())).unwrap();
        }
    }
    assert_eq!(classes, ["reef-rt", "reef-be"]);
}
