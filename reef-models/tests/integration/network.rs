//! A network on a device that computes with the reference: memory, weights and commands fit
//! together.

use crate::eight_bits::device::plain;
use reef_conformance::Null;
use reef_core::{Command, Device, Priority, Queue, Seq, dkp};
use reef_models::profile::Profiles;
use reef_models::{Model, Network, Seeded};
use std::sync::Arc;

/// Runs commands one after the other.
fn run(commands: &[Command<Null>]) {
    let mut queue = plain().queue(Priority::BestEffort, None).unwrap();
    for (seq, command) in (0..).map(Seq).zip(commands) {
        match command {
            Command::Launch(launch) => queue.launch(seq, launch, None).unwrap(),
            Command::Copy(copy) => queue.copy(seq, copy).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

fn network(name: &str, size: usize, batch: usize) -> (Model, Network<Null>, Vec<f32>) {
    let model = Model::open(name).input_size(size).batch(batch).read().unwrap();
    let network = model.load(&plain()).unwrap();
    let input = Seeded(1).input(network.input_len());
    (model, network, input)
}

#[test]
fn sharing_memory_changes_no_logit() {
    for (name, size) in [("resnet18", 32), ("densenet121", 32), ("inception_v3", 75)] {
        let (model, network, input) = network(name, size, 2);
        let want = model.expected(&input).unwrap();
        network.stage_input(&input).unwrap();
        run(&network.inference());
        assert_eq!(network.staged_output().unwrap(), want, "{name}");
        run(&network.inference());
        assert_eq!(network.staged_output().unwrap(), want, "{name}, again in used memory");
    }
}

#[test]
fn an_inference_copies_in_and_out() {
    let (model, network, input) = network("resnet18", 32, 1);
    network.stage_input(&input).unwrap();
    let commands = network.inference();
    run(&commands);
    let want = model.expected(&input).unwrap();
    assert_eq!(network.staged_output().unwrap(), want);
    assert!(matches!(&commands[0], Command::Copy(copy) if !copy.to_host));
    assert!(matches!(commands.last(), Some(Command::Copy(copy)) if copy.to_host));
    assert_eq!(commands.len(), network.launches().count() + 2);
}

#[test]
fn instances_share_weights_but_no_activations() {
    let model = Model::open("resnet18").input_size(32).read().unwrap();
    let weights = model.weights(&plain()).unwrap();
    let [a, b] = [0, 1].map(|_| weights.network().unwrap());
    a.stage_input(&Seeded(1).input(a.input_len())).unwrap();
    b.stage_input(&Seeded(2).input(b.input_len())).unwrap();
    for (a, b) in a.inference().iter().zip(&*b.inference()) {
        run(&[a.clone(), b.clone()]);
    }
    for (network, seed) in [(a, 1), (b, 2)] {
        let input = Seeded(seed).input(network.input_len());
        let want = model.expected(&input).unwrap();
        assert_eq!(network.staged_output().unwrap(), want);
    }
}

#[test]
fn profiles_find_their_launches_by_name() {
    let (_, network, _) = network("resnet18", 32, 1);
    let profile = dkp::Profile { micros: 7, ..dkp::Profile::default() };
    let profiles = Profiles::from([("layer1.0.conv2".to_owned(), Arc::new(profile))]);
    let network = network.with_profiles(&profiles);
    assert_eq!(network.step_names().len(), network.launches().count());
    for (launch, name) in network.launches().zip(network.step_names()) {
        let micros = launch.profile().map(|profile| profile.micros);
        assert_eq!(micros, (name.launch == "layer1.0.conv2").then_some(7), "{name:?}");
    }
}

#[test]
fn misfit_of_an_input_is_reported_with_both_numbers() {
    let (model, network, input) = network("resnet18", 32, 1);
    let wrong = network.stage_input(&[0.0; 4]).unwrap_err().to_string();
    assert_eq!(wrong, "input: must have 3072 values, got 4");
    let wrong = model.expected(&input[1..]).unwrap_err().to_string();
    assert_eq!(wrong, "input: must have 3072 values, got 3071");
}
