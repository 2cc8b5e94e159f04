//! Every operator against its definition, over odd shapes and random ones, and its blocks against
//! the contract of preemption.

use super::build::build;
use super::operand::is_planar;
use super::pack::pack;
use super::place::Place;
use super::reference::{Random, compute, indices};
use crate::kernel::{Block, EVICT, RESET, RUN};
use crate::kernel::{Kernel, Outcome};
use crate::memory::Buffer;
use reef_core::op::{
    Activate, Bounds, Conv2d, Function, Layout, Linear, Multiply, Op, Pool2d, PoolKind, ScaleShift,
    Tensor, Window,
};
use reef_core::{Args, Error};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// What storages hold outside of their tensors.
const UNTOUCHED: f32 = 12345.0;

/// An operator with random operands.
struct Case {
    op: Op,
    kernels: Vec<(Kernel, u32)>,
    output: Place,
    want: Vec<f64>,
}

/// A storage, 64 bytes into its buffer, with `values` in the tensor's channels.
fn store(tensor: &Tensor, values: &[f32]) -> Place {
    let len = tensor.storage_elements() + 16;
    let place = Place { buffer: Buffer::zeroed(len * 4).unwrap(), offset: 64 };
    let all = floats(&place.buffer);
    all.fill(UNTOUCHED);
    for (index, value) in indices(tensor).zip(values) {
        all[16 + position(tensor, index)] = *value;
    }
    place
}

#[expect(clippy::mut_from_ref, reason = "tests look at buffers only while no block runs")]
fn floats(buffer: &Buffer) -> &mut [f32] {
    // SAFETY: the buffer is that long, aligned and initialised, and no block runs meanwhile.
    unsafe { std::slice::from_raw_parts_mut(buffer.as_ptr().cast(), buffer.bytes() / 4) }
}

/// Where an element lies in its storage.
fn position(of: &Tensor, [n, c, y, x]: [usize; 4]) -> usize {
    let c = of.first + c;
    if is_planar(of) {
        ((n * of.of + c) * of.height + y) * of.width + x
    } else {
        ((n * of.height + y) * of.width + x) * of.of + c
    }
}

impl Case {
    fn new(op: Op, random: &mut Random) -> Self {
        Self::of(op, random, |_, _| ())
    }

    /// With `change` applied to what is read.
    fn of(op: Op, random: &mut Random, change: impl Fn(&mut [f32], &mut Random)) -> Self {
        let mut input = random.floats(op.input().elements());
        if matches!(op, Op::Activate(_)) {
            input.iter_mut().for_each(|x| *x *= 9.0); // beyond both bounds
        }
        change(&mut input, random);
        let [weights, bias] = op.constants().map(|len| random.floats(len));
        let second = op.second().copied();
        let mut residual =
            second.map(|tensor| random.floats(tensor.elements())).unwrap_or_default();
        change(&mut residual, random);
        let want = compute(&op, &input, &residual, [&weights, &bias]);

        let output = store(op.output(), &[]);
        let constants = (!bias.is_empty()).then(|| pack(&op, &weights, &bias).unwrap());
        let place = second.map(|tensor| store(&tensor, &residual));
        let input = store(op.input(), &input);
        let units = 1 + random.below(32) as u32; // blocks are cut for so many
        let kernels = build(&op, input, place, output.clone(), constants, units);
        Self { kernels: kernels.unwrap_or_else(|why| panic!("{op:?}: {why}")), op, output, want }
    }

    /// Runs all blocks, backwards, because their order must not matter.
    fn run(&self) {
        let mut scratch = Vec::new();
        let stop = AtomicU8::new(RUN);
        for (kernel, blocks) in &self.kernels {
            for index in (0..*blocks).rev() {
                let outcome = run_block(kernel, index, &stop, &mut scratch);
                assert_eq!(outcome, Outcome::Done, "{:?}", self.op);
            }
        }
    }

