//! Networks of tensors: attention over a few rows, as text networks have it.

use super::depthwise::{blocks, blocks_are_short};
use crate::handmade::{file, float, int, ints, node, ones, scalar, singles, value};
use crate::subject::run_alone;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reef::models::{Model, Network, Seeded, Weights};
use reef::op::Operators;
use reef::tensor::Array;
use reef::{PreemptLevel, VirtualQueue, queue::Config};
use std::thread;
use std::time::Duration;

const ROWS: i64 = 40;
const WIDTH: i64 = 24;
/// Columns of layers that devices may pack.
const INSIDE: i64 = 32;

fn attention() -> Vec<u8> {
    let last = || vec![int("axis", -1)];
    let nodes = [
        node("LayerNormalization", &["x", "gain", "gain"], "n", &[float("epsilon", 1e-5)]),
        node("MatMul", &["n", "w"], "q", &[]),
        node("MatMul", &["n", "u"], "k", &[]),
        node("Transpose", &["k"], "t", &[ints("perm", &[1, 0])]),
        node("MatMul", &["q", "t"], "s", &[]),
        node("Mul", &["s", "scale"], "m", &[]),
        node("Softmax", &["m"], "p", &last()),
        node("MatMul", &["p", "n"], "a", &[]),
        node("Add", &["a", "x"], "h", &[]),
        node("Erf", &["h"], "e", &[]),
        node("ArgMax", &["p"], "best", &last()),
        node("Cast", &["best"], "which", &[int("to", 1)]),
        node("Concat", &["e", "h", "which"], "y", &last()),
    ];
    let ends = [
        value(11, "x", &[ROWS, WIDTH]),
        value(11, "w", &[WIDTH, WIDTH]),
        value(11, "u", &[WIDTH, WIDTH]),
        value(12, "y", &[]),
    ];
    let constants = [ones("gain", &[WIDTH]), scalar("scale", 0.2)];
    file(17, &[nodes.concat(), ends.concat(), constants.concat()])
}

/// Two linear layers with a GELU between them and a residual behind them.
fn layers() -> Vec<u8> {
    let nodes = [
        node("MatMul", &["x", "w"], "p", &[]),
        node("Add", &["p", "b"], "h", &[]),
        node("Div", &["h", "root"], "s", &[]),
        node("Erf", &["s"], "e", &[]),
        node("Add", &["e", "one"], "f", &[]),
        node("Mul", &["h", "f"], "g", &[]),
        node("Mul", &["g", "half"], "a", &[]),
        node("MatMul", &["a", "u"], "q", &[]),
        node("Add", &["q", "x"], "y", &[]),
    ];
    let ends = [
        value(11, "x", &[ROWS, WIDTH]),
        value(11, "w", &[WIDTH, 3 * WIDTH]),
        value(11, "b", &[3 * WIDTH]),
        value(11, "u", &[3 * WIDTH, WIDTH]),
        value(12, "y", &[]),
    ];
    let numbers = [("root", 2f32.sqrt()), ("one", 1.0), ("half", 0.5)];
    let constants = numbers.map(|(name, number)| scalar(name, number));
    file(17, &[nodes.concat(), ends.concat(), constants.concat()])
}

/// Attention whose scores have no reader, by heads: devices may have it as one operation.
fn heads() -> Vec<u8> {
    let order = |order: &[i64]| vec![ints("perm", order)];
    let nodes = [
        node("Transpose", &["x"], "q", &order(&[0, 2, 1, 3])),
        node("Transpose", &["w"], "k", &order(&[0, 2, 3, 1])),
        node("Transpose", &["u"], "v", &order(&[0, 2, 1, 3])),
        node("MatMul", &["q", "k"], "s", &[]),
        node("Mul", &["s", "scale"], "m", &[]),
        node("Add", &["m", "mask"], "b", &[]),
        node("Softmax", &["b"], "p", &[int("axis", -1)]),
        node("MatMul", &["p", "v"], "a", &[]),
        node("Transpose", &["a"], "h", &order(&[0, 2, 1, 3])),
        node("Add", &["h", "x"], "y", &[]),
    ];
    let ends = [
        value(11, "x", &[1, ROWS, 2, WIDTH]),
        value(11, "w", &[1, 7 * ROWS, 2, WIDTH]),
        value(11, "u", &[1, 7 * ROWS, 2, WIDTH]),
        value(11, "mask", &[1, 1, 1, 7 * ROWS]),
        value(12, "y", &[]),
    ];
    file(17, &[nodes.concat(), ends.concat(), scalar("scale", 0.2)])
}

