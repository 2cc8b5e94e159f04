//! Queues whose blocks don't stop when they are told to.

use super::{LONG, finish, launch, reporting};
use crate::{Cpu, Kernel, Outcome, Queue};
use reef_core::dkp::Padding;
use reef_core::{
    Checkpoint as _, Device, Launch, PreemptLevel, Preemptor, Priority, Queue as _, Seq,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// A kernel whose blocks stop for nothing, and end when they are told to.
#[derive(Clone, Default)]
struct Deaf {
    begun: Arc<AtomicU32>,
    /// A bit for each block that has begun: units choose blocks in no fixed order.
    blocks: Arc<AtomicU32>,
    /// A bit for each block that may end.
    ends: Arc<AtomicU32>,
}

impl Deaf {
    fn launch(&self, blocks: u32) -> Launch<Cpu> {
        let (begun, indexes) = (self.begun.clone(), self.blocks.clone());
        let ends = self.ends.clone();
        let kernel = Kernel::new("deaf", move |block, _| {
            indexes.fetch_or(1 << block.index, Ordering::SeqCst);
            begun.fetch_add(1, Ordering::SeqCst);
            while ends.load(Ordering::SeqCst) & (1 << block.index) == 0 {
                std::thread::yield_now();
            }
            Outcome::Done
        });
        launch(blocks, kernel)
    }

    fn begun(&self) -> u32 {
        self.begun.load(Ordering::SeqCst)
    }

    fn end(&self, blocks: u32) {
        self.ends.fetch_or(blocks, Ordering::SeqCst);
    }

    /// Lets all that have begun end, but the first one of the launch.
    fn end_all_but_one(&self) {
        let blocks = self.blocks.load(Ordering::SeqCst);
        self.end(blocks & blocks.wrapping_sub(1));
    }
}

/// Lets all blocks end, also when an assertion fails: the device waits for them.
impl Drop for Deaf {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.end(!0);
        }
    }
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LONG, "{what}");
        std::thread::yield_now();
    }
}

/// Three units that each run a block of the first queue, which has six, and another queue.
fn scene() -> (Deaf, Launch<Cpu>, crate::Preemptor, [Queue; 2]) {
    let device = Cpu::open(0, "units=3&pin=0").unwrap();
    let preemptor = device.preemptor(PreemptLevel::All).unwrap();
    let mut queues =
        [(); 2].map(|()| device.queue(Priority::BestEffort, Some(&preemptor)).unwrap());
    let deaf = Deaf::default();
    let launch = deaf.launch(6);
    queues[0].launch(Seq(0), &launch, None).unwrap();
    wait_until("three blocks run", || deaf.begun() == 3);
    (deaf, launch, preemptor, queues)
}

#[test]
fn queue_that_lags_starts_nothing_until_it_is_drained() {
    let (deaf, launch, preemptor, [mut late, mut other]) = scene();
    for round in 0..3 {
        preemptor.evict().unwrap();
        preemptor.reset().unwrap();
        deaf.end_all_but_one();
        assert!(late.try_drain().unwrap().is_none(), "a block runs");
        assert!(other.try_drain().unwrap().is_some());
        preemptor.reactivate().unwrap();
        for seq in [2 * round, 2 * round + 1] {
            other.launch(Seq(seq), &reporting(9).0, None).unwrap();
            finish(&mut other, seq + 1); // units have nothing to do then
        }
        assert_eq!(deaf.begun(), 3, "what was evicted stays so");
    }
    deaf.end(!0);
    let begin = Instant::now();
    let drained = loop {
        match late.try_drain().unwrap() {
            Some(drained) => break drained,
            None => assert!(begin.elapsed() < LONG, "its blocks have ended"),
        }
        std::thread::yield_now();
    };
    assert_eq!(deaf.begun(), 3);
    let partial = drained.partial.expect("three blocks have run");
    assert_eq!((drained.resume_at, partial.remaining()), (Seq(0), 3));
    late.launch(Seq(0), &launch, Some(&partial)).unwrap();
    finish(&mut late, 1);
    assert_eq!(deaf.begun(), 6, "each block once");
}

#[test]
fn queue_that_is_abandoned_ends_with_its_last_block() {
    let (deaf, _, preemptor, [mut late, mut other]) = scene();
    preemptor.evict().unwrap();
    preemptor.reset().unwrap();
    deaf.end_all_but_one();
    late.abandon();
    let device = late.device.clone();
    drop(late);
    assert!(other.try_drain().unwrap().is_some());
    preemptor.reactivate().unwrap();
    let mut runs = |round| {
        other.launch(Seq(round), &reporting(9).0, None).unwrap();
        finish(&mut other, round + 1);
        deaf.begun()
    };
    assert_eq!(runs(0), 3);
    deaf.end(!0);
    wait_until("the device forgets it", || device.shared().change(|hardware| hardware.len()) == 1);
    assert_eq!(runs(1), 3, "what had not started never does");
}

/// A launch in whose middle its queue was evicted: units have passed by once it is there.
#[test]
fn launch_on_a_stopped_queue_waits_for_a_drain() {
    let device = Cpu::open(0, "units=2&pin=0").unwrap();
    let preemptor = device.preemptor(PreemptLevel::DeviceQueue).unwrap();
    let mut queue = device.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    let (launch, ran) = reporting(3);
    preemptor.evict().unwrap();
    queue.launch(Seq(0), &launch, None).unwrap();
    let mut other = device.queue(Priority::BestEffort, None).unwrap();
    other.launch(Seq(0), &reporting(9).0, None).unwrap();
    finish(&mut other, 1); // units have been here, and found nothing to run of the first queue
    preemptor.reactivate().unwrap();
    let drained = queue.try_drain().unwrap().expect("it is stopped");
    assert_eq!((drained.resume_at, ran.try_iter().count()), (Seq(0), 0));
    queue.launch(Seq(0), &launch, None).unwrap();
    finish(&mut queue, 1);
    assert_eq!(ran.try_iter().count(), 3);
}

/// A block that was told to stop by the end of its real-time kernel, and runs on.
#[test]
fn padding_has_ended_when_its_last_block_has() {
    let device = Cpu::open(0, "units=2&pin=0").unwrap();
    let mut rt = device.queue(Priority::RealTime, None).unwrap();
    let deaf = Deaf::default();
    let (be, begun) = (deaf.launch(1), deaf.begun.clone());
    let record = device.checkpoint(&be).unwrap();
    let waits = Kernel::new("waits", move |_, _| {
        wait_until("its padding runs", || begun.load(Ordering::SeqCst) == 1);
        Outcome::Done
    });
    let padding = Padding { rt_units: 1, be_per_unit: 1, be_blocks: 1 };
    rt.launch_padded(Seq(0), &super::launch(1, waits), &padding, &be, &record).unwrap();
    finish(&mut rt, 1);
    assert_eq!(rt.padding_ended(), Ok(Seq(0)), "its client may not leave yet");
    deaf.end(1);
    let begin = Instant::now();
    while rt.padding_ended() == Ok(Seq(0)) {
        assert!(begin.elapsed() < LONG, "its block has ended");
        std::thread::yield_now();
    }
    assert_eq!((rt.padding_ended(), record.remaining()), (Ok(Seq(1)), 0));
}