    fn check(&self) {
        let (have, tensor) = (floats(&self.output.buffer), self.op.output());
        let mut others = have.to_vec();
        for (index, want) in indices(tensor).zip(&self.want) {
            let at = 16 + position(tensor, index);
            let have = f64::from(have[at]);
            let close = (have - want).abs() <= 1e-4 * want.abs().max(1.0)
                || have == *want
                || (have.is_nan() && want.is_nan());
            assert!(close, "{have}, not {want} at {index:?} of {:?}", self.op);
            others[at] = UNTOUCHED;
        }
        assert!(others.iter().all(|&value| value == UNTOUCHED), "wrote outside: {:?}", self.op);
    }
}

fn run_block(kernel: &Kernel, index: u32, stop: &AtomicU8, scratch: &mut Vec<f32>) -> Outcome {
    kernel.run(&mut Block { index, unit: 0, stop, scratch }, &Args::new(&[]))
}

fn native(shape: [usize; 4]) -> Tensor {
    Tensor::new(Layout::Native, shape)
}

fn window(size: [usize; 2], stride: [usize; 2], padding: [usize; 2]) -> Window {
    Window { size, stride, padding }
}

/// A convolution with an output as large as it must be.
fn conv(input: Tensor, channels: usize, window: Window) -> Conv2d {
    let [height, width] = window.over([input.height, input.width]);
    let output = native([input.batch, channels, height, width]);
    let (residual, relu, function) = (false, false, None);
    Conv2d { input, output, window, groups: 1, residual, relu, function }
}

fn pool(kind: PoolKind, input: Tensor, window: Window) -> Pool2d {
    let [height, width] = window.over([input.height, input.width]);
    Pool2d { kind, input, output: native([input.batch, input.channels, height, width]), window }
}

fn widened(tensor: Tensor, first: usize, behind: usize) -> Tensor {
    tensor.channels(first, tensor.channels, first + tensor.channels + behind)
}

/// Odd shapes of every operator.
fn table() -> Vec<Op> {
    let mut ops = convolutions();
    ops.extend(grouped_convolutions());
    ops.extend(others());
    ops.extend(pointwise());
    ops
}

fn convolutions() -> Vec<Op> {
    let plain = window([1, 1], [1, 1], [0, 0]);
    let same = window([3, 3], [1, 1], [1, 1]);
    let planar = |shape| Tensor::new(Layout::Nchw, shape);
    let with_residual = |op: Conv2d| Conv2d { residual: true, relu: true, ..op };
    let into =
        |op: Conv2d, first, behind| Conv2d { output: widened(op.output, first, behind), ..op };
    let ops = [
        conv(native([1, 64, 14, 14]), 64, plain),
        conv(native([2, 5, 3, 7]), 3, plain),
        conv(native([1, 512, 7, 7]), 40, plain),
        conv(native([1, 64, 9, 9]), 128, window([1, 1], [2, 2], [0, 0])),
        conv(native([1, 48, 7, 7]), 48, same),
        conv(native([2, 17, 5, 6]), 33, same),
        conv(native([1, 32, 8, 17]), 16, window([1, 7], [1, 1], [0, 3])),
        conv(native([1, 32, 17, 8]), 80, window([7, 1], [1, 1], [3, 0])),
        conv(native([1, 9, 11, 13]), 20, window([5, 3], [2, 3], [2, 0])),
        conv(native([1, 1, 6, 6]), 1, same),
        conv(native([1, 8, 2, 2]), 8, window([3, 3], [2, 2], [2, 2])),
        conv(planar([1, 3, 32, 30]), 64, window([7, 7], [2, 2], [3, 3])),
        conv(planar([2, 3, 19, 21]), 32, window([3, 3], [2, 2], [0, 0])),
        conv(planar([1, 4, 23, 40]), 24, window([11, 11], [4, 4], [2, 2])),
        conv(planar([1, 3, 5, 4]), 7, window([7, 7], [1, 1], [3, 3])),
        conv(widened(planar([2, 2, 6, 6]), 1, 2), 7, same),
        conv(planar([2, 30, 1, 1]), 7, plain),
        with_residual(conv(native([1, 96, 10, 10]), 96, same)),
        with_residual(into(conv(native([2, 30, 5, 5]), 18, plain), 7, 3)),
        into(conv(widened(native([1, 64, 8, 8]), 32, 16), 32, same), 64, 16),
        into(conv(widened(native([1, 13, 8, 8]), 3, 1), 5, same), 2, 4),
        conv(widened(native([1, 64, 8, 8]), 0, 64), 32, plain),
        conv(native([3, 272, 1, 1]), 35, plain),
        conv(native([1, 64, 14, 14]), 96, same),
        conv(native([2, 32, 9, 13]), 40, window([3, 3], [1, 1], [0, 2])),
        with_residual(into(conv(widened(native([1, 272, 15, 11]), 5, 2), 33, same), 3, 1)),
    ];
    ops.into_iter().map(Op::Conv2d).collect()
}

