//! Whatever is fused and wherever it is placed, a network computes what its values say one by one.

use super::value::*;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use crate::model::seeded::Seeded;
use crate::run::reference;
use proptest::prelude::*;
use reef_op::{
    Activate, Bounds, Conv2d, Function, Layout, Multiply, Op, Pool2d, PoolKind, ScaleShift, Tensor,
    Window,
};

/// Rows and columns of all values but gates and the output.
const SIZE: usize = 4;
/// Channels of the widest value that is made on purpose.
const WIDEST: usize = 16;
/// Functions that become another one where a value is multiplied with its own.
const GATES: [Function; 2] = [Function::HardSigmoid, Function::Sigmoid];
const THREE: Window = Window { size: [3; 2], stride: [1; 2], padding: [1; 2] };

/// A step: what it does, and two values that it may work on.
type Instruction = (u8, prop::sample::Index, prop::sample::Index);

/// Made-up numbers, others for each `seed`.
fn numbers(seed: usize, n: usize) -> Vec<f32> {
    Seeded(seed as u64).input(n)
}

fn ledger() -> Ledger {
    Ledger::new(&Budget::default())
}

fn list<T: Clone>(items: Vec<T>) -> List<T> {
    List::copied(&items, &ledger()).unwrap()
}

fn make(net: &Net, instruction: Instruction) -> (usize, Make) {
    let (kind, a, b) = instruction;
    let images: Vec<Id> = (0..net.values.len()).filter(|&id| is_image(net, id)).collect();
    let [x, y] = [a, b].map(|index| *index.get(&images));
    let (channels, seed) = (net.values[x].shape[1], net.values.len());
    let window = if y % 2 == 0 { POINT } else { THREE };
    let pool = |kind| (channels, Make::Pool { x, kind, window: THREE });
    match kind {
        0 => {
            let outputs = 1 + y % 5;
            let taps = window.size[0] * window.size[1];
            let weights = list(numbers(seed, outputs * channels * taps));
            let bias = list(numbers(seed + 1, outputs));
            (outputs, Make::Conv(Conv::plain(x, window, 1, weights, bias)))
        }
        1 => {
            let wide = |seed| list(numbers(seed, channels).into_iter().map(f64::from).collect());
            let (scale, shift) = (wide(seed), wide(seed + 1));
            (channels, Make::Affine(Affine { x, scale, shift, relu: false }))
        }
        2 => (channels, Make::Relu { x }),
        3 => pool(PoolKind::Max),
        4 => pool(PoolKind::Average),
        5 => (channels, Make::Add { a: x, b: alike(net, x, y) }),
        6 => (channels, Make::Multiply { x, factor: alike(net, x, y) }),
        7 => {
            use Function::{Clamp, HardSigmoid, HardSwish, Sigmoid, Swish};
            let functions = [Clamp(Bounds::RELU6), HardSigmoid, HardSwish, Sigmoid, Swish];
            (channels, Make::Activate { x, function: functions[y % 5] })
        }
        8 if net.values.last().is_some_and(|gate| gate.shape == [1, channels, 1, 1]) => {
            (channels, Make::Multiply { x, factor: net.values.len() - 1 })
        }
        11 => (channels, Make::Activate { x, function: GATES[y % 2] }),
        _ if channels + net.values[y].shape[1] <= WIDEST => {
            (channels + net.values[y].shape[1], Make::Concat { parts: list(vec![x, y]) })
        }
        _ => (channels, Make::Relu { x }),
    }
}

fn is_image(net: &Net, id: Id) -> bool {
    net.values[id].shape[2] == SIZE
}

/// A value of the shape of `x`, `y` or one before it if there is any.
fn alike(net: &Net, x: Id, y: Id) -> Id {
    (0..=y).rev().find(|&y| net.values[y].shape == net.values[x].shape).unwrap_or(x)
}

/// The mean of an image, which only the product that comes next is made from.
fn gate(net: &Net, x: Id) -> (usize, Make) {
    let window = Window { size: [SIZE; 2], ..POINT };
    (net.values[x].shape[1], Make::Pool { x, kind: PoolKind::Average, window })
}

