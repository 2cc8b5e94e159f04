//! Real networks on every backend: right, and the same bit for bit whatever disturbs them.

#[path = "networks/data.rs"]
mod data;
#[path = "../reef-models/tests/handmade/mod.rs"]
mod handmade;
#[cfg(any(feature = "hip", feature = "cuda"))]
#[path = "networks/program.rs"]
mod program;
#[cfg(feature = "hip")]
mod software;
#[path = "networks/subject.rs"]
mod subject;
#[path = "networks/tensors/mod.rs"]
mod tensors;

#[cfg(any(feature = "hip", feature = "cuda"))]
use program::*;

use handmade::{file, float, int, ints, node, ones, scalar, value};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reef::models::onnx::{self, Imported};
use reef::models::{
    Model, Network, ScheduleGraph, Seeded, Source, Weights, Work, build, measure, reference,
};
use reef::op::Operators;
use reef::scheduler::{self, Reef, Scheduler};
use reef::{
    Args, ClientConfig, Colocation, Command, Config, Device, Dispatcher, Launch, PreemptLevel, Seq,
    Stats, Submitter, Task, VirtualQueue,
};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use subject::{Subject, run_alone, submit};
use tensors::{
    attention_agrees, functions_agree, joined_attention_agrees, kinds_agree, layers_agree,
};

/// Opens the device, or says aloud why its tests are skipped.
fn open<D: Device>(ordinal: usize, options: &str) -> Option<D> {
    #[cfg(feature = "hip")]
    if D::NAME == "hip" {
        software::load();
    }
    reef_conformance::open(ordinal, options)
}

// --- Right -----------------------------------------------------------------------------------------

/// Runs the network of a golden file and compares its logits; `tolerance` is the largest difference from
/// torch, as a part of the largest logit.
fn agrees<D: Operators>(device: &D, tolerance: f32, name: &str, size: usize) {
    let golden: Value = serde_json::from_str(data::golden(name, size)).unwrap();
    let want = golden["logits"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32);
    let weights = Seeded(golden["seed"].as_u64().unwrap());

    let model = build(name, Some(size), 1).unwrap();
    let have = logits(device, &model, &weights, &weights, PreemptLevel::HostQueue);
    are_close(&have, &want.collect::<Vec<_>>(), tolerance, &format!("{name} at {size}"));
}

/// What a network gives for the picture of `seed`, on a queue that can be preempted like this.
fn logits<D: Operators>(
    device: &D,
    model: &Model,
    weights: &impl Source,
    seed: &Seeded,
    level: PreemptLevel,
) -> Vec<f32> {
    let packed = Weights::pack(device, model, weights).unwrap();
    let network = Network::new(device, model, &packed).unwrap();
    network.stage_input(&seed.input(network.input_len())).unwrap();
    let config = Config::default().level(level);
    let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
    submit(&mut submitter, &network.inference());
    queue.finish().unwrap();
    network.staged_output().unwrap()
}

#[track_caller]
fn are_close(have: &[f32], want: &[f32], tolerance: f32, what: &str) {
    assert_eq!(have.len(), want.len());
    let largest = want.iter().fold(0f32, |max, logit| max.max(logit.abs()));
    let worst = have.iter().zip(want).fold(0f32, |max, (a, b)| max.max((a - b).abs()));
    println!("{what}: off by {:.1e} of the largest logit", worst / largest);
    assert!(worst <= tolerance * largest, "{what}: off by {worst} of {largest}");
}

/// Networks with gates, hard swishes and ReLU6, from ONNX files, give what the reference gives, with
/// kernels that can be stopped and with those that can't.
fn gates_and_activations_agree<D: Operators>(device: &D, tolerance: f32) {
    for (name, bytes) in data::GATED {
        let imported = onnx::from_bytes(bytes, name, &onnx::Options::default());
        let Imported { model, params } = imported.unwrap();
        let seed = Seeded(1);
        let input = seed.input(model.input().elements());
        let want = reference::execute(&model, &params, &input).unwrap();
        for level in [PreemptLevel::HostQueue, PreemptLevel::All] {
            let have = logits(device, &model, &params, &seed, level);
            are_close(&have, &want, tolerance, &format!("{name}, {level:?}"));
        }
    }
}

/// What `device` gives for a file whose input is `input`, and what the file's nodes give.
fn of_a_file<D: Operators>(device: &D, file: &[u8], input: &[f32]) -> [Vec<f32>; 2] {
    let options = onnx::Options::default();
    let Imported { model, params } = onnx::from_bytes(file, "made", &options).unwrap();
    let packed = Weights::pack(device, &model, &params).unwrap();
    let network = Network::new(device, &model, &packed).unwrap();
    network.stage_input(input).unwrap();
    run_alone(device, &network.inference());
    [network.staged_output().unwrap(), onnx::execute_bytes(file, "made", &options, input).unwrap()]
}

