//! A network that brings its kernels as source, compared with plain loops, and preempted at random.

use crate::are_close;
use crate::subject::{run_alone, submit};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reef::models::kinds::{Exchange, ProgramModel};
use reef::models::param::Params;
use reef::models::{Error, Model, Network, Seeded};
use reef::op::Operators;
use reef::program::Program;
use reef::{PreemptLevel, Seq, VirtualQueue, queue::Config};
use std::thread;
use std::time::{Duration, Instant};

/// No test waits longer for something to happen.
const LONG: Duration = Duration::from_secs(60);

const SCHEDULE: &str = include_str!("program/chain.json");
const CHAIN: &str = include_str!("program/chain.cu");
const ROWS: &str = include_str!("program/rows.cu");

/// As generators write them: barriers in loops, the three exchanges in a wave, a softmax in one
/// launch and one in four, numbers of 64 bits, two modules.
fn model(chain: &str) -> ProgramModel {
    let sources = [("chain.cu", chain), ("rows.cu", ROWS)];
    let sources = sources.map(|(name, text)| (name.to_owned(), text.to_owned()));
    ProgramModel::new("chain", SCHEDULE, &sources, Some(weights())).unwrap()
}

fn weights() -> Params {
    let tensor = |(k, scale): (u64, f32)| {
        let elements = [216, 8, 12800, 100][k as usize];
        let values = Seeded(k).input(elements).iter().map(|value| value * scale).collect();
        (format!("p{k}"), values)
    };
    Params { tensors: [(0, 0.4), (1, 0.2), (2, 1.0), (3, 0.5)].map(tensor).into() }
}

fn network<D: Operators>(device: &D) -> Option<Network<D>> {
    let model = model(CHAIN);
    assert_eq!(model.unguarded().next(), None);
    load(device, &model)
}