/// A network that uses all of its values, and its output.
fn network(channels: usize, instructions: &[Instruction]) -> (Net, Id) {
    let mut net = Net::default();
    let push = |net: &mut Net, channels, size, make| {
        let name = format!("v{}", net.values.len() % 3); // names repeat
        net.push(Value { name, shape: [1, channels, size, size], make })
    };
    push(&mut net, channels, SIZE, Make::Input);
    for &instruction in instructions {
        if let (8, x, _) = instruction {
            let images: Vec<Id> = (0..net.values.len()).filter(|&id| is_image(&net, id)).collect();
            let (channels, make) = gate(&net, *x.get(&images));
            push(&mut net, channels, 1, make);
        }
        let (channels, make) = make(&net, instruction);
        let gated = match (instruction, &make) {
            ((11, ..), Make::Activate { x, .. }) => Some(*x),
            _ => None,
        };
        push(&mut net, channels, SIZE, make);
        if let Some(x) = gated {
            let operands = [x, net.values.len() - 1];
            let [x, factor] = [0, 1].map(|k| operands[(k + x) % 2]);
            push(&mut net, channels, SIZE, Make::Multiply { x, factor });
        }
    }
    let used: Vec<Id> = net.values.iter().flat_map(|value| value.make.operands()).collect();
    let parts: Vec<Id> = (0..net.values.len()).filter(|id| !used.contains(id)).collect();
    let all = parts.iter().map(|&id| net.values[id].shape[1]).sum();
    let x = push(&mut net, all, SIZE, Make::Concat { parts: list(parts) });
    let window = Window { size: [SIZE; 2], ..POINT };
    let output = push(&mut net, all, 1, Make::Pool { x, kind: PoolKind::Average, window });
    (net, output)
}

/// Every value by itself.
fn one_by_one(net: &Net, input: &[f32]) -> Vec<f32> {
    let mut values: Vec<Vec<f32>> = Vec::new();
    for value in &net.values {
        let tensor = |id: Id| Tensor::new(Layout::Native, net.values[id].shape);
        let output = Tensor::new(Layout::Native, value.shape);
        let apply = |op: Op, x: Id, weights: &[f32], bias: &[f32]| {
            let mut result = vec![0.0; output.elements()];
            let inputs = reference::Inputs { input: &values[x], residual: None, weights, bias };
            reference::apply(&op, inputs, &mut result);
            result
        };
        let made = match &value.make {
            Make::Input => input.to_vec(),
            Make::Conv(Conv { x, window, groups, weights, bias, .. }) => {
                let (window, groups) = (*window, *groups);
                let (residual, relu, function) = (false, false, None);
                let input = tensor(*x);
                let op = Conv2d { input, output, window, groups, residual, relu, function };
                apply(Op::Conv2d(op), *x, weights, bias)
            }
            Make::Affine(Affine { x, scale, shift, .. }) => {
                let floats = |all: &[f64]| all.iter().map(|&v| v as f32).collect::<Vec<_>>();
                let op = ScaleShift { input: tensor(*x), output, relu: false };
                apply(Op::ScaleShift(op), *x, &floats(scale), &floats(shift))
            }
            Make::Pool { x, kind, window } => {
                let op = Pool2d { kind: *kind, input: tensor(*x), output, window: *window };
                apply(Op::Pool2d(op), *x, &[], &[])
            }
            Make::Relu { x } => {
                values[*x].iter().map(|v| if *v < 0.0 { 0.0 } else { *v }).collect()
            }
            Make::Add { a, b } => values[*a].iter().zip(&values[*b]).map(|(a, b)| a + b).collect(),
            Make::Activate { x, function } => {
                let op = Activate { input: tensor(*x), output, function: *function };
                apply(Op::Activate(op), *x, &[], &[])
            }
            Make::Multiply { x, factor } => {
                let mut result = vec![0.0; output.elements()];
                let op = Multiply { input: tensor(*x), factor: tensor(*factor), output };
                let inputs = reference::Inputs {
                    input: &values[*x],
                    residual: Some(&values[*factor]),
                    weights: &[],
                    bias: &[],
                };
                reference::apply(&Op::Multiply(op), inputs, &mut result);
                result
            }
            Make::Concat { parts } => parts.iter().flat_map(|&id| values[id].clone()).collect(),
        };
        values.push(made);
    }
    values.pop().unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn fused_and_placed_networks_compute_the_same(
        channels in 1..5usize,
        instructions in prop::collection::vec((0..12u8, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..14),
    ) {
        let (net, output) = network(channels, &instructions);
        let input = numbers(7, channels * SIZE * SIZE);
        let want = one_by_one(&net, &input);
        let (net, output) = net.fuse(output, &ledger()).unwrap();
        let left = |make: &Make| matches!(make, Make::Relu { .. } | Make::Add { .. });
        prop_assert!(!net.values.iter().any(|value| left(&value.make)));
        let (model, params) = net.emit("random", output, &ledger()).unwrap();
        prop_assert_eq!(model.check(), Ok(()));
        let have = if params.tensors.is_empty() {
            reference::execute(&model, &Seeded(0), &input)
        } else {
            reference::execute(&model, &params, &input)
        };
        let have = have.unwrap();
        let largest = want.iter().fold(1e-3f32, |max, value| max.max(value.abs()));
        let pairs = have.iter().zip(&want);
        let worst = pairs.map(|(a, b)| (a - b).abs()).max_by(f32::total_cmp).unwrap();
        prop_assert_eq!(have.len(), want.len());
        prop_assert!(worst <= 1e-4 * largest, "off by {worst} of {largest}");
    }
}