/// Each operator that bounds, compares or scales, over eight channels of 6 x 6, and the mean of what it makes.
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

/// What is no number gives none, in those channels that hold it; the others give what the file's nodes give.
fn what_is_no_number_stays_none<D: Operators>(device: &D, tolerance: f32) {
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
fn means_of_large_pictures_are_exact<D: Operators>(device: &D, tolerance: f32) {
    let input: Vec<f32> = Seeded(6).input(4 << 18).iter().map(|x| 1000.0 + x).collect();
    let ends = [value(11, "x", &[1, 4, 512, 512]), value(12, "y", &[])].concat();
    let mean = node("GlobalAveragePool", &["x"], "y", &[]);
    let [have, want] = of_a_file(device, &file(17, &[mean, ends]), &input);
    are_close(&have, &want, tolerance, "means");
}

fn small_pictures_give_torchs_logits<D: Operators>(device: &D, tolerance: f32) {
    for (name, size) in [("resnet18", 64), ("resnet50", 64), ("densenet121", 64)] {
        agrees(device, tolerance, name, size);
    }
    agrees(device, tolerance, "inception_v3", 96);
}

fn full_pictures_give_torchs_logits<D: Operators>(device: &D, tolerance: f32) {
    for name in ["resnet18", "resnet50", "resnet152", "densenet121", "densenet201"] {
        agrees(device, tolerance, name, 224);
    }
    agrees(device, tolerance, "inception_v3", 299);
}

/// A network like the `mocked_kernel` of REEF: two kernels that every backend has.
fn the_toy_adds_then_multiplies<D: Operators>(device: &D) {
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
        // SAFETY: `add` and `multiply` take these three storages, which hold a float for each thread
        // of the grid and outlive the run.
        Command::Launch(unsafe { Launch::new(kernel, call.grid, call.block, Args::new(&args)) })
    });
    run_alone(device, &launches.collect::<Vec<_>>());
    let output = graph.storage("output").unwrap();
    let mut bytes = vec![0; graph.storages[output].bytes()];
    device.read(&buffers[output], 0, &mut bytes).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_ne_bytes(word)).collect()
}

// --- The same, whatever is preempted when ------------------------------------------------------------

/// REEF's own test of a network: an inference that is preempted at its `k`th launch and restored
/// gives what an undisturbed one gives, for each `k`.
struct Replay<D: Operators> {
    subject: Subject<D>,
    /// How long each launch takes alone.
    times: Vec<Duration>,
    submitter: Submitter<D>,
    queue: VirtualQueue<D>,
    rng: ChaCha8Rng,
}

impl<D: Operators> Replay<D> {
    fn new(device: &D, name: &str, size: usize) -> Self {
        let subject = Subject::load(device, name, size);
        let latencies = measure(device, &subject.network).unwrap();
        let micros = |name: &str| latencies.kernels[name].micros.into();
        let names = subject.network.step_names().iter();
        let times = names.map(|name| Duration::from_micros(micros(&name.launch))).collect();
        let config = Config::default().level(PreemptLevel::All);
        let (submitter, queue) = VirtualQueue::enable(device, config).unwrap();
        Self { subject, times, submitter, queue, rng: ChaCha8Rng::seed_from_u64(size as u64) }
    }

    /// Preempts launch `k` somewhere in its course, with up to three launches behind it.
    fn at(&mut self, k: usize) {
        let commands = self.subject.stage(k);
        let begin = self.submitter.submitted().0;
        let first = self.subject.first_launch();
        let ahead = (first + k + 1 + self.rng.random_range(0..4)).min(commands.len());
        submit(&mut self.submitter, &commands[..ahead]);
        while self.submitter.completed() < Seq(begin + (first + k) as u64) {
            thread::yield_now(); // until all launches before the `k`th have finished
        }
        let moment = Instant::now() + self.times[k].mul_f64(self.rng.random_range(0.0..1.2));
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        self.queue.preempt(self.rng.random()).unwrap();
        self.queue.restore().unwrap();
        submit(&mut self.submitter, &commands[ahead..]);
        self.submitter.wait(Seq(begin + commands.len() as u64 - 1)).unwrap();
        self.subject.check(k, &format!("preempted at launch {k}"));
    }
}

/// How long a test goes on until what it is about has happened often enough.
const LONG: Duration = Duration::from_secs(60);

