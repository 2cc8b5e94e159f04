//! Networks on a remote device: outputs, and preemption between sessions.

use crate::support;
use reef_core::scheduler::Reef;
use reef_core::{ClientConfig, Device, Dispatcher, Error, PreemptLevel, Task};
use reef_cpu::Cpu;
use reef_models::Model;
use reef_remote::Remote;
use std::time::{Duration, Instant};

/// Output of a network for an image of its own.
fn outputs<D: reef_op::Operators>(device: &D, name: &str) -> Vec<u32> {
    let weights = Model::open(name).input_size(32).read().unwrap().weights(device).unwrap();
    let network = weights.network().unwrap();
    let input: Vec<f32> =
        (0..network.input_len()).map(|i| ((i * 37) % 101) as f32 / 50.0).collect();
    network.stage_input(&input).unwrap();
    let dispatcher =
        Dispatcher::start(device, Reef::default().level(PreemptLevel::HostQueue)).unwrap();
    let task = Task::new(network.inference()).unwrap();
    dispatcher.real_time().unwrap().run(&task).unwrap();
    network.staged_output().unwrap().iter().map(|value| value.to_bits()).collect()
}

#[test]
fn remote_network_gives_the_bits_of_a_local_one() {
    let served = support::shared();
    let (remote, local) =
        (Remote::open(0, &served.device()).unwrap(), Cpu::open(0, "units=2").unwrap());
    for name in ["resnet18", "mobilenet_v2"] {
        assert_eq!(outputs(&remote, name), outputs(&local, name), "{name}");
    }
}

/// Best-effort work of one session, and real-time work of another: the server's dispatcher
/// preempts.
#[test]
fn real_time_work_preempts_work_of_another_session() {
    let served = support::shared();
    let open = || Remote::open(0, &served.device()).unwrap();
    let (first, second) = (open(), open());
    let network = |device: &Remote, name: &str, size| {
        let model = Model::open(name).input_size(size).read().unwrap();
        model.weights(device).unwrap().network().unwrap()
    };
    let (long, short) = (network(&first, "resnet18", 64), network(&second, "resnet18", 32));
    let start =
        |device| Dispatcher::start(device, Reef::default().level(PreemptLevel::HostQueue)).unwrap();
    let (best_effort, real_time) = (start(&first), start(&second));
    let mut background = best_effort.best_effort(ClientConfig::default()).unwrap();
    let graph = long.graphs(8).unwrap();
    let task = Task::new(short.graphs(usize::MAX).unwrap()).unwrap();
    let mut client = real_time.real_time().unwrap();
    // Best-effort work may end while this thread stands still: then it is tried again.
    let is_overtaken = |_: u32| {
        let mut last = background.submit(&graph).unwrap();
        for _ in 0..15 {
            last = background.submit(&graph).unwrap();
        }
        for _ in 0..3 {
            client.run(&task).unwrap();
        }
        let begin = Instant::now();
        client.run(&task).unwrap();
        println!("a real-time task of {:?}", begin.elapsed());
        let is_waiting = background.wait_timeout(last, Duration::ZERO).is_none();
        background.wait(last).unwrap();
        is_waiting
    };
    assert!((0..10).any(is_overtaken), "real-time tasks waited for best-effort work");
    let stats = served.host.get().unwrap().stats();
    assert!(stats.preemptions > 0 && stats.rt_finished >= 4, "{stats:?}");
}

#[test]
fn missing_servers_devices_and_kernels_are_errors() {
    let served = support::shared();
    let error = |text: &str| Remote::open(0, text).map(|_| ()).unwrap_err();
    for (text, part) in [
        ("unix:/nowhere/reef.sock/cpu:0".into(), "/nowhere/reef.sock"),
        (format!("{}/cuda:0", served.address), "no device \"cuda:0\""),
        (format!("{}/cpu:99", served.address), "cpu:99"),
    ] {
        let error = error(&text);
        assert!(matches!(error, Error::NotFound(_)), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let device = Remote::open(0, &served.device()).unwrap();
    let error = device.kernel("append").unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "raw launches are not for shared devices");
}

/// Memory is written, read and checked; a client that leaves takes its session along.
#[test]
fn client_that_leaves_frees_its_session() {
    let served = support::shared();
    let device = Remote::open(0, &served.device()).unwrap();
    let buffer = device.alloc(64).unwrap();
    device.write(&buffer, 0, &[1; 64]).unwrap();
    assert!(matches!(device.read(&buffer, 60, &mut [0; 8]), Err(Error::Invalid(_))));
    let mut bytes = [0; 64];
    device.read(&buffer, 0, &mut bytes).unwrap();
    assert_eq!((bytes, served.server.len()), ([1; 64], 1));
    drop((device, buffer));
    let begin = Instant::now();
    while !served.server.is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the session is freed");
        std::thread::yield_now();
    }
}