fn grouped_convolutions() -> Vec<Op> {
    let same = window([3, 3], [1, 1], [1, 1]);
    let grouped = |op: Conv2d, groups| Conv2d { groups, relu: true, ..op };
    let then = |op: Conv2d, function| Conv2d { function: Some(function), relu: false, ..op };
    let wide = Conv2d {
        output: widened(native([1, 24, 6, 6]), 5, 2),
        residual: true,
        ..conv(widened(native([1, 24, 6, 6]), 8, 3), 24, same)
    };
    let wide_line = Conv2d {
        residual: true,
        ..conv(native([1, 50, 5, 46]), 50, window([3, 3], [1, 2], [1, 1]))
    };
    let ops = [
        grouped(conv(native([1, 32, 9, 9]), 64, same), 2),
        grouped(conv(native([2, 12, 5, 7]), 18, window([3, 1], [2, 1], [1, 0])), 3),
        grouped(conv(native([1, 6, 5, 5]), 12, same), 6),
        grouped(conv(native([2, 40, 9, 9]), 40, window([3, 3], [2, 2], [1, 1])), 40),
        grouped(conv(Tensor::new(Layout::Nchw, [1, 4, 8, 8]), 4, same), 4),
        grouped(wide, 24),
        then(
            grouped(conv(native([1, 72, 14, 14]), 72, window([5, 5], [1, 1], [2, 2])), 72),
            Function::Swish,
        ),
        then(
            grouped(conv(native([2, 100, 5, 7]), 100, window([5, 5], [2, 2], [2, 2])), 100),
            Function::HardSwish,
        ),
        grouped(wide_line, 50),
        then(conv(native([2, 40, 5, 9]), 70, window([1, 1], [1, 1], [0, 0])), Function::HardSwish),
        then(
            Conv2d {
                residual: true,
                ..conv(native([1, 16, 6, 6]), 16, window([1, 1], [1, 1], [0, 0]))
            },
            Function::Swish,
        ),
        grouped(conv(native([1, 33, 3, 2]), 33, window([7, 7], [1, 1], [3, 3])), 33),
        grouped(conv(native([1, 8, 2, 2]), 8, window([2, 3], [3, 4], [4, 5])), 8),
        then(grouped(wide, 24), Function::Sigmoid),
        then(grouped(conv(native([1, 32, 9, 9]), 64, same), 2), Function::Swish),
        grouped(wide, 4),
    ];
    ops.into_iter().map(Op::Conv2d).collect()
}