fn replay<D: Operators>(device: &D, name: &str, size: usize, every: usize) {
    let mut replay = Replay::new(device, name, size);
    let launches = replay.times.len();
    let wanted = launches.div_ceil(every) as u64 / 10 + 1;
    let (mut preempted, begin) = (0, Instant::now());
    // When a preemption meets running work is the machine's affair: go on until enough have.
    while preempted == 0 || (replay.queue.rerun() < wanted && begin.elapsed() < LONG) {
        preempted += (0..launches).step_by(every).inspect(|&k| replay.at(k)).count();
    }
    let rerun = replay.queue.rerun();
    println!("{name}@{size}: {preempted} preemptions, {rerun} launches ran again");
    assert!(rerun >= wanted, "{rerun} of {preempted} preemptions met running work");
}

/// What the tests below rely on.
fn a_lost_launch_is_found<D: Operators>(device: &D) {
    let subject = Subject::load(device, "resnet18", 64);
    for k in 0..subject.network.launches().count() {
        run_alone(device, &subject.stage(k + 1)); // what is in memory before
        let mut commands = subject.stage(k).to_vec();
        commands.remove(subject.first_launch() + k);
        run_alone(device, &commands);
        assert!(!subject.is_undisturbed(k), "launch {k}");
    }
}

fn networks_can_be_preempted_at_every_launch<D: Operators>(device: &D) {
    replay(device, "resnet18", 64, 1);
    replay(device, "densenet121", 64, 1);
    replay(device, "resnet152", 64, 7);
}

/// A network in graphs is the same as launch by launch, and can be preempted anywhere.
#[cfg(feature = "cuda")]
fn graphs_give_what_launches_give<D: Operators>(device: &D) {
    let subject = Subject::load(device, "resnet18", 64);
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for most in [2, 16, usize::MAX] {
        let config = Config::default().level(PreemptLevel::All);
        let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
        let graphs = subject.network.graphs(most).unwrap();
        assert!(graphs.iter().all(|command| matches!(command, Command::Graph(_))));
        for turn in 0..20 {
            subject.stage(turn);
            submit(&mut submitter, &graphs);
            thread::sleep(Duration::from_micros(rng.random_range(0..300)));
            queue.preempt(rng.random()).unwrap();
            queue.restore().unwrap();
            submitter.wait(Seq(submitter.submitted().0 - 1)).unwrap();
            subject.check(turn, &format!("graphs of {most}"));
        }
        assert!(queue.rerun() > 0, "no preemption met a graph of {most}");
    }
}

/// Launches of a graph that nobody stops start while the one before runs, and leave every bit as one at a time does.
#[cfg(feature = "cuda")]
fn graphs_that_start_early_give_what_launches_give<D: Operators>(device: &D) {
    let networks = [
        ("resnet18", 64),
        ("resnet50", 224),
        ("densenet121", 96),
        ("inception_v3", 128),
        ("mobilenet_v3_large", 96),
    ];
    for (name, size) in networks {
        let subject = Subject::load(device, name, size);
        let config = Config::default().level(PreemptLevel::HostQueue);
        let (mut submitter, _queue) = VirtualQueue::enable(device, config).unwrap();
        let graphs = subject.network.graphs(usize::MAX).unwrap();
        for turn in 0..100 {
            subject.stage(turn);
            submit(&mut submitter, &graphs);
            submitter.wait(Seq(submitter.submitted().0 - 1)).unwrap();
            subject.check(turn, "in a graph");
        }
    }
}

// --- The same, beside others -------------------------------------------------------------------------

/// Runs `rt` `turns` times beside `be`, whose clients each run at least twice, and checks all of them.
fn beside<D: Operators>(
    device: &D,
    scheduler: Box<dyn Scheduler>,
    rt: &Subject<D>,
    be: &[Subject<D>],
    turns: usize,
) -> Stats {
    beside_tasks(device, scheduler, rt, be, turns, 1)
}

/// The same with tasks of `times` inferences each.
fn beside_tasks<D: Operators>(
    device: &D,
    scheduler: Box<dyn Scheduler>,
    rt: &Subject<D>,
    be: &[Subject<D>],
    turns: usize,
    times: usize,
) -> Stats {
    let name = scheduler.name();
    let dispatcher = Dispatcher::start(device, scheduler).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for subject in be {
            scope.spawn(|| {
                let mut client = dispatcher.best_effort(ClientConfig::default()).unwrap();
                let mut turn = 0;
                while turn < 2 || !stop.load(Ordering::Acquire) {
                    client.run(&subject.stage(turn)).unwrap();
                    subject.check(turn, name);
                    turn += 1;
                }
            });
        }
        let mut client = dispatcher.real_time().unwrap();
        for turn in 0..turns {
            thread::sleep(Duration::from_millis(2));
            let inference = rt.stage(turn);
            let commands = std::iter::repeat_n(&*inference, times).flatten().cloned();
            client.run(&Task::new(commands.collect::<Vec<_>>()).unwrap()).unwrap();
            rt.check(turn, name);
        }
        stop.store(true, Ordering::Release);
    });
    let stats = dispatcher.stats();
    assert_eq!(stats.rt_finished, turns as u64, "{name}");
    println!("{name}: {stats:?}");
    stats
}

