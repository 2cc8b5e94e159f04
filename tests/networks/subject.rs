//! A network on a device, two images for it, and what each leaves behind when it runs alone.
//!
//! Turns alternate between the images, so a launch that did not run leaves what belongs to the
//! other one and is found.

use reef::models::{Model, Network, Seeded, measured};
use reef::op::Operators;
use reef::{Command, Submitter, VirtualQueue, queue::Config};
use std::sync::Arc;

pub(crate) struct Subject<D: Operators> {
    name: String,
    device: D,
    pub(crate) network: Network<D>,
    turns: [Turn; 2],
}

struct Turn {
    input: Vec<f32>,
    outcome: Outcome,
}

/// Result of an inference: the bits of the logits and of all activations.
#[derive(PartialEq)]
struct Outcome {
    logits: Vec<u32>,
    arena: Vec<u8>,
}

impl<D: Operators> Subject<D> {
    /// Loads a network with made-up weights and runs each image by itself.
    pub(crate) fn load(device: &D, name: &str, size: usize) -> Self {
        let network = Model::open(name).input_size(size).load(device).unwrap();
        let turns = [1, 2].map(|seed| {
            let input = Seeded(seed).input(network.input_len());
            network.stage_input(&input).unwrap();
            run_alone(device, &network.inference());
            Turn { input, outcome: outcome(device, &network) }
        });
        assert!(turns[0].outcome.logits != turns[1].outcome.logits, "the images must differ");
        Self { name: format!("{name}@{size}"), device: device.clone(), network, turns }
    }

    /// Attaches measured profiles, with which padding can plan.
    pub(crate) fn measured(mut self) -> Self {
        let profiles = measured(&self.device, &self.network).unwrap();
        self.network = self.network.with_profiles(&profiles);
        self
    }

    /// Puts the image of `turn` where the next inference copies it from.
    pub(crate) fn stage(&self, turn: usize) -> Arc<[Command<D>]> {
        self.network.stage_input(&self.turns[turn % 2].input).unwrap();
        self.network.inference()
    }

    /// Commands of an inference before the first launch.
    pub(crate) fn first_launch(&self) -> usize {
        let commands = self.network.inference();
        commands.iter().position(|c| matches!(c, Command::Launch(_))).expect("there is one")
    }

    /// Returns whether the inference of `turn` gave the outcome of an undisturbed one, bit for bit.
    pub(crate) fn is_undisturbed(&self, turn: usize) -> bool {
        outcome(&self.device, &self.network) == self.turns[turn % 2].outcome
    }

    /// Checks that the inference of `turn` gave the outcome of an undisturbed one, bit for bit.
    #[track_caller]
    pub(crate) fn check(&self, turn: usize, what: &str) {
        let (have, want) = (outcome(&self.device, &self.network), &self.turns[turn % 2].outcome);
        assert!(have.logits == want.logits, "{}: {what}: other logits", self.name);
        assert!(have.arena == want.arena, "{}: {what}: other activations", self.name);
    }
}

/// Runs commands on a queue of their own.
pub(crate) fn run_alone<D: Operators>(device: &D, commands: &[Command<D>]) {
    let (mut submitter, queue) = VirtualQueue::enable(device, Config::default()).unwrap();
    submit(&mut submitter, commands);
    queue.finish().unwrap();
}

pub(crate) fn submit<D: Operators>(submitter: &mut Submitter<D>, commands: &[Command<D>]) {
    for command in commands {
        submitter.submit_blocking(command.clone()).unwrap();
    }
}

fn outcome<D: Operators>(device: &D, network: &Network<D>) -> Outcome {
    let mut arena = vec![0; network.arena_bytes()];
    device.read(network.arena(), 0, &mut arena).unwrap();
    let logits = network.staged_output().unwrap().into_iter().map(f32::to_bits).collect();
    Outcome { logits, arena }
}
