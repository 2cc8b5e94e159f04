//! Two loops on the first device of each backend that is there: an inference of a real-time client,
//! and a queue that is stopped and restored. `cargo bench --bench devices`, with `--features cuda`
//! or `hip` for GPUs.

#![allow(missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use reef::models::{Model, Network};
use reef::op::Operators;
use reef::scheduler::Reef;
use reef::{Dispatcher, PreemptLevel, Task, VirtualQueue, queue::Config};

fn devices(c: &mut Criterion) {
    for (backend, found) in reef::devices() {
        match found.as_deref() {
            Ok([]) => println!("skipped: {backend}: no device"),
            Ok(_) => reef::with_device(backend, Loops(c)).expect("it was found"),
            Err(error) => println!("skipped: {error}"),
        }
    }
}

struct Loops<'c>(&'c mut Criterion);

impl reef::Visit for Loops<'_> {
    type Output = ();

    fn visit<D: Operators>(self, device: D) {
        let network = Model::open("resnet18").input_size(64).load(&device).expect("memory for it");
        inference(self.0, &device, &network);
        stop_and_go(self.0, &device, &network);
    }
}

fn inference<D: Operators>(c: &mut Criterion, device: &D, network: &Network<D>) {
    let dispatcher = Dispatcher::start(device, Reef::default()).expect("a dispatcher");
    let mut client = dispatcher.real_time().expect("a client");
    let task = Task::new(network.inference()).expect("copies and launches");
    c.bench_function(&format!("{}/real-time ResNet-18", D::NAME), |b| {
        b.iter(|| client.run(&task).expect("no error"));
    });
}

/// The queue never runs empty and is never full: more than one inference waits when a round begins,
/// and at most two do.
fn stop_and_go<D: Operators>(c: &mut Criterion, device: &D, network: &Network<D>) {
    let config = Config::default().level(PreemptLevel::All);
    let (mut submitter, queue) = VirtualQueue::enable(device, config).expect("a queue");
    let inference = network.inference();
    let least = inference.len() as u64;
    c.bench_function(&format!("{}/stop and restore a busy queue", D::NAME), |b| {
        b.iter(|| {
            while submitter.submitted().0 - submitter.completed().0 <= least {
                for command in inference.iter() {
                    submitter.submit_blocking(command.clone()).expect("room");
                }
            }
            queue.preempt(true).expect("it stops");
            queue.restore().expect("it goes on");
        });
    });
    queue.finish().expect("no error");
}

criterion_group!(benches, devices);
criterion_main!(benches);