/// Two linear layers whose matrices never change; with as many rows as columns the first one is
/// added as well.
fn constant_layers(rows: i64) -> Vec<u8> {
    let added = if rows == INSIDE { "w" } else { "b" };
    let nodes = [
        node("MatMul", &["x", "w"], "p", &[]),
        node("Add", &["p", added], "h", &[]),
        node("Relu", &["h"], "a", &[]),
        node("MatMul", &["a", "u"], "q", &[]),
        node("Add", &["q", "x"], "y", &[]),
    ];
    let ends = [value(11, "x", &[rows, INSIDE]), value(12, "y", &[])];
    let made = |k: i64| (k * 7919 % 251 - 125) as f32 / 500.0;
    let constants = [
        singles("w", &[INSIDE, 3 * INSIDE], made),
        singles("u", &[3 * INSIDE, INSIDE], |k| made(k + 17)),
        singles("b", &[3 * INSIDE], |k| made(k + 31)),
    ];
    file(17, &[nodes.concat(), ends.concat(), constants.concat()])
}

/// A network for other sizes shares the constants of the one that it was loaded with, and gives the
/// right values.
fn constants_are_shared<D: Operators>(device: &D, tolerance: f32) {
    let (first, _) = model(&constant_layers(INSIDE + 9));
    let base = first.weights(device).unwrap();
    assert!(base.own_bytes(None) > 0);
    for rows in [INSIDE + 9, INSIDE + 30] {
        let (model, inputs) = model(&constant_layers(rows));
        let weights = model.weights_sharing(&base).unwrap();
        agrees(device, &model, &inputs, &weights, tolerance, "layers next to others");
        assert_eq!(weights.own_bytes(Some(&base)), 0, "{rows} rows");
    }
}

fn model(file: &[u8]) -> (Model, Vec<Array>) {
    let model = Model::from_onnx(file, "made").tensors_only().read().unwrap();
    let ports = model.inputs();
    let lens = ports.iter().map(|(_, port)| port.spec.elements()).enumerate();
    let inputs = lens.map(|(k, len)| Array::F32(Seeded(k as u64).input(len))).collect();
    (model, inputs)
}

/// Attention gives the values of plain loops, and equal bits whenever it is preempted.
pub(crate) fn attention_agrees<D: Operators>(device: &D, tolerance: f32) {
    file_agrees(device, &attention(), tolerance, "attention");
    file_agrees(device, &heads(), tolerance, "heads");
}

/// Linear layers give the values of plain loops, and equal bits whenever they are preempted. A
/// device that has one launch for a layer has one for each.
pub(crate) fn layers_agree<D: Operators>(device: &D, tolerance: f32) {
    file_agrees(device, &layers(), tolerance, "layers");
    // One row and a few are those of a decoder's step.
    for rows in [1, 7, INSIDE, 50] {
        file_agrees(device, &constant_layers(rows), tolerance, "constant layers");
    }
    constants_are_shared(device, tolerance);
    file_agrees(device, &blocks(), tolerance, "blocks of ConvNeXt");
    blocks_are_short(device, model(&blocks()).0.tensors().unwrap());
}

fn file_agrees<D: Operators>(device: &D, file: &[u8], tolerance: f32, what: &str) {
    let (model, inputs) = model(file);
    let weights = model.weights(device).unwrap();
    agrees(device, &model, &inputs, &weights, tolerance, what);
}

fn agrees<D: Operators>(
    device: &D,
    model: &Model,
    inputs: &[Array],
    weights: &Weights<D>,
    tolerance: f32,
    what: &str,
) {
    let network = weights.network().unwrap();
    inputs.iter().enumerate().for_each(|(k, input)| network.stage(k, input).unwrap());
    run_alone(device, &network.inference());
    let alone = network.output(0).unwrap();
    let want = model.tensors().unwrap().execute(inputs).unwrap();
    let [have, want] = [&alone, &want[0]]
        .map(|array| array.values().to_f64().iter().map(|&value| value as f32).collect::<Vec<_>>());
    crate::are_close(&have, &want, tolerance, what);
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for turn in 0..4 {
        preempted(device, &network, &mut rng);
        assert_eq!(network.output(0).unwrap(), alone, "turn {turn}: other bits when preempted");
    }
}

/// Runs it with preemptions at random times, until it has ended.
fn preempted<D: Operators>(device: &D, network: &Network<D>, rng: &mut ChaCha8Rng) {
    let config = Config::default().level(PreemptLevel::All);
    let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
    crate::subject::submit(&mut submitter, &network.inference());
    for _ in 0..rng.random_range(2..8) {
        // sleep: any length is right
        thread::sleep(Duration::from_micros(rng.random_range(0..3000)));
        queue.preempt(rng.random()).unwrap();
        queue.restore().unwrap();
    }
    queue.finish().unwrap();
}