fn others() -> Vec<Op> {
    let max = |input, window| Op::Pool2d(pool(PoolKind::Max, input, window));
    let mean = |input, window| Op::Pool2d(pool(PoolKind::Average, input, window));
    let affine = |input, output, relu| Op::ScaleShift(ScaleShift { input, output, relu });
    let scale = |input, output| affine(input, output, true);
    let linear = |input, output, relu| Op::Linear(Linear { input, output, relu, function: None });
    let tensor = native([2, 19, 5, 4]);
    let logits = Tensor::new(Layout::Nchw, [2, 100, 1, 1]);
    vec![
        max(native([1, 64, 11, 11]), window([3, 3], [2, 2], [1, 1])),
        max(native([2, 7, 6, 5]), window([2, 3], [1, 2], [0, 1])),
        max(widened(native([1, 48, 8, 8]), 16, 32), window([3, 3], [1, 1], [1, 1])),
        mean(native([1, 2048, 7, 7]), window([7, 7], [1, 1], [0, 0])),
        mean(native([2, 5, 67, 64]), window([67, 64], [1, 1], [0, 0])),
        mean(native([2, 33, 5, 5]), window([3, 3], [1, 1], [1, 1])),
        mean(native([1, 32, 8, 8]), window([2, 2], [2, 2], [0, 0])),
        scale(tensor, tensor),
        affine(tensor, tensor, false),
        scale(widened(tensor, 3, 1), tensor),
        scale(native([1, 256, 14, 14]), widened(native([1, 256, 14, 14]), 16, 0)),
        linear(native([2, 300, 1, 1]), logits, true),
        linear(native([1, 512, 1, 1]), native([1, 10, 1, 1]), false),
        linear(native([1, 3, 1, 1]), native([1, 1, 1, 1]), true),
        Op::Linear(Linear {
            input: native([1, 30, 1, 1]),
            output: native([1, 12, 1, 1]),
            relu: false,
            function: Some(Function::Sigmoid),
        }),
    ]
}

fn activate(input: Tensor, output: Tensor, function: Function) -> Op {
    Op::Activate(Activate { input, output, function })
}

fn multiply(input: Tensor, factor: Tensor, output: Tensor) -> Op {
    Op::Multiply(Multiply { input, factor, output })
}

const FUNCTIONS: [Function; 5] = [
    Function::Clamp(Bounds::RELU6),
    Function::HardSigmoid,
    Function::HardSwish,
    Function::Sigmoid,
    Function::Swish,
];

fn pointwise() -> Vec<Op> {
    let (tensor, gate) = (native([2, 19, 5, 4]), native([2, 19, 1, 1]));
    let large = native([1, 256, 14, 14]);
    let logits = Tensor::new(Layout::Nchw, [2, 10, 1, 1]);
    let mut ops = vec![
        multiply(tensor, tensor, tensor),
        multiply(tensor, gate, tensor),
        multiply(widened(tensor, 3, 1), widened(tensor, 0, 7), widened(tensor, 2, 2)),
        multiply(widened(tensor, 3, 1), widened(gate, 5, 6), widened(tensor, 2, 2)),
        multiply(large, native([1, 256, 1, 1]), widened(large, 16, 0)),
        multiply(gate, widened(gate, 1, 1), gate),
        multiply(native([2, 10, 1, 1]), logits, logits),
    ];
    for function in FUNCTIONS {
        ops.push(activate(tensor, tensor, function));
        ops.push(activate(widened(tensor, 3, 1), widened(tensor, 2, 5), function));
        ops.push(activate(large, large, function));
        ops.push(activate(native([2, 10, 1, 1]), logits, function));
    }
    for (low, high) in [(-1.5, 2.25), (-1e9, 1e9), (f32::NEG_INFINITY, -3.0), (4.0, f32::INFINITY)]
    {
        let bounds = Bounds::new(low, high).unwrap();
        ops.push(activate(tensor, tensor, Function::Clamp(bounds)));
    }
    ops
}

#[test]
fn odd_shapes_give_what_the_definition_says() {
    for (i, op) in table().into_iter().enumerate() {
        let case = Case::new(op, &mut Random::new(i as u64));
        case.run();
        case.check();
    }
}

/// Puts `value` at a few places.
fn sprinkle(value: f32) -> impl Fn(&mut [f32], &mut Random) {
    move |values, random| {
        for _ in 0..values.len().min(3) {
            values[random.below(values.len())] = value;
        }
    }
}

