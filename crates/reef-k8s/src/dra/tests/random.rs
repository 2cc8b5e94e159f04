//! Claims are prepared, unprepared and asked again while the driver and the machine start anew:
//! files and answers are those of a model.
//!
//! `REEF_TEST_SEED` repeats a run, `REEF_TEST_STEPS` makes it longer.

use super::cluster::{Cluster, path};
use super::kubelet::{Kubelet, Plugin, config, until};
use crate::dra::config::ClaimsConfig;
use crate::dra::proto::v1::Device;
use crate::tests::node::{FakeNode, names, seed_and_steps};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of claims. Of three that have the same GPU, two have room.
const CLAIMS: u32 = 12;

/// Expected state.
struct Model {
    prepared: BTreeMap<u32, Vec<Device>>,
    /// Claims that have a file: a GPU that wasn't there at the start left its claims without.
    files: BTreeSet<u32>,
    /// Claims that the API server doesn't have now.
    missing: BTreeSet<u32>,
    is_away: bool,
    has_second: bool,
}

struct World {
    node: FakeNode,
    config: ClaimsConfig,
    cluster: Arc<Cluster>,
    plugin: Plugin,
    model: Model,
}

fn uid(claim: u32) -> String {
    format!("uid-{claim}")
}

/// Half of the claims are real-time ones of 40 % of the time.
fn is_rt(claim: u32) -> bool {
    claim % 4 < 2
}

fn allocate(cluster: &Cluster, claim: u32) {
    if is_rt(claim) {
        cluster.allocate(&uid(claim), claim % 2, "rt", json!({ "compute": "40%" }));
    } else {
        cluster.allocate(&uid(claim), claim % 2, "be", json!({}));
    }
}

impl Model {
    fn has_gpu(&self, claim: u32) -> bool {
        claim.is_multiple_of(2) || self.has_second
    }

    fn has_room(&self, claim: u32) -> bool {
        let neighbours =
            self.prepared.keys().filter(|it| is_rt(**it) && **it % 2 == claim % 2).count();
        !is_rt(claim) || neighbours < 2
    }

    fn can_prepare(&self, claim: u32) -> bool {
        let is_new = || !self.is_away && !self.missing.contains(&claim) && self.has_room(claim);
        self.has_gpu(claim) && (self.prepared.contains_key(&claim) || is_new())
    }
}

impl World {
    fn new() -> Self {
        let node = FakeNode::new();
        let (config, cluster) = (config(&node), Arc::new(Cluster::new()));
        (0..CLAIMS).for_each(|claim| allocate(&cluster, claim));
        let plugin = Plugin::start(&config, &cluster);
        let (prepared, files, missing) = Default::default();
        let model = Model { prepared, files, missing, is_away: false, has_second: true };
        Self { node, config, cluster, plugin, model }
    }

    async fn prepare(&mut self, claim: u32) {
        let can = self.model.can_prepare(claim);
        match Kubelet::find(&self.config).await.prepare(&uid(claim)).await {
            Ok(devices) if can => {
                let first = self.model.prepared.entry(claim).or_insert_with(|| devices.clone());
                assert_eq!(*first, devices, "{claim}: not what was answered first");
                self.model.files.insert(claim);
            }
            Err(line) if !can => assert!(line.starts_with("claim team/claim-uid-"), "{line}"),
            other => panic!("{claim}, which can be prepared: {can}: {other:?}"),
        }
    }

    async fn start_again(&mut self, is_reboot: bool) {
        let next = Plugin(tokio::spawn(async { Ok(()) }));
        std::mem::replace(&mut self.plugin, next).end().await;
        if is_reboot {
            std::fs::remove_dir_all(&self.config.cdi).unwrap();
            std::fs::create_dir(&self.config.cdi).unwrap();
            self.model.files.clear();
            self.model.has_second = !self.model.has_second;
            if self.model.has_second {
                self.node.add_gpu(1);
            } else {
                self.node.lose_gpu(1);
            }
        }
        let model = &self.model;
        let again: Vec<_> =
            model.prepared.keys().copied().filter(|it| model.has_gpu(*it)).collect();
        self.model.files.extend(again);
        self.plugin = Plugin::start(&self.config, &self.cluster);
        Kubelet::find(&self.config).await;
    }

    async fn remove(&mut self, number: usize) {
        let sockets =
            [self.config.registry.join("reef.dev-reg.sock"), self.config.home().join("dra.sock")];
        std::fs::remove_file(&sockets[number]).unwrap();
        until("both sockets", || sockets.iter().all(|it| it.exists())).await;
    }

    /// Does one thing, and says which.
    async fn step(&mut self, rng: &mut ChaCha8Rng) -> String {
        let claim = rng.random_range(0..CLAIMS);
        match rng.random_range(0..20) {
            0 => {
                self.start_again(false).await;
                "the driver starts again".into()
            }
            1 => {
                self.start_again(true).await;
                format!("the machine starts again, second GPU: {}", self.model.has_second)
            }
            2 => {
                self.remove(rng.random_range(0..2)).await;
                "a socket is removed".into()
            }
            3 => {
                self.model.is_away = !self.model.is_away;
                self.cluster.is_away(self.model.is_away);
                format!("the API server is away: {}", self.model.is_away)
            }
            4 if self.model.missing.remove(&claim) => {
                allocate(&self.cluster, claim);
                format!("claim {claim} is made")
            }
            4 => {
                self.model.missing.insert(claim);
                self.cluster.remove(&path(&uid(claim)));
                format!("claim {claim} is deleted")
            }
            5..10 => {
                Kubelet::find(&self.config).await.unprepare(&uid(claim)).await.unwrap();
                self.model.prepared.remove(&claim);
                self.model.files.remove(&claim);
                format!("claim {claim} is unprepared")
            }
            _ => {
                self.prepare(claim).await;
                format!("claim {claim} is asked for")
            }
        }
    }
}

#[tokio::test]
async fn files_and_answers_are_those_of_the_claims_that_are_prepared() {
    let (seed, steps) = seed_and_steps(60);
    println!("REEF_TEST_SEED={seed} REEF_TEST_STEPS={steps}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut world = World::new();
    Kubelet::find(&world.config).await;
    for step in 0..steps {
        let done = world.step(&mut rng).await;
        println!("{step}: {done}");
        let files =
            world.model.files.iter().map(|claim| format!("reef.dev-claim_{}.json", uid(*claim)));
        let files: BTreeSet<_> = files.collect();
        let found: BTreeSet<_> = names(&world.config.cdi).into_iter().collect();
        assert_eq!(found, files, "step {step}, after {done}");
    }
}
