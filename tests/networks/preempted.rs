//! Networks give the same, whatever is preempted when.

use crate::subject::{Subject, run_alone, submit};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
#[cfg(feature = "cuda")]
use reef::Command;
use reef::models::measure;
use reef::op::Operators;
use reef::{PreemptLevel, Seq, Submitter, VirtualQueue, queue::Config};
use std::thread;
use std::time::{Duration, Instant};

/// REEF's own test of a network: an inference that is preempted at its `k`th launch and restored
/// gives what an undisturbed one gives, for each `k`.
struct Replay<D: Operators> {
    subject: Subject<D>,
    /// Time of each launch alone.
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

/// Time that a test goes on until its event has happened often enough.
const LONG: Duration = Duration::from_secs(300);

pub(crate) fn replay<D: Operators>(device: &D, name: &str, size: usize, every: usize) {
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

/// Preconditions of the tests below.
pub(crate) fn a_lost_launch_is_found<D: Operators>(device: &D) {
    let subject = Subject::load(device, "resnet18", 64);
    for k in 0..subject.network.launches().count() {
        run_alone(device, &subject.stage(k + 1)); // what is in memory before
        let mut commands = subject.stage(k).to_vec();
        commands.remove(subject.first_launch() + k);
        run_alone(device, &commands);
        assert!(!subject.is_undisturbed(k), "launch {k}");
    }
}

pub(crate) fn networks_can_be_preempted_at_every_launch<D: Operators>(device: &D) {
    replay(device, "resnet18", 64, 1);
    replay(device, "densenet121", 64, 1);
    replay(device, "resnet152", 64, 7);
}

/// A launch of several convolutions, as Inception's branches share, is stopped like any other.
#[cfg(feature = "cuda")]
pub(crate) fn branches_can_be_preempted_at_every_launch<D: Operators>(device: &D) {
    let network = Subject::load(device, "inception_v3", 96).network;
    let shared = network.step_names().iter().filter(|name| name.step.contains('+')).count();
    println!("{shared} launches of several convolutions"); // none without tensor cores
    replay(device, "inception_v3", 96, 1);
}

/// A network in graphs is the same as launch by launch, and can be preempted anywhere.
#[cfg(feature = "cuda")]
pub(crate) fn graphs_give_what_launches_give<D: Operators>(device: &D) {
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
            // sleep: any length is right
            thread::sleep(Duration::from_micros(rng.random_range(0..300)));
            queue.preempt(rng.random()).unwrap();
            queue.restore().unwrap();
            submitter.wait(Seq(submitter.submitted().0 - 1)).unwrap();
            subject.check(turn, &format!("graphs of {most}"));
        }
        assert!(queue.rerun() > 0, "no preemption met a graph of {most}");
    }
}

/// Launches of a graph that is never stopped start while the one before runs, and leave every bit
/// as one at a time does.
#[cfg(feature = "cuda")]
pub(crate) fn graphs_that_start_early_give_what_launches_give<D: Operators>(device: &D) {
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
