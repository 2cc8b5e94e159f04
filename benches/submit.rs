//! Costs of submitting and deciding. `cargo bench --bench submit`
//!
//! Wanted on 2 cores: submit ≤ 50 ns, decision ≤ 1 µs at 32 queues.

#![allow(missing_docs)]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use reef::dkp::{Profile, Resources, plan};
use reef::scheduler::{self, Plan, QueueView, RtTaskView, TaskView, View};
use reef::{Command, Device, Seq, VirtualQueue, queue::Config};
use reef_conformance::Null;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Commands submitted in one go, to a queue that is preempted and so launches none of them.
const BURST: u64 = 512;

fn submit(c: &mut Criterion) {
    let device = Null::open(0, "").unwrap();
    let (mut submitter, queue) = VirtualQueue::enable(&device, Config::default()).unwrap();
    let launch = Null::launch();
    c.bench_function("submit", |b| {
        b.iter_custom(|bursts| {
            let mut time = Duration::ZERO;
            for _ in 0..bursts {
                queue.preempt(true).unwrap();
                let start = Instant::now();
                for _ in 0..BURST {
                    let _ = black_box(submitter.submit(Command::Launch(launch.clone())));
                }
                time += start.elapsed() / BURST as u32;
                queue.restore().unwrap();
                submitter.wait(Seq(submitter.submitted().0 - 1)).unwrap();
            }
            time
        });
    });
}

fn decide(c: &mut Criterion) {
    let queues: Vec<QueueView> = (0..32).map(queue).collect();
    for name in scheduler::NAMES {
        let mut scheduler = scheduler::by_name(name).unwrap();
        let mut plan = Plan::default();
        let mut now = Duration::ZERO;
        c.bench_function(&format!("decide/32 queues/{name}"), |b| {
            b.iter(|| {
                now += Duration::from_micros(10);
                let waiting = [RtTaskView::new(now)];
                let view = View::new(&waiting, 0, black_box(&queues));
                plan.open(&view);
                scheduler.decide(now, &view, &mut plan);
                black_box(&plan);
            });
        });
    }
}

fn queue(id: u64) -> QueueView {
    let mut queue = QueueView::new(id, Seq(id), Seq(100));
    queue.task = Some(TaskView::new(Duration::from_micros(id), Seq(100)));
    queue.weight = 1 + id as u32 % 3;
    queue.priority = id as i32 % 4;
    queue.served = Duration::from_micros(100 * id);
    queue
}

fn pad(c: &mut Criterion) {
    let device = Null::open(0, "").unwrap();
    let mut info = device.info();
    (info.units, info.blocks_per_unit, info.threads_per_unit) = (60, 40, 2048);
    let profile = |blocks, micros, round_micros: &[u32]| Profile {
        blocks,
        micros,
        resources: Resources { threads: 64, ..Resources::default() },
        round_micros: round_micros.to_vec(),
    };
    let (rt, be) = (profile(64, 88, &[]), profile(32, 40, &[36, 48, 58, 72, 86]));
    c.bench_function("pad/plan", |b| {
        b.iter_batched(
            || 32,
            |remaining| plan(black_box(&rt), black_box(&be), remaining, &info),
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(benches, submit, decide, pad);
criterion_main!(benches);
