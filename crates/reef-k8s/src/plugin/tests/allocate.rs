//! Variables, mounts and devices of containers.

use super::super::proto::{ContainerPreferredAllocationRequest, PreferredAllocationRequest};
use super::kubelet::Kubelet;
use super::restarts::start;
use crate::config::Config;
use crate::node::paths::Node;
use crate::tests::node::FakeNode;
use serde_json::Value;

const RT: &str = "reef.dev-rt.sock";
const BE: &str = "reef.dev-be.sock";

fn id(minor: u32, rest: &str) -> String {
    format!("{}-{rest}", FakeNode::uuid(minor))
}

#[tokio::test]
async fn allocation_gives_class_limits_library_and_nodes_repeatably() {
    let node = FakeNode::new();
    let config = node.config();
    let plugin = start(&config);
    let kubelet = Kubelet::start(&config.kubelet);
    kubelet.until_healthy(4).await;
    let answer = kubelet.allocate(BE, &[id(1, "be-01")]).await.unwrap();
    let env = |name: &str| answer.envs.get(name).map(String::as_str);
    assert_eq!(env("REEF_CLASS"), Some("be"));
    assert_eq!(env("REEF_MEMORY"), Some("8GiB"));
    assert_eq!(env("REEF_LIMIT_ID"), Some(id(1, "be-01").as_str()));
    assert_eq!(env("REEF_GUESTS"), Some("/run/reef/guests.sock"));
    assert_eq!(env("LD_PRELOAD"), Some("/opt/reef/shim.so"));
    assert_eq!(env("NVIDIA_VISIBLE_DEVICES"), Some(FakeNode::uuid(1).as_str()));
    assert_eq!(
        (env("REEF_TOKEN_FILE"), env("REEF_CUDA"), env("REEF_ACCOUNTS")),
        (None, None, None)
    );
    let mounts: Vec<_> = answer.mounts.iter().map(|m| m.container_path.as_str()).collect();
    assert_eq!(mounts, ["/run/reef", "/opt/reef/shim.so"]);
    let nodes: Vec<_> = answer.devices.iter().map(|d| d.container_path.as_str()).collect();
    assert_eq!(nodes, ["/dev/nvidia1", "/dev/nvidiactl"]);
    assert_eq!(kubelet.allocate(BE, &[id(1, "be-01")]).await.unwrap(), answer);
    let rt = kubelet.allocate(RT, &[id(0, "rt-00"), id(1, "rt-00")]).await.unwrap();
    assert_eq!(rt.envs["REEF_TOKEN_FILE"], "/opt/reef/token");
    assert_eq!(
        rt.envs["NVIDIA_VISIBLE_DEVICES"],
        format!("{},{}", FakeNode::uuid(0), FakeNode::uuid(1))
    );
    plugin.abort();
}

#[tokio::test]
async fn impossible_allocation_is_refused_with_a_reason() {
    let node = FakeNode::new();
    let config = node.config();
    let plugin = start(&config);
    let kubelet = Kubelet::start(&config.kubelet);
    kubelet.until_healthy(4).await;
    for (ids, why) in [
        (vec![id(0, "be-02")], "no device"), // two of each GPU
        (vec![id(0, "rt-00")], "no device"),
        (vec![id(7, "be-00")], "no device"),
        (vec!["".into()], "no device"),
        (vec!["-".into()], "no device"),
        (vec![], "without devices"),
        (vec![id(0, "be-00"), id(0, "be-01")], "2 devices of 1 GPUs"),
        (vec![id(0, "be-00"), id(0, "be-00")], "2 devices of 1 GPUs"),
    ] {
        let status = kubelet.allocate(BE, &ids).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        let line = status.message();
        assert!(line.starts_with("reef.dev/be: ") && line.contains(why), "{ids:?}: {line}");
    }
    plugin.abort();
}

#[tokio::test]
async fn devices_of_two_gpus_are_preferred() {
    let node = FakeNode::new();
    let config = node.config();
    let plugin = start(&config);
    let kubelet = Kubelet::start(&config.kubelet);
    let lists = kubelet.until_healthy(4).await;
    let available: Vec<_> = lists["reef.dev/be"].keys().cloned().collect();
    let each = |size| ContainerPreferredAllocationRequest {
        available: available.clone(),
        must_include: vec![id(1, "be-00")],
        size,
    };
    let container_requests = vec![each(2), each(-1)];
    let mut client = kubelet.plugin(BE).await;
    let answer = client.get_preferred_allocation(PreferredAllocationRequest { container_requests });
    let answer = answer.await.unwrap().into_inner().container_responses;
    assert_eq!(answer[0].ids, [id(1, "be-00"), id(0, "be-00")]);
    assert_eq!(answer[1].ids, [id(1, "be-00")]);
    plugin.abort();
}

#[tokio::test]
async fn by_name_mounts_and_nodes_stand_in_a_file() {
    let node = FakeNode::new();
    std::fs::write(node.folder.join("libcuda.so.1"), "").unwrap();
    let folder = node.folder.join("cdi");
    let driver = node.folder.join("libcuda.so.1");
    let config = Config { cdi: Some(folder.clone()), ..node.config() };
    let config = Config { node: Node { driver: Some(driver.clone()), ..config.node }, ..config };
    let plugin = start(&config);
    let kubelet = Kubelet::start(&config.kubelet);
    kubelet.until_healthy(4).await;
    let answer = kubelet.allocate(BE, &[id(1, "be-01")]).await.unwrap();
    assert_eq!((answer.mounts.len(), answer.devices.len()), (0, 0));
    assert_eq!(answer.cdi_devices[0].name, format!("reef.dev/gpu={}", FakeNode::uuid(1)));
    assert_eq!(answer.envs["REEF_CUDA"], "/opt/reef/libcuda.so.1");
    assert!(!answer.envs.contains_key("LD_PRELOAD"));
    let text = std::fs::read_to_string(folder.join("reef.dev-gpu.json")).unwrap();
    let spec: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&spec["cdiVersion"], &spec["kind"]), (&"0.6.0".into(), &"reef.dev/gpu".into()));
    assert_eq!(spec["devices"][1]["name"], FakeNode::uuid(1).as_str());
    assert_eq!(spec["devices"][1]["containerEdits"]["deviceNodes"][0]["path"], "/dev/nvidia1");
    let shared = &spec["containerEdits"];
    assert_eq!(shared["deviceNodes"][0]["path"], "/dev/nvidiactl");
    let over = shared["mounts"].as_array().unwrap();
    assert!(over.iter().any(|m| m["containerPath"] == driver.to_str().unwrap()
        && m["hostPath"] == config.node.shim.to_str().unwrap()));
    assert_eq!(
        crate::tests::node::names(&folder),
        ["reef.dev-gpu.json"],
        "nothing half written is left"
    );
    plugin.abort();
}
