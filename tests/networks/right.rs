//! Networks give what torch, the reference or a formula says.

use crate::data;
use crate::handmade::{file, float, int, ints, node, ones, scalar, value};
use crate::subject::{run_alone, submit};
use reef::models::kinds::reference;
use reef::models::{Model, ScheduleGraph, Seeded, Work, onnx};
use reef::op::Operators;
use reef::{Args, Command, Launch, PreemptLevel, VirtualQueue, queue::Config};
use serde_json::Value;

/// Runs the network of a golden file and compares its logits; `tolerance` is the largest difference
/// from torch, as a part of the largest logit.
pub(crate) fn agrees<D: Operators>(device: &D, tolerance: f32, name: &str, size: usize) {
    let golden: Value = serde_json::from_str(data::golden(name, size)).unwrap();
    let want = golden["logits"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32);
    let seed = golden["seed"].as_u64().unwrap();

    let model = Model::open(name).input_size(size).seed(seed).read().unwrap();
    let have = logits(device, &model, Seeded(seed), PreemptLevel::HostQueue);
    are_close(&have, &want.collect::<Vec<_>>(), tolerance, &format!("{name} at {size}"));
}

/// Returns a network's output for the image of `seed`, on a queue that is preempted in this way.
fn logits<D: Operators>(device: &D, model: &Model, seed: Seeded, level: PreemptLevel) -> Vec<f32> {
    let network = model.load(device).unwrap();
    network.stage_input(&seed.input(network.input_len())).unwrap();
    let config = Config::default().level(level);
    let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
    submit(&mut submitter, &network.inference());
    queue.finish().unwrap();
    network.staged_output().unwrap()
}

#[track_caller]
pub(crate) fn are_close(have: &[f32], want: &[f32], tolerance: f32, what: &str) {
    assert_eq!(have.len(), want.len());
    let largest = want.iter().fold(0f32, |max, logit| max.max(logit.abs()));
    let worst = have.iter().zip(want).map(|(a, b)| (a - b).abs()).max_by(f32::total_cmp).unwrap();
    println!("{what}: off by {:.1e} of the largest logit", worst / largest);
    assert!(worst <= tolerance * largest, "{what}: off by {worst} of {largest}");
}

/// Networks with gates, hard swishes and ReLU6, from ONNX files, give what the reference gives,
/// with kernels that can be stopped and with those that can't.
pub(crate) fn gates_and_activations_agree<D: Operators>(device: &D, tolerance: f32) {
    for (name, bytes) in data::GATED {
        let model = Model::from_onnx(bytes, name).images_only().read().unwrap();
        let (image, params) = model.image().unwrap();
        let seed = Seeded(1);
        let want = reference::execute(image, params, &seed.input(model.input_len())).unwrap();
        for level in [PreemptLevel::HostQueue, PreemptLevel::All] {
            let have = logits(device, &model, seed, level);
            are_close(&have, &want, tolerance, &format!("{name}, {level:?}"));
        }
    }
}

/// Returns the output of `device` for a file whose input is `input`, and the output of the file's
/// nodes.
fn of_a_file<D: Operators>(device: &D, file: &[u8], input: &[f32]) -> [Vec<f32>; 2] {
    let model = Model::from_onnx(file, "made").images_only().read().unwrap();
    let network = model.load(device).unwrap();
    network.stage_input(input).unwrap();
    run_alone(device, &network.inference());
    [network.staged_output().unwrap(), onnx::execute_bytes(file, "made", input).unwrap()]
}

/// Each operator that bounds, compares or scales, over eight channels of 6 x 6, and the mean of
/// what it makes.
fn bounding_files() -> Vec<(&'static str, Vec<u8>)> {
    let clip = |name, low: f32, high: f32| {
        let bounds = [scalar("low", low), scalar("high", high)].concat();
        (name, [node("Clip", &["x", "low", "high"], "a", &[]), bounds].concat())
    };
    let plain = |op, attributes: &[Vec<u8>]| (op, node(op, &["x"], "a", attributes));
    let window = [ints("kernel_shape", &[3, 3]), ints("pads", &[1, 1, 1, 1])];
    let (norm, conv) = (["x", "b", "b", "b", "b"], ["x", "w", "b"]);
    let relu = node("Relu", &["z"], "a", &[]);
    let norm =
        [node("BatchNormalization", &norm, "z", &[]), ones("b", &[8]), relu.clone()].concat();
    let sums = node("Conv", &conv, "z", &[int("group", 8), ints("pads", &[1, 1, 1, 1])]);
    let weights = [ones("w", &[8, 1, 3, 3]), ones("b", &[8])].concat();
    let conv = [sums.as_slice(), &relu, &weights].concat();
    let gated =
        |x: &str| [node("Sigmoid", &[x], "g", &[]), node("Mul", &[x, "g"], "a", &[])].concat();
    let silu = [sums.as_slice(), &gated("z"), &weights].concat();
    vec![
        plain("Relu", &[]),
        plain("HardSwish", &[]),
        plain("Sigmoid", &[]),
        ("SiLU", gated("x")),
        ("SiLU of a convolution", silu),
        plain("HardSigmoid", &[float("alpha", 1.0 / 6.0)]),
        plain("MaxPool", &window),
        plain("AveragePool", &[ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])]),
        clip("Clip to 6", 0.0, 6.0),
        clip("Clip to a little", -0.5, 0.25),
        clip("Clip to 1e9", -1e9, 1e9),
        ("BatchNormalization", norm),
        ("Conv", conv),
    ]
}