fn every_scheduler_leaves_every_network_as_it_is<D: Operators>(device: &D) {
    let rt = Subject::load(device, "resnet18", 64).measured();
    let be = [("densenet121", 64), ("resnet50", 64)];
    let be = be.map(|(name, size)| Subject::load(device, name, size).measured());
    for name in scheduler::NAMES.into_iter().filter(|&name| name != "rt-only") {
        beside(device, scheduler::by_name(name).unwrap(), &rt, &be, 20);
    }
}

/// On many units the launches of a small network leave some free, and REEF fills them.
fn padding_changes_no_network<D: Operators>(device: &D, rt: &str, size: usize) {
    let rt = Subject::load(device, rt, size).measured();
    let be = [Subject::load(device, "densenet121", 64).measured()];
    assert_eq!(device.colocation(), Colocation::Padded);
    // When a client has stopped in time for a launch to be padded is the machine's affair.
    let mut stats = (0..10).map(|_| beside(device, Box::new(Reef::default()), &rt, &be, 20));
    assert!(stats.any(|stats| stats.padded_launches > 0), "nothing was padded");
}

/// Where whole queues run narrow beside real-time work that takes long: a task of so many inferences does.
#[cfg(feature = "cuda")]
fn narrow_queues_change_no_network<D: Operators>(device: &D) {
    /// Longer than work is stopped before it runs narrow, by far.
    const TASK: Duration = Duration::from_millis(60);
    let rt = Subject::load(device, "resnet18", 64);
    let once = (0..3).map(|_| time_alone(device, &rt.stage(0))).min().expect("three");
    let times = TASK.div_duration_f64(once).ceil() as usize;
    let be = [Subject::load(device, "densenet121", 64)];
    let stats = beside_tasks(device, Box::new(Reef::default()), &rt, &be, 20, times);
    assert!(matches!(device.colocation(), Colocation::Capped(_)));
    assert!(stats.padded_launches > 0, "{stats:?}");
}

/// How long commands take on a queue of their own, from the first submission.
#[cfg(feature = "cuda")]
fn time_alone<D: Operators>(device: &D, commands: &[Command<D>]) -> Duration {
    let start = Instant::now();
    run_alone(device, commands);
    start.elapsed()
}

/// Each on a device of its own, opened with an ordinal.
fn two_devices_work_at_the_same_time<D: Operators>(ordinals: [usize; 2], options: &str) {
    thread::scope(|scope| {
        for ordinal in ordinals {
            scope.spawn(move || {
                let Some(device) = open::<D>(ordinal, options) else { return };
                let rt = Subject::load(&device, "resnet18", 64);
                let be = [Subject::load(&device, "resnet50", 64)];
                let run = |_| beside(&device, Box::new(Reef::default()), &rt, &be, 20);
                let mut stats = (0..10).map(run); // best-effort work may be late
                assert!(stats.any(|stats| stats.preemptions > 0), "nothing was preempted");
            });
        }
    });
}

// --- On each backend -----------------------------------------------------------------------------------

/// A test for each line; the device is opened with the options in front.
macro_rules! on {
    ($device:ty: $($name:ident($options:literal $(, $more:expr)*);)+) => {
        $(#[test]
        fn $name() {
            let Some(device) = crate::open::<$device>(0, $options) else { return };
            crate::$name(&device $(, $more)*);
        })+
    };
}

mod cpu {
    use reef::cpu::Cpu;

    on! {
        Cpu:
        small_pictures_give_torchs_logits("", 1e-3);
        full_pictures_give_torchs_logits("", 1e-3);
        gates_and_activations_agree("", 1e-5);
        what_is_no_number_stays_none("", 1e-6);
        means_of_large_pictures_are_exact("", 2e-6);
        functions_agree("units=2", 3e-7); // two and a half units in the last place
        kinds_agree("units=2", 2);
        joined_attention_agrees("units=2", 1e-4, [12, 12]);
        attention_agrees("units=2", 1e-5);
        layers_agree("units=2", 1e-6);
        the_toy_adds_then_multiplies("units=2");
        a_lost_launch_is_found("units=2");
        networks_can_be_preempted_at_every_launch("units=2");
        every_scheduler_leaves_every_network_as_it_is("");
        padding_changes_no_network("units=8&pin=0", "resnet18", 64);
    }