/// What is not a number stays none, in just those outputs that are made from it: no ReLU, bound or maximum
/// makes a number of it.
#[test]
fn nan_in_gives_nan_out_and_nowhere_else() {
    for (i, op) in table().into_iter().enumerate() {
        let case = Case::of(op, &mut Random::new(i as u64), sprinkle(f32::NAN));
        assert!(case.want.iter().any(|value| value.is_nan()), "none is wanted: {op:?}");
        case.run();
        case.check();
    }
}

/// Activations and pools have values for infinities too; a sum of products may have none.
#[test]
fn infinities_give_what_the_definition_says() {
    for (i, op) in table().into_iter().enumerate() {
        for value in [f32::INFINITY, f32::NEG_INFINITY] {
            let case = Case::of(op, &mut Random::new(i as u64), sprinkle(value));
            case.run();
            case.check();
        }
    }
}

/// Four million values near 1000, added up one after the other, would give 2 % less.
#[test]
fn means_of_large_pictures_are_exact() {
    for (channels, size) in [(1, 2048), (3, 300), (70, 65)] {
        let whole = window([size; 2], [1, 1], [0, 0]);
        let op = Op::Pool2d(pool(PoolKind::Average, native([1, channels, size, size]), whole));
        let near = |values: &mut [f32], _: &mut Random| {
            values.iter_mut().for_each(|value| *value += 1000.0);
        };
        let case = Case::of(op, &mut Random::new(size as u64), near);
        case.run();
        for (index, want) in indices(op.output()).zip(&case.want) {
            let have = floats(&case.output.buffer)[16 + position(op.output(), index)];
            let off = (f64::from(have) - want).abs() / want;
            assert!(off < 2e-6, "{size}: {have}, not {want}: off by {off:.1e}");
        }
    }
}

fn random_conv(random: &mut Random) -> Op {
    let axis = |random: &mut Random| {
        let size = 1 + random.below(4);
        (size, 1 + random.below(3), random.below(size + 1))
    };
    let ((rows, dy, top), (columns, dx, left)) = (axis(random), axis(random));
    let groups = [1, 1, 1, 2, 3][random.below(5)];
    let mut channels = || groups * (1 + random.below(40));
    let (inputs, outputs) = (channels(), channels());
    let mut padding = || random.below(2) * random.below(20);
    let [a, b, c, d] = [padding(), padding(), padding(), padding()];
    let shape = [1 + random.below(2), inputs, 4 + random.below(16), 4 + random.below(16)];
    let layout = if random.below(4) == 0 { Layout::Nchw } else { Layout::Native };
    let input = widened(Tensor::new(layout, shape), a, b);
    let op = conv(input, outputs, window([rows, columns], [dy, dx], [top, left]));
    let (residual, relu) = (random.below(2) == 0, random.below(2) == 0);
    Op::Conv2d(Conv2d { groups, residual, relu, output: widened(op.output, c, d), ..op })
}

fn random_depthwise(random: &mut Random) -> Op {
    let mut axis = || {
        let size = [3, 5, 7][random.below(3)];
        (size, 1 + random.below(2), random.below(size + 1))
    };
    let ((rows, dy, top), (columns, dx, left)) = (axis(), axis());
    let groups = 2 + random.below(70);
    let shape = [1 + random.below(2), groups, 7 + random.below(20), 7 + random.below(20)];
    let input = widened(native(shape), random.below(20), random.below(20));
    let op = conv(input, groups, window([rows, columns], [dy, dx], [top, left]));
    let output = widened(op.output, random.below(20), random.below(20));
    let (residual, relu) = (random.below(2) == 0, random.below(2) == 0);
    Op::Conv2d(Conv2d { groups, residual, relu, output, ..op })
}