/// NaN gives NaN, in those channels that hold it; the others give the output of the file's nodes.
pub(crate) fn what_is_no_number_stays_none<D: Operators>(device: &D, tolerance: f32) {
    let mut input: Vec<f32> = Seeded(5).input(8 * 36).iter().map(|x| x * 9.0).collect();
    input[3 * 36 + 7] = f32::NAN;
    input[5 * 36..6 * 36].fill(f32::NAN);
    let ends = [value(11, "x", &[1, 8, 6, 6]), value(12, "y", &[])].concat();
    for (name, nodes) in bounding_files() {
        let mean = node("GlobalAveragePool", &["a"], "y", &[]);
        let [have, want] = of_a_file(device, &file(17, &[nodes, mean, ends.clone()]), &input);
        let nans = |values: &[f32]| values.iter().map(|value| value.is_nan()).collect::<Vec<_>>();
        assert_eq!(nans(&want), (0..8).map(|c| c == 3 || c == 5).collect::<Vec<_>>(), "{name}");
        assert_eq!(nans(&have), nans(&want), "{name}: {have:?}");
        let numbers = |values: Vec<f32>| values.into_iter().filter(|v| !v.is_nan()).collect();
        let [have, want]: [Vec<f32>; 2] = [numbers(have), numbers(want)];
        are_close(&have, &want, tolerance, name);
    }
}

/// The mean of 512 x 512 values near 1000, of which each part must count.
pub(crate) fn means_of_large_images_are_exact<D: Operators>(device: &D, tolerance: f32) {
    let input: Vec<f32> = Seeded(6).input(4 << 18).iter().map(|x| 1000.0 + x).collect();
    let ends = [value(11, "x", &[1, 4, 512, 512]), value(12, "y", &[])].concat();
    let mean = node("GlobalAveragePool", &["x"], "y", &[]);
    let [have, want] = of_a_file(device, &file(17, &[mean, ends]), &input);
    are_close(&have, &want, tolerance, "means");
}

pub(crate) fn small_images_give_torchs_logits<D: Operators>(device: &D, tolerance: f32) {
    for (name, size) in [("resnet18", 64), ("resnet50", 64), ("densenet121", 64)] {
        agrees(device, tolerance, name, size);
    }
    agrees(device, tolerance, "inception_v3", 96);
}

pub(crate) fn full_images_give_torchs_logits<D: Operators>(device: &D, tolerance: f32) {
    for name in ["resnet18", "resnet50", "resnet152", "densenet121", "densenet201"] {
        agrees(device, tolerance, name, 224);
    }
    agrees(device, tolerance, "inception_v3", 299);
}

/// A network like the `mocked_kernel` of REEF: two kernels that every backend has.
pub(crate) fn the_toy_adds_then_multiplies<D: Operators>(device: &D) {
    let graph = ScheduleGraph::from_json(data::TOY, "toy").unwrap();
    let n = graph.storages[0].elements;
    let same = toy(device, &graph, &[vec![3.0; n], vec![3.0; n], vec![3.0; n]]);
    assert_eq!(same.iter().position(|&value| value != 18.0), None, "18 everywhere");

    let inputs = [1, 2, 3].map(|seed| Seeded(seed).input(n));
    let [a, b, c] = &inputs;
    // The second operand of each sum, and the first factor, count within the block of 128 threads.
    let temp: Vec<f32> = (0..n).map(|i| b[i % 128] + a[i]).collect();
    let want: Vec<f32> = (0..n).map(|i| temp[i % 128] * c[i]).collect();
    let have = toy(device, &graph, &inputs);
    assert_eq!(have.len(), n);
    assert_eq!((0..n).find(|&i| have[i] != want[i]), None, "as the formula says");
}

/// The output of `graph` when the storages given from outside hold `inputs`.
fn toy<D: Operators>(device: &D, graph: &ScheduleGraph, inputs: &[Vec<f32>; 3]) -> Vec<f32> {
    let buffers: Vec<_> = graph.storages.iter().map(|s| device.alloc(s.bytes()).unwrap()).collect();
    for (&storage, input) in graph.given.iter().zip(inputs) {
        let bytes: Vec<u8> = input.iter().flat_map(|value| value.to_ne_bytes()).collect();
        device.write(&buffers[storage], 0, &bytes).unwrap();
    }
    let launches = graph.steps.iter().map(|step| {
        let Work::Kernel(call) = &step.work else { panic!("{step:?}") };
        let args: Vec<u64> = call.args.iter().map(|&s| device.address(&buffers[s])).collect();
        let kernel = device.kernel(&step.name).unwrap();
        // SAFETY: `add` and `multiply` take these three storages, which hold a float for each
        // thread of the grid and outlive the run.
        Command::Launch(unsafe { Launch::new(kernel, call.grid, call.block, Args::new(&args)) })
    });
    run_alone(device, &launches.collect::<Vec<_>>());
    let output = graph.storage("output").unwrap();
    let mut bytes = vec![0; graph.storages[output].bytes()];
    device.read(&buffers[output], 0, &mut bytes).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_ne_bytes(word)).collect()
}
