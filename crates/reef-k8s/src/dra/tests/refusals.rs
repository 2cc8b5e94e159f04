//! Claims that can't be prepared are refused with a line and leave nothing behind.

use super::cluster::{Cluster, NODE, object, path};
use super::kubelet::{Kubelet, Plugin, config};
use crate::dra::{checkpoint, claim};
use crate::tests::node::{FakeNode, names, seed_and_steps};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use std::sync::Arc;

/// A claim that is fine but for what is changed of it.
fn spoilt(spoil: impl FnOnce(&mut Value)) -> Value {
    let mut claim = object("c", 0, "be", json!({}));
    spoil(&mut claim);
    claim
}

#[tokio::test]
async fn each_fault_has_its_line_and_leaves_nothing() {
    let node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    let _plugin = Plugin::start(&config, &cluster);
    let kubelet = Kubelet::find(&config).await;
    let devices = |claim: &mut Value| claim["status"]["allocation"]["devices"].take();
    for (claim, wanted) in [
        (spoilt(|it| it["metadata"]["uid"] = "d".into()), "it is another one by now, with UID d"),
        (spoilt(|it| it["status"] = Value::Null), "it isn't allocated"),
        (spoilt(|it| drop(devices(it))), "not a claim: "),
        (
            spoilt(|it| it["status"]["allocation"]["devices"]["results"] = json!([])),
            "no device of driver reef.dev in it",
        ),
        (object("c", 7, "be", json!({})), "no device \"gpu-00000007-"),
        (
            object("c", 0, "be", json!({ "weight": 3 })),
            "parameters of reef.dev: unknown field `weight`",
        ),
        (object("c", 0, "gold", json!({})), "unknown variant `gold`"),
        (
            object("c", 0, "be", json!({ "class": "rt" })),
            "request gpu: class rt asked, its device class is be",
        ),
        (object("c", 0, "be", json!({ "memory": "much" })), "memory \"much\": "),
        (
            spoilt(|it| {
                it["status"]["allocation"]["devices"]["results"][0]["pool"] = "node-2".into()
            }),
            "is of pool node-2, this node is node-1",
        ),
    ] {
        cluster.put(&path("c"), claim);
        let line = kubelet.prepare("c").await.unwrap_err();
        assert!(
            line.starts_with("claim team/claim-c: ") && line.contains(wanted),
            "{wanted}: {line}"
        );
    }
    cluster.is_away(true);
    let line = kubelet.prepare("c").await.unwrap_err();
    assert_eq!(line, "claim team/claim-c: API server: no answer");
    for uid in ["", "..", "a/b", "a b", &"a".repeat(65)] {
        let line = kubelet.prepare(uid).await.unwrap_err();
        assert!(line.ends_with("isn't the UID of a claim"), "{line}");
        kubelet.unprepare(uid).await.unwrap_err();
    }
    assert_eq!(names(&config.cdi), [""; 0]);
}

#[tokio::test]
async fn one_claim_of_a_call_is_refused_and_the_others_are_prepared() {
    let node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    cluster.allocate("good", 0, "be", json!({}));
    let _plugin = Plugin::start(&config, &cluster);
    let answers = Kubelet::find(&config).await.prepare_all(&["bad", "good"]).await;
    assert!(answers[0].is_err() && answers[1].is_ok(), "{answers:?}");
}

#[tokio::test]
async fn requests_of_one_claim_have_one_class_and_one_gpu_each() {
    let node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    let _plugin = Plugin::start(&config, &cluster);
    let kubelet = Kubelet::find(&config).await;
    let two = |minor: u32| {
        let mut claim = object("two", 0, "be", json!({ "memory": "1GiB" }));
        let results = claim["status"]["allocation"]["devices"]["results"].as_array_mut().unwrap();
        let mut second = results[0].clone();
        second["request"] = "gpu/large".into(); // an alternative of the same request
        second["device"] = super::cluster::device(minor).into();
        results.push(second);
        claim
    };
    cluster.put(&path("two"), two(0));
    let line = kubelet.prepare("two").await.unwrap_err();
    assert!(line.contains("is allocated twice in it"), "{line}");
    let mut differ = two(1);
    differ["status"]["allocation"]["devices"]["results"][1]["consumedCapacity"] =
        json!({ "compute": "5" });
    cluster.put(&path("two"), differ);
    let line = kubelet.prepare("two").await.unwrap_err();
    assert!(line.contains("requests gpu and gpu/large differ"), "{line}");
    cluster.put(&path("two"), two(1));
    let devices = kubelet.prepare("two").await.unwrap();
    let ids: Vec<_> = devices.iter().flat_map(|it| &it.cdi_device_ids).collect();
    assert_eq!(ids, ["reef.dev/claim=two-0", "reef.dev/claim=two-1"]);
}

#[tokio::test]
async fn gpu_takes_no_more_claims_than_daemon_and_accounts_admit() {
    let node = FakeNode::new();
    let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
    let _plugin = Plugin::start(&config, &cluster);
    let kubelet = Kubelet::find(&config).await;
    for uid in ["r-1", "r-2", "r-3"] {
        cluster.allocate(uid, 0, "rt", json!({ "compute": "33.4%" }));
    }
    kubelet.prepare("r-1").await.unwrap();
    kubelet.prepare("r-2").await.unwrap();
    let line = kubelet.prepare("r-3").await.unwrap_err();
    let wanted = "33.4 % of its time asked for class rt, 33.2 % are left next to other claims";
    assert!(line.ends_with(wanted), "{line}");
    kubelet.unprepare("r-1").await.unwrap();
    kubelet.prepare("r-3").await.unwrap();
    let uids: Vec<_> = (0..31).map(|number| format!("b-{number}")).collect();
    uids.iter().for_each(|uid| cluster.allocate(uid, 0, "be", json!({})));
    let answers = kubelet.prepare_all(&uids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert!(answers[..30].iter().all(Result::is_ok), "{answers:?}");
    let line = answers[30].as_ref().unwrap_err();
    assert!(line.ends_with("32 claims are prepared, 32 at most"), "{line}");
}

/// Neither the API server's answers nor a file on disk are believed to be what they should.
#[test]
fn bytes_that_are_changed_at_random_are_read_or_refused() {
    let (seed, steps) = seed_and_steps(3_000);
    println!("REEF_TEST_SEED={seed} REEF_TEST_STEPS={steps}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let claim = object("c", 0, "be", json!({ "memory": "8GiB", "compute": "33.4%" }));
    let prepared = claim::read(&claim, "c", NODE).unwrap();
    let checkpoint = json!({ "version": 1, "claims": { "c": prepared } }).to_string();
    checkpoint::parse(&checkpoint).unwrap();
    for _ in 0..steps {
        let text = changed(&claim.to_string(), &mut rng);
        if let Ok(value) = serde_json::from_str(&text) {
            let _ = claim::read(&value, "c", NODE);
        }
        let _ = checkpoint::parse(&changed(&checkpoint, &mut rng));
    }
}

/// One to four letters are others, all of which JSON and amounts use.
fn changed(text: &str, rng: &mut ChaCha8Rng) -> String {
    const LETTERS: &[u8] = b"\"{}[]:,.-019eEGik%\\ntfu \0";
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..rng.random_range(1..5) {
        let at = rng.random_range(0..bytes.len());
        bytes[at] = LETTERS[rng.random_range(0..LETTERS.len())];
    }
    String::from_utf8(bytes).expect("all of them are ASCII")
}
