//! Whatever happens to kubelet, sockets, GPUs, daemon and plugin: lists and answers come to what
//! there is.
//!
//! `REEF_TEST_SEED` repeats a run, `REEF_TEST_STEPS` makes it longer.

use super::kubelet::{Kubelet, Lists};
use super::restarts::start;
use crate::config::Config;
use crate::error::Result;
use crate::tests::node::{FakeNode, seed_and_steps};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use tokio::task::JoinHandle;

const CLASSES: [&str; 2] = ["rt", "be"];

/// A node, what runs on it, and what the lists should say.
struct World {
    node: FakeNode,
    config: Config,
    plugin: JoinHandle<Result<()>>,
    kubelet: Option<Kubelet>,
    /// GPUs that are there, and those that the plugin has seen since it started.
    there: BTreeSet<u32>,
    known: BTreeSet<u32>,
    has_daemon: bool,
}

impl World {
    fn new() -> Self {
        let node = FakeNode::new();
        let config = node.config();
        let plugin = start(&config);
        let kubelet = Some(Kubelet::start(&config.kubelet));
        let there = BTreeSet::from([0, 1]);
        Self { node, config, plugin, kubelet, known: there.clone(), there, has_daemon: true }
    }

    fn kubelet(&self) -> &Kubelet {
        self.kubelet.as_ref().expect("one runs between two steps")
    }

    fn expected_lists(&self) -> Lists {
        let list = |class: &str| {
            let of = |minor: u32| {
                let is_healthy = self.has_daemon && self.there.contains(&minor);
                (0..2).map(move |number| (id(minor, class, number), is_healthy))
            };
            self.known.iter().copied().flat_map(of).collect::<BTreeMap<_, _>>()
        };
        CLASSES.map(|class| (format!("reef.dev/{class}"), list(class))).into()
    }

    /// Waits for registrations, since lists of before stay for a moment.
    async fn wait_for_registrations(&self, before: usize, more: usize) {
        let kubelet = self.kubelet();
        kubelet.until("registrations", |_| kubelet.registrations().len() >= before + more).await;
    }

    async fn end_plugin(&mut self) {
        self.plugin.abort();
        let _ = (&mut self.plugin).await;
    }

    /// Does one thing, and says which.
    async fn step(&mut self, rng: &mut ChaCha8Rng) -> String {
        let before = self.kubelet().registrations().len();
        let minor = rng.random_range(0..4);
        match rng.random_range(0..9) {
            0 => {
                self.kubelet = None;
                self.kubelet = Some(Kubelet::start(&self.config.kubelet));
                "the kubelet restarts".into()
            }
            1 => {
                let name = format!("reef.dev-{}.sock", CLASSES[rng.random_range(0..2)]);
                let socket = self.config.kubelet.join(&name);
                std::fs::remove_file(&socket).unwrap();
                // A registration may be of one whose list is watched late.
                self.kubelet().until(&format!("a new {name}"), |_| socket.exists()).await;
                self.wait_for_registrations(before, 1).await;
                format!("{name} is removed")
            }
            2 => {
                self.kubelet().stop_watching();
                "streams break".into()
            }
            3 | 4 if self.there.remove(&minor) => {
                self.node.lose_gpu(minor);
                format!("GPU {minor} goes")
            }
            3 | 4 => {
                self.node.add_gpu(minor);
                self.there.insert(minor);
                self.known.insert(minor);
                format!("GPU {minor} comes")
            }
            5 => {
                self.has_daemon = !self.has_daemon;
                if self.has_daemon {
                    self.node.start_daemon();
                } else {
                    self.node.end_daemon();
                }
                format!("a daemon: {}", self.has_daemon)
            }
            6 | 7 => {
                self.end_plugin().await;
                self.plugin = start(&self.config);
                self.known = self.there.clone();
                self.wait_for_registrations(before, 2).await;
                "the plugin restarts".into()
            }
            _ => {
                let second = start(&self.config);
                let first = std::mem::replace(&mut self.plugin, second);
                let line = first.await.unwrap().unwrap_err().to_string();
                assert!(line.ends_with("another plugin has taken it"), "{line}");
                self.known = self.there.clone();
                self.wait_for_registrations(before, 2).await;
                "a second plugin takes over".into()
            }
        }
    }

    /// Asks for one device, which may be none, and compares the answer.
    async fn allocate(&self, rng: &mut ChaCha8Rng) {
        let (of, class) = (CLASSES[rng.random_range(0..2)], CLASSES[rng.random_range(0..2)]);
        let (minor, number) = (rng.random_range(0..4), rng.random_range(0..3));
        let ids = [id(minor, class, number)];
        let is_given = of == class && number < 2 && self.there.contains(&minor);
        let answer = self.kubelet().allocate(&format!("reef.dev-{of}.sock"), &ids).await;
        match answer {
            Ok(answer) if is_given => assert_eq!(answer.envs["REEF_LIMIT_ID"], ids[0]),
            Err(status) if !is_given => assert_eq!(status.code(), tonic::Code::InvalidArgument),
            other => panic!(
                "{ids:?} of {of}, which there {}: {other:?}",
                if is_given { "is" } else { "isn't" }
            ),
        }
    }
}

fn id(minor: u32, class: &str, number: u32) -> String {
    format!("{}-{class}-{number:02}", FakeNode::uuid(minor))
}

#[tokio::test]
async fn lists_and_answers_come_to_what_there_is_whatever_happens() {
    let (seed, steps) = seed_and_steps(12);
    println!("REEF_TEST_SEED={seed} REEF_TEST_STEPS={steps}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut world = World::new();
    let mut done = "the start".to_owned();
    for step in 0..steps {
        let wanted = world.expected_lists();
        let what = format!("step {step}, after {done}: {wanted:?}");
        world.kubelet().until(&what, |lists| *lists == wanted).await;
        // Without a daemon lists don't show whether the plugin has seen yet which GPUs there are.
        if world.has_daemon {
            world.allocate(&mut rng).await;
        }
        done = world.step(&mut rng).await;
        println!("{step}: {done}");
    }
    world.end_plugin().await;
}
