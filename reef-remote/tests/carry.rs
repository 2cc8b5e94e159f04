//! Sessions that move between servers while their programs run.

mod support;

use reef_core::scheduler::Reef;
use reef_core::{ClientConfig, Device, Dispatcher, PreemptLevel, Task};
use reef_models::{Model, Network};
use reef_remote::Remote;
use reef_remote::carry::{Report, Target};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::Served;

/// Numbers of the sessions of a server.
fn ids(served: &Served) -> Vec<u64> {
    served.sessions.list().iter().map(|session| session.id).collect()
}

fn to(served: &Served) -> Target {
    Target::new(served.address.parse().unwrap())
}

/// Moves the one session of a server.
fn migrate(from: &Served, to: &Target) -> Result<Report, String> {
    let id = ids(from)[0];
    from.sessions.carry(id)?.migrate(to)
}

fn start(device: &Remote) -> Dispatcher<Remote> {
    Dispatcher::start(device, Box::new(Reef::default().level(PreemptLevel::HostQueue))).unwrap()
}

fn network(device: &Remote, name: &str) -> Network<Remote> {
    let model = Model::open(name).input_size(32).read().unwrap();
    model.weights(device).unwrap().network().unwrap()
}

fn input(network: &Network<Remote>, round: usize) -> Vec<f32> {
    (0..network.input_len()).map(|at| ((at + round) % 13) as f32 / 4.0).collect()
}

/// Real-time tasks that a server has finished.
fn finished(served: &Served) -> u64 {
    served.host.get().map_or(0, |host| host.stats().rt_finished)
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn session_moves_while_its_clients_run() {
    const MOVES: usize = 20;
    let servers = [support::shared(), support::shared()];
    let device = Remote::open(0, &servers[0].device()).unwrap();
    let dispatcher = start(&device);
    let (short, long) = (network(&device, "resnet18"), network(&device, "mobilenet_v2"));
    let task = Task::new(short.graphs(usize::MAX).unwrap()).unwrap();
    let graph = long.graphs(8).unwrap();
    let mut client = dispatcher.real_time().unwrap();
    let mut background = dispatcher.best_effort(ClientConfig::default()).unwrap();
    let mut infer = |round: usize| {
        short.stage_input(&input(&short, round)).unwrap();
        client.run(&task).unwrap();
        short.staged_output().unwrap()
    };
    let mut work = |round: usize| {
        long.stage_input(&input(&long, round)).unwrap();
        background.run(&graph).unwrap();
        long.staged_output().unwrap()
    };
    // The outputs of the first rounds come before any move, and the thirteenth input is the first.
    let expected = [(0..13).map(&mut infer).collect::<Vec<_>>(), (0..13).map(&mut work).collect()];
    let is_over = AtomicBool::new(false);
    let runs = |run: &mut (dyn FnMut(usize) -> Vec<f32> + Send), expected: &[Vec<f32>]| {
        let mut rounds = 0_usize;
        while !is_over.load(Ordering::SeqCst) {
            assert_eq!(run(rounds), expected[rounds % 13], "round {rounds}");
            rounds += 1;
        }
        rounds as u64
    };
    let mut finished = [finished(&servers[0]), 0];
    let counts = std::thread::scope(|scope| {
        let real_time = scope.spawn(|| runs(&mut infer, &expected[0]));
        let best_effort = scope.spawn(|| runs(&mut work, &expected[1]));
        for at in 0..MOVES {
            std::thread::sleep(Duration::from_millis(7 * (at as u64 % 5)));
            let (from, next) = (&servers[at % 2], &servers[1 - at % 2]);
            let report = migrate(from, &to(next)).unwrap();
            println!("move {at}: {report:?}");
            assert!(report.memory > 40 << 20 && report.read < report.memory / 2, "{report:?}");
            assert_eq!(ids(next).len(), 1);
            let gone = crate::finished(from);
            until("the other server works", || crate::finished(next) > finished[1 - at % 2]);
            assert_eq!(crate::finished(from), gone, "nothing runs where the session was");
            finished = [0, 1].map(|end: usize| crate::finished(&servers[end]));
        }
        is_over.store(true, Ordering::SeqCst);
        [real_time.join().unwrap(), best_effort.join().unwrap()]
    });
    let all: u64 = servers.iter().map(crate::finished).sum();
    assert_eq!(all, 13 + counts[0], "each inference ran once");
    println!("rounds: {counts:?}");
    drop((dispatcher, task, graph, short, long));
}
