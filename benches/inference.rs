//! One inference after the other on the software device.
//! `cargo bench --bench inference -- [NETWORK [UNITS [ROUNDS]]]`
//!
//! NETWORK is a name or a file; without one it is ResNet-50. Prints how long inferences take, and
//! the processor time of all threads for one of them, which can be compared on a busy machine too.
//! `tools/next_to_onnxruntime.sh` runs it in turns with ONNX Runtime.

#![allow(missing_docs)]

use reef::cpu::Cpu;
use reef::models::Model;
use reef::scheduler::Reef;
use reef::{Device, Dispatcher, Task};
use std::fs;

fn main() {
    let (flags, args): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let quick = flags.iter().any(|flag| flag == "--quick" || flag == "--test");
    let name = args.first().map_or("resnet50", String::as_str);
    let options = args.get(1).map_or(String::new(), |units| format!("units={units}"));
    let rounds = args.get(2).map_or(30, |rounds| rounds.parse().expect("a number of rounds"));
    let rounds = if quick { 2 } else { rounds };
    let device = Cpu::open(0, &options).expect("the software device");
    let network = Model::open(name).load(&device).expect("a network, and memory for it");
    let dispatcher = Dispatcher::start(&device, Reef::default()).expect("a dispatcher");
    let mut client = dispatcher.real_time().expect("a client");
    let task = Task::new(network.inference()).expect("copies and launches");
    let mut run = || {
        let before = processor_ms();
        let total = client.run(&task).expect("no error").total.as_secs_f64() * 1e3;
        [total, processor_ms() - before]
    };
    for _ in 0..rounds / 6 + 1 {
        run();
    }
    let (mut times, mut spent): (Vec<f64>, Vec<f64>) =
        (0..rounds).map(|_| run()).map(|[time, spent]| (time, spent)).unzip();
    times.sort_by(f64::total_cmp);
    spent.sort_by(f64::total_cmp);
    let units = device.info().units;
    println!(
        "reef, {name}, {units} units: p50 {:.2} ms, best {:.2} ms; processors p50 {:.2} ms, least {:.2} ms of {rounds} rounds",
        times[rounds / 2],
        times[0],
        spent[rounds / 2],
        spent[0]
    );
}

/// Processor time of all threads of this process, in ms; none where the system has no figure.
fn processor_ms() -> f64 {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ran = threads.filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<f64>().ok()
    });
    ran.sum::<f64>() / 1e6
}
