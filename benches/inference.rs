//! ResNet-50, one picture at a time, on the software device. `cargo bench --bench inference`
//!
//! `tools/beside_onnxruntime.sh` runs it in turns with ONNX Runtime.

#![allow(missing_docs)]

use reef::cpu::Cpu;
use reef::models::{Network, Seeded, Weights, build};
use reef::scheduler::Reef;
use reef::{Device, Dispatcher, Task};

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick" || arg == "--test");
    let rounds = if quick { 2 } else { 30 };
    let device = Cpu::open(0, "").expect("the software device");
    let model = build("resnet50", None, 1).expect("a name that is known");
    let weights = Weights::pack(&device, &model, &Seeded(1)).expect("memory");
    let network = Network::new(&device, &model, &weights).expect("memory");
    let dispatcher = Dispatcher::start(&device, Box::new(Reef::default())).expect("a dispatcher");
    let mut client = dispatcher.real_time().expect("a client");
    let task = Task::new(network.inference()).expect("copies and launches");
    let mut run = || client.run(&task).expect("no error").total.as_secs_f64() * 1e3;
    for _ in 0..rounds / 6 + 1 {
        run();
    }
    let mut times: Vec<f64> = (0..rounds).map(|_| run()).collect();
    times.sort_by(f64::total_cmp);
    let units = device.info().units;
    let (p50, best) = (times[rounds / 2], times[0]);
    println!(
        "reef, ResNet-50, {units} units: p50 {p50:.2} ms, best {best:.2} ms of {rounds} rounds"
    );
}