fn random_pool(random: &mut Random) -> Op {
    let size = [1 + random.below(4), 1 + random.below(4)];
    let padding = size.map(|size| random.below(size));
    let shape =
        [1 + random.below(2), 1 + random.below(90), 4 + random.below(9), 4 + random.below(9)];
    let input = widened(native(shape), random.below(9), random.below(9));
    let kind = [PoolKind::Max, PoolKind::Average][random.below(2)];
    let stride = [1 + random.below(3), 1 + random.below(3)];
    Op::Pool2d(pool(kind, input, window(size, stride, padding)))
}

fn random_pointwise(random: &mut Random) -> Op {
    let channels = 1 + random.below(90);
    let shape = [1 + random.below(3), channels, 1 + random.below(13), 1 + random.below(13)];
    let mut slice = |shape| widened(native(shape), random.below(9), random.below(9));
    let (input, output) = (slice(shape), slice(shape));
    let (same, gate) = (slice(shape), slice([shape[0], channels, 1, 1]));
    match random.below(5) {
        0 => multiply(input, same, output),
        1 => multiply(input, gate, output),
        i => activate(input, output, FUNCTIONS[i - 2]),
    }
}

#[test]
fn random_shapes_give_what_the_definition_says() {
    for seed in 0..250 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let op = match seed % 5 {
            0 => random_pool(&mut random),
            1 => random_pointwise(&mut random),
            2 => random_depthwise(&mut random),
            _ => random_conv(&mut random),
        };
        let case = Case::new(op, &mut random);
        case.run();
        case.check();
    }
}

#[test]
fn a_stopped_block_writes_nothing_and_runs_again() {
    for (i, op) in table().into_iter().enumerate() {
        let case = Case::new(op, &mut Random::new(i as u64));
        let before = floats(&case.output.buffer).to_vec();
        let (stop, mut scratch) = (AtomicU8::new(RESET), vec![f32::NAN; 1 << 16]);
        for (kernel, blocks) in &case.kernels {
            for index in 0..*blocks {
                let outcome = run_block(kernel, index, &stop, &mut scratch);
                assert_eq!(outcome, Outcome::Stopped, "{op:?}");
            }
        }
        assert_eq!(before, floats(&case.output.buffer), "{op:?}");
        case.run();
        case.check();
    }
}

#[test]
fn a_block_stopped_midway_writes_nothing_and_runs_again() {
    for (i, op) in table().into_iter().enumerate() {
        let case = Case::new(op, &mut Random::new(i as u64));
        let undisturbed = Case::new(op, &mut Random::new(i as u64));
        undisturbed.run();
        for (kernel, blocks) in &case.kernels {
            for index in 0..*blocks {
                interrupt_everywhere(&case, kernel, index);
            }
        }
        let bits = |case: &Case| floats(&case.output.buffer).map_bits();
        assert_eq!(bits(&case), bits(&undisturbed), "{op:?}");
    }
}

/// Stops a block at its first, second, … look at the stop word, until it gets through.
fn interrupt_everywhere(case: &Case, kernel: &Kernel, index: u32) {
    let mut scratch = Vec::new();
    for looks in 1.. {
        let before = floats(&case.output.buffer).map_bits();
        let outcome = super::stop_token::after(looks, || {
            run_block(kernel, index, &AtomicU8::new(RUN), &mut scratch)
        });
        if outcome == Outcome::Done {
            return;
        }
        assert_eq!(before, floats(&case.output.buffer).map_bits(), "{:?}", case.op);
    }
}

trait Bits {
    fn map_bits(&self) -> Vec<u32>;
}

impl Bits for [f32] {
    fn map_bits(&self) -> Vec<u32> {
        self.iter().map(|value| value.to_bits()).collect()
    }
}

#[test]
fn an_evicted_block_runs_to_its_end() {
    for op in table() {
        let case = Case::new(op, &mut Random::new(1));
        let (stop, mut scratch) = (AtomicU8::new(EVICT), Vec::new());
        for (kernel, blocks) in &case.kernels {
            for index in 0..*blocks {
                assert_eq!(run_block(kernel, index, &stop, &mut scratch), Outcome::Done);
            }
        }
        case.check();
    }
}

