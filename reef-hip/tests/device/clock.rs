//! The device's time, on the host's clock.

use crate::bench::Bench;
use reef_core::{Device, Event as _, Priority, Queue as _, Seq};
use reef_hip::{Hip, Queue};
use std::time::{Duration, Instant};

/// Times at which the host asked for a stamp, the device made it, and the host saw it.
struct Stamp {
    asked: Instant,
    time: Duration,
    seen: Instant,
}

fn stamp(device: &Hip, queue: &mut Queue, seq: u64) -> Stamp {
    let event = device.event().unwrap();
    let asked = Instant::now();
    queue.record(Seq(seq), &event).unwrap();
    while queue.completed().unwrap() <= Seq(seq) {
        std::hint::spin_loop();
    }
    let seen = Instant::now();
    Stamp { asked, time: event.reached().expect("all before it has ended"), seen }
}

/// The device counts at a rate of its own, which the host has to know: a rate that is wrong by a
/// factor puts two events as much nearer together, or farther apart, than they were.
#[test]
fn two_events_are_as_far_apart_as_the_host_sees_them() {
    let Some(bench) = Bench::open() else { return };
    let device = Hip::open(0, "").unwrap();
    let mut queue = device.queue(Priority::RealTime, None).unwrap();
    let first = stamp(&device, &mut queue, 0);
    std::thread::sleep(Duration::from_millis(400)); // sleep: the time that is measured
    let second = stamp(&device, &mut queue, 1);
    let apart = second.time - first.time;
    let (least, most) = (second.asked - first.seen, second.seen - first.asked);
    let slack = Duration::from_millis(1); // the guess of the offset follows slowly
    assert!(apart + slack >= least && apart <= most + slack, "{apart:?}, {least:?} to {most:?}");
    drop((queue, device, bench));
}