    #[test]
    fn two_devices_work_at_the_same_time() {
        super::two_devices_work_at_the_same_time::<Cpu>([0, 1], "units=1");
    }
}

/// Where there is no AMD device, on AMD's runtime and a software one, which takes seconds for what a chip
/// does in a millisecond.
#[cfg(feature = "hip")]
mod hip {
    use reef::PreemptLevel;
    use reef::hip::Hip;

    on! {
        Hip:
        agrees("", 1e-5, "resnet18", 64);
        gates_and_activations_agree("", 1e-5);
        what_is_no_number_stays_none("", 1e-6);
        means_of_large_pictures_are_exact("", 2e-6);
        functions_agree("", 1.3e-7);
        kinds_agree("", 2);
        joined_attention_agrees("", 0.0, [0, 2]);
        attention_agrees("", 1e-5);
        layers_agree("", 1e-6);
        the_toy_adds_then_multiplies("");
        replay("", "resnet18", 64, 7);
        kernels_of_its_own_agree("", &[PreemptLevel::HostQueue, PreemptLevel::DeviceQueue, PreemptLevel::All]);
        kernels_of_its_own_are_preempted("", PreemptLevel::All, 4);
        kernels_of_its_own_agree_by_gates("gates=2");
        exchanges_agree_by_barriers("");
    }

    /// 16-bit values.
    mod fp16 {
        use super::Hip;

        on! {
            Hip:
            gates_and_activations_agree("precision=fp16", 1e-2);
            what_is_no_number_stays_none("precision=fp16", 2e-3);
            means_of_large_pictures_are_exact("precision=fp16", 1e-3);
        }
    }
}

/// Networks are computed with 10 bits of mantissa unless the options say otherwise.
#[cfg(feature = "cuda")]
mod cuda {
    use reef::PreemptLevel;
    use reef::cuda::Cuda;

    on! {
        Cuda:
        small_pictures_give_torchs_logits("", 1e-2);
        full_pictures_give_torchs_logits("", 1e-2);
        gates_and_activations_agree("", 1e-2);
        what_is_no_number_stays_none("", 1e-5);
        means_of_large_pictures_are_exact("", 2e-6);
        functions_agree("", 1.3e-7);
        kinds_agree("", 100);
        layers_agree("", 2e-3);
        joined_attention_agrees("", 2e-2, [16, 24]);
        the_toy_adds_then_multiplies("");
        a_lost_launch_is_found("");
        networks_can_be_preempted_at_every_launch("");
        graphs_give_what_launches_give("");
        graphs_that_start_early_give_what_launches_give("");
        every_scheduler_leaves_every_network_as_it_is("");
        narrow_queues_change_no_network("");
        kernels_of_its_own_agree("", &[PreemptLevel::HostQueue, PreemptLevel::DeviceQueue, PreemptLevel::All]);
        kernels_of_its_own_are_preempted("", PreemptLevel::All, 50);
        kernels_of_its_own_agree_by_gates("gates=2");
        exchanges_agree_by_barriers("");
    }

    /// 16-bit values.
    mod fp16 {
        use super::Cuda;

        on! {
            Cuda:
            small_pictures_give_torchs_logits("precision=fp16", 1e-2);
            full_pictures_give_torchs_logits("precision=fp16", 1e-2);
            gates_and_activations_agree("precision=fp16", 1e-2);
            what_is_no_number_stays_none("precision=fp16", 2e-3);
            means_of_large_pictures_are_exact("precision=fp16", 1e-3);
            networks_can_be_preempted_at_every_launch("precision=fp16");
            graphs_that_start_early_give_what_launches_give("precision=fp16");
            kinds_agree("precision=fp16", 100);
            layers_agree("precision=fp16", 2e-3);
        }
    }

    /// All bits.
    mod fp32 {
        use super::Cuda;

        on! {
            Cuda:
            small_pictures_give_torchs_logits("precision=fp32", 1e-4);
            full_pictures_give_torchs_logits("precision=fp32", 1e-4);
            gates_and_activations_agree("precision=fp32", 1e-4);
            kinds_agree("precision=fp32", 100);
            attention_agrees("precision=fp32", 1e-5);
            layers_agree("precision=fp32", 1e-6);
        }
    }

    /// The same one, opened twice.
    #[test]
    fn two_devices_work_at_the_same_time() {
        super::two_devices_work_at_the_same_time::<Cuda>([0, 0], "");
    }
}