#[test]
fn blocks_of_a_launch_run_on_several_units_at_once() {
    for (i, op) in table().into_iter().enumerate() {
        let case = Case::new(op, &mut Random::new(i as u64));
        for (kernel, blocks) in &case.kernels {
            let (next, stop) = (AtomicU32::new(0), AtomicU8::new(RUN));
            let unit = || {
                let mut scratch = Vec::new();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= *blocks {
                        return;
                    }
                    run_block(kernel, index, &stop, &mut scratch);
                }
            };
            std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(unit))));
        }
        case.check();
    }
}

#[test]
fn scratch_memory_does_not_grow_after_the_first_block() {
    for op in table() {
        let case = Case::new(op, &mut Random::new(1));
        let (stop, mut scratch) = (AtomicU8::new(RUN), Vec::new());
        for (kernel, blocks) in &case.kernels {
            run_block(kernel, blocks - 1, &stop, &mut scratch);
            let len = scratch.len();
            for index in 0..*blocks {
                run_block(kernel, index, &stop, &mut scratch);
            }
            assert_eq!(len, scratch.len(), "{op:?}");
        }
    }
}

fn refusal(op: Op, bytes: usize) -> Error {
    let place = || Place { buffer: Buffer::zeroed(bytes).unwrap(), offset: 0 };
    let constants = Buffer::zeroed(1 << 20).unwrap();
    build(&op, place(), None, place(), Some(constants), 1).unwrap_err()
}

#[test]
fn a_storage_that_is_too_small_is_invalid() {
    for op in table() {
        if op.second().is_none() {
            assert!(matches!(refusal(op, 8), Error::Invalid(_)), "{op:?}");
        }
    }
}

#[test]
fn shapes_that_contradict_each_other_are_invalid() {
    let good = conv(native([1, 8, 6, 6]), 8, window([3, 3], [1, 1], [1, 1]));
    let small = native([1, 8, 5, 6]);
    let other = native([1, 9, 6, 6]);
    let huge = window([9, 9], [1, 1], [1, 1]);
    let still = window([3, 3], [0, 1], [1, 1]);
    let image = good.input;
    for op in [
        Op::Conv2d(Conv2d { output: small, ..good }),
        Op::Conv2d(Conv2d { groups: 3, ..good }),
        Op::Conv2d(Conv2d { groups: 0, ..good }),
        Op::Conv2d(Conv2d { window: huge, ..good }),
        Op::Conv2d(Conv2d { window: still, ..good }),
        Op::Conv2d(Conv2d { residual: true, ..good }),
        Op::Conv2d(Conv2d { input: image.channels(4, 8, 9), ..good }),
        Op::Pool2d(Pool2d {
            kind: PoolKind::Max,
            input: image,
            output: other,
            window: good.window,
        }),
        Op::ScaleShift(ScaleShift { input: image, output: other, relu: false }),
        Op::Linear(Linear { input: image, output: image, relu: false, function: None }),
        activate(image, other, Function::HardSwish),
        multiply(image, image, other),
        multiply(image, image, image), // whose factor is missing
    ] {
        assert!(matches!(refusal(op, 1 << 16), Error::Invalid(_)), "{op:?}");
    }
}

#[test]
fn factors_that_fit_no_picture_are_invalid() {
    let image = native([2, 8, 6, 6]);
    let place = || Place { buffer: Buffer::zeroed(1 << 16).unwrap(), offset: 0 };
    for shape in [[1, 8, 1, 1], [2, 7, 1, 1], [2, 1, 6, 6], [2, 8, 6, 1], [2, 8, 6, 5]] {
        let op = multiply(image, native(shape), image);
        let error = build(&op, place(), Some(place()), place(), None, 1).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{shape:?}: {error}");
    }
    let small = Place { buffer: Buffer::zeroed(8).unwrap(), offset: 0 };
    let op = multiply(image, native([2, 8, 1, 1]), image);
    let error = build(&op, place(), Some(small), place(), None, 1).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
}