/// `None`, said aloud, where there is no run-time compiler.
fn load<D: Operators>(device: &D, model: &ProgramModel) -> Option<Network<D>> {
    // SAFETY: its kernels are those in the folder of this file, which stay inside of their
    // storages.
    let program = unsafe { Program::trusted(model.text()) };
    match Model::of_program(model.clone(), Seeded(1)).load_kernels(device, program) {
        Ok(weights) => Some(weights.network().unwrap()),
        Err(Error::Device(reef::Error::NotFound(why))) => {
            reef_conformance::skip(&why);
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// Runs the program's loops on the host.
fn plain_loops(data: &[f32]) -> Vec<f32> {
    let Params { tensors } = weights();
    let relu: Vec<f32> = (0..512)
        .map(|at| (conv(data, &tensors["p0"], at) + tensors["p1"][at / 64]).max(0.0))
        .collect();
    let pool = |at: usize| {
        let [channel, row, column] = [at / 16, at / 4 % 4, at % 4];
        let four = [0, 1, 8, 9].map(|by| relu[channel * 64 + row * 16 + column * 2 + by]);
        four.iter().sum::<f32>() / 4.0
    };
    let pooled: Vec<f32> = (0..128).map(pool).collect();
    let dense = |at: usize| {
        let row = &tensors["p2"][at * 128..][..128];
        row.iter().zip(&pooled).map(|(a, b)| a * b).sum::<f32>() + tensors["p3"][at]
    };
    let all = softmax(&(0..100).map(dense).collect::<Vec<_>>());
    let rows: Vec<f32> = all.chunks(10).flat_map(softmax).collect();
    assert!(rows.iter().any(|value| (value - 0.1).abs() > 0.01), "all alike: {rows:?}");
    rows
}

fn conv(data: &[f32], weight: &[f32], at: usize) -> f32 {
    let [channel, row, column] = [at / 64, at / 8 % 8, at % 8];
    let of = |k: usize| {
        let [plane, y, x] = [k / 9, row + k / 3 % 3, column + k % 3];
        let inside = (1..9).contains(&y) && (1..9).contains(&x);
        if inside { data[plane * 64 + (y - 1) * 8 + x - 1] * weight[channel * 27 + k] } else { 0.0 }
    };
    (0..27).map(of).sum()
}

fn softmax(values: &[f32]) -> Vec<f32> {
    let most = values.iter().copied().fold(f32::MIN, f32::max);
    let sum: f32 = values.iter().map(|value| (value - most).exp()).sum();
    values.iter().map(|value| (value - most).exp() / sum).collect()
}

/// On a queue of each level.
pub(crate) fn kernels_of_its_own_agree<D: Operators>(device: &D, levels: &[PreemptLevel]) {
    let Some(network) = network(device) else { return };
    agrees(device, &network, levels);
}

/// Some of its kernels can't be stopped midway: the proof doesn't understand a function next to
/// them.
pub(crate) fn kernels_of_its_own_agree_by_gates<D: Operators>(device: &D) {
    let unknown = format!("{CHAIN}\n__device__ int more() {{ return 1; }}\n");
    let model = model(&unknown);
    let why = model.unguarded().collect::<Vec<_>>();
    assert_eq!(why, [("chain.cu", "\"__device__\" stands outside of kernels")]);
    let Some(network) = load(device, &model) else { return };
    agrees(device, &network, &[PreemptLevel::HostQueue, PreemptLevel::DeviceQueue]);
}

/// As where a wave has fewer lanes than sources count on; and as published sources have it, which
/// is wrong.
pub(crate) fn exchanges_agree_by_barriers<D: Operators>(device: &D) {
    let barriers = model(CHAIN).with_exchange(Exchange::Barriers);
    let Some(network) = load(device, &barriers) else { return };
    agrees(device, &network, &[PreemptLevel::All]);
    let whole = load(device, &model(CHAIN).with_exchange(Exchange::Whole)).unwrap();
    let data = Seeded(7).input(192);
    whole.stage_input(&data).unwrap();
    run_alone(device, &whole.inference());
    let [have, want] = [whole.staged_output().unwrap(), plain_loops(&data)];
    assert!(have.iter().zip(want).any(|(a, b)| (a - b).abs() > 1e-3), "{have:?}");
}

fn agrees<D: Operators>(device: &D, network: &Network<D>, levels: &[PreemptLevel]) {
    let data = Seeded(7).input(192);
    for &level in levels {
        network.stage_input(&data).unwrap();
        let (mut submitter, queue) =
            VirtualQueue::enable(device, Config::default().level(level)).unwrap();
        submit(&mut submitter, &network.inference());
        queue.finish().unwrap();
        let have = network.staged_output().unwrap();
        are_close(&have, &plain_loops(&data), 1e-5, &format!("its own kernels, {level:?}"));
    }
}

/// For any time of preemption, the bits equal those of an undisturbed run. Goes on until this
/// number of launches ran again.
pub(crate) fn kernels_of_its_own_are_preempted<D: Operators>(
    device: &D,
    level: PreemptLevel,
    wanted: u64,
) {
    let Some(network) = network(device) else { return };
    network.stage_input(&Seeded(8).input(192)).unwrap();
    let begin = Instant::now();
    run_alone(device, &network.inference());
    let (mut took, want) = (begin.elapsed(), network.staged_output().unwrap());
    let (mut submitter, queue) =
        VirtualQueue::enable(device, Config::default().level(level)).unwrap();
    let (mut rng, begin, mut turn) = (ChaCha8Rng::seed_from_u64(3), Instant::now(), 0);
    while queue.rerun() < wanted {
        let again = queue.rerun();
        assert!(begin.elapsed() < LONG, "{again} launches ran again in {turn} preemptions");
        let submitted = Instant::now();
        submit(&mut submitter, &network.inference());
        let at = Instant::now() + took.mul_f64(rng.random());
        while Instant::now() < at {
            thread::yield_now(); // an inference may be shorter than the shortest sleep
        }
        queue.preempt(rng.random()).unwrap();
        queue.restore().unwrap();
        submitter.wait(Seq(submitter.submitted().0 - 1)).unwrap();
        took = took.min(submitted.elapsed()); // others may have had the processor before
        assert!(network.staged_output().unwrap() == want, "turn {turn} at {level:?}");
        turn += 1;
    }
    println!("{} launches ran again in {turn} preemptions at {level:?}", queue.rerun());
    queue.finish().unwrap();
}
