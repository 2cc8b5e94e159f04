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
    let mut seqs = 0_u64..;
    let mut is_right = || {
        let mut next = || stamp(&device, &mut queue, seqs.next().expect("they have no end"));
        let first = next();
        std::thread::sleep(Duration::from_millis(400)); // sleep: the time that is measured
        let second = next();
        let apart = second.time - first.time;
        let (least, most) = (second.asked - first.seen, second.seen - first.asked);
        println!("{apart:?}, {least:?} to {most:?}");
        let slack = Duration::from_millis(1); // the guess of the offset follows slowly
        apart + slack >= least && apart <= most + slack
    };
    // A busy machine shows the first stamps late. The guess has followed at the next try, and a
    // wrong rate is wrong at each.
    assert!((0..20).any(|_| is_right()), "the events are not as far apart as the host saw them");
    drop((queue, device, bench));
}