#[test]
fn planar_tensors_without_a_kernel_are_unsupported() {
    let planar = Tensor::new(Layout::Nchw, [1, 8, 6, 6]);
    let image = native([1, 8, 6, 6]);
    let into_planes = Conv2d { output: planar, ..conv(image, 8, window([1, 1], [1, 1], [0, 0])) };
    for op in [
        Op::Conv2d(into_planes),
        Op::Pool2d(pool(PoolKind::Max, planar, window([1, 1], [1, 1], [0, 0]))),
        Op::ScaleShift(ScaleShift { input: planar, output: image, relu: false }),
        activate(planar, image, Function::Clamp(Bounds::RELU6)),
    ] {
        assert!(matches!(refusal(op, 1 << 16), Error::Unsupported { .. }), "{op:?}");
    }
}

#[test]
fn constants_of_a_wrong_length_are_invalid() {
    let op = Op::Conv2d(conv(native([1, 8, 6, 6]), 8, window([1, 1], [1, 1], [0, 0])));
    assert!(matches!(pack(&op, &[0.0; 63], &[0.0; 8]), Err(Error::Invalid(_))));
    assert!(matches!(pack(&op, &[0.0; 64], &[0.0; 7]), Err(Error::Invalid(_))));
    assert!(pack(&op, &[0.0; 64], &[0.0; 8]).is_ok());
}

/// In a release build, products of such sizes would wrap to small ones, and pass for what fits.
#[test]
fn sizes_whose_products_wrap_are_invalid() {
    let image = native([1, 8, 6, 6]);
    let sizes = [1 << 27, 1 << 30, 1 << 58, 1 << 61, 1 << 62, 1 << 63, usize::MAX / 2, usize::MAX];
    let wide = |of| native([1, 8, 6, 6]).channels(0, 8, of);
    let mut random = Random::new(5);
    let mut any =
        || if random.below(3) == 0 { sizes[random.below(8)] } else { 1 + random.below(9) };
    let mut tried = 0;
    for _ in 0..5000 {
        let mut tensor = || {
            let shape = native([any(), any(), any(), any()]);
            shape.channels(if any() > 8 { any() } else { 0 }, shape.channels, any().max(any()))
        };
        let (input, output) = (tensor(), tensor());
        let window = window([any(), any()], [any(), any()], [any() - 1, any() - 1]);
        let groups = any();
        for op in [
            Op::Conv2d(Conv2d {
                input,
                output,
                window,
                groups,
                residual: false,
                relu: false,
                function: None,
            }),
            Op::Pool2d(Pool2d { kind: PoolKind::Max, input, output, window }),
            Op::ScaleShift(ScaleShift { input, output: input, relu: false }),
            Op::Linear(Linear { input, output, relu: false, function: None }),
            activate(input, input, Function::Clamp(Bounds::RELU6)),
            multiply(input, output, input),
        ] {
            let place = || Place { buffer: Buffer::zeroed(1 << 12).unwrap(), offset: 0 };
            let built = build(&op, place(), Some(place()), place(), Some(place().buffer), 1);
            let fits = [op.input(), op.output()].into_iter().all(|t| {
                let sizes = [t.batch, t.of, t.height, t.width];
                let elements = sizes.iter().try_fold(1usize, |product, n| product.checked_mul(*n));
                elements.is_some_and(|elements| elements <= 1 << 10)
            });
            assert!(built.is_err() || fits, "{op:?}");
            assert!(!matches!(pack(&op, &[], &[]), Err(Error::OutOfMemory { .. })), "{op:?}");
            tried += usize::from(built.is_ok());
        }
    }
    assert!(tried > 0, "some are fine");
    for of in sizes {
        assert!(matches!(
            refusal(activate(wide(of), image, Function::Clamp(Bounds::RELU6)), 64),
            Error::Invalid(_)
        ));
    }
}
