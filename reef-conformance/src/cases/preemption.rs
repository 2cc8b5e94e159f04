//! Exactly once, in order, whatever is preempted when.

use crate::skip;
use crate::subject::{Cells, appended, cycles, doze, rng};
use rand::RngExt;
use reef_core::{Colocation, Config, Device, Error, Group, PreemptLevel, VirtualQueue};
use std::time::Duration;

fn config(level: PreemptLevel, rng: &mut impl rand::Rng) -> Config {
    let window = rng.random_range(1..6);
    let batch = rng.random_range(1..=window);
    Config { level, window, batch, ..Config::default() }
}

pub fn each_block_runs_once_in_order<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    let mut left = cycles();
    while left > 0 {
        let cells = Cells::new(device, rng.random_range(1..12));
        let config = config(level, &mut rng);
        let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
        let mut values = Vec::new();
        for _ in 0..left.min(100) {
            for _ in 0..rng.random_range(0..8) {
                let value = rng.random_range(1..100);
                submitter.submit_blocking(cells.append(value, rng.random_range(0..60))).unwrap();
                values.push(value);
            }
            doze(&mut rng, 150);
            queue.preempt(rng.random()).unwrap();
            if rng.random_ratio(1, 4) {
                let value = rng.random_range(1..100);
                submitter.submit(cells.append(value, 0)).expect("room while preempted");
                values.push(value);
            }
            doze(&mut rng, 50);
            queue.restore().unwrap();
        }
        left -= left.min(100);
        queue.finish().unwrap();
        cells.expect(values);
    }
}

pub fn nothing_runs_while_a_queue_is_held<D: Device>(device: &D, level: PreemptLevel) {
    if device.colocation() == Colocation::Never && level == PreemptLevel::DeviceQueue {
        skip("gates open when a call of the driver hangs, as those of other tests may");
        return;
    }
    let mut rng = rng();
    let cells = Cells::new(device, 8);
    let (mut submitter, queue) = VirtualQueue::enable(device, config(level, &mut rng)).unwrap();
    let mut submitted = 0;
    for _ in 0..cycles() / 20 {
        for _ in 0..10 {
            submitter.submit_blocking(cells.append(submitted, 50)).unwrap();
            submitted += 1;
        }
        doze(&mut rng, 400);
        queue.preempt(true).unwrap();
        let frozen = cells.read();
        std::thread::sleep(Duration::from_micros(300));
        assert_eq!(frozen, cells.read(), "level {level}");
        queue.restore().unwrap();
    }
    queue.finish().unwrap();
    cells.expect(0..submitted);
}

pub fn a_group_is_preempted_by_one_flag<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    let group = Group::open(device, level).unwrap();
    let cells: Vec<_> = (0..4).map(|_| Cells::new(device, 4)).collect();
    let mut queues: Vec<_> =
        (0..4).map(|_| group.enable(config(level, &mut rng)).unwrap()).collect();
    let mut rounds = 0;
    for _ in 0..cycles() / 10 {
        for ((submitter, _), cells) in queues.iter_mut().zip(&cells) {
            submitter.submit_blocking(cells.append(rounds, 30)).unwrap();
        }
        rounds += 1;
        doze(&mut rng, 100);
        group.preempt(rng.random()).unwrap();
        doze(&mut rng, 30);
        group.restore().unwrap();
    }
    for ((_, queue), cells) in queues.into_iter().zip(&cells) {
        queue.finish().unwrap();
        cells.expect(0..rounds);
    }
}

/// Who joins a group that is preempted waits like the others.
pub fn a_newcomer_of_a_held_group_is_held<D: Device>(device: &D, level: PreemptLevel) {
    // Gates open when a call of the driver hangs, and on a busy machine one seems to whose thread has to
    // wait for a processor.
    let gates = device.colocation() == Colocation::Never && level == PreemptLevel::DeviceQueue;
    let times = if gates { 20 } else { 1 };
    assert!((0..times).any(|_| newcomer_is_held(device, level)), "level {level}");
}

fn newcomer_is_held<D: Device>(device: &D, level: PreemptLevel) -> bool {
    let group = Group::open(device, level).unwrap();
    group.preempt(true).unwrap();
    let config = Config { level, ..Config::default() };
    let (mut submitter, queue) = group.enable(config).unwrap();
    let cells = Cells::new(device, 3);
    submitter.submit(cells.append(7, 0)).unwrap();
    std::thread::sleep(Duration::from_millis(2));
    let held = cells.read() == [0; 3];
    group.restore().unwrap();
    queue.finish().unwrap();
    cells.expect([7]);
    held
}

/// Dropping cancels: what is left is the effect of the first commands, and of some blocks of the next
/// one if it was stopped in its middle.
pub fn a_dropped_queue_leaves_a_prefix<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    for _ in 0..cycles() / 10 {
        let cells = Cells::new(device, 6);
        let (mut submitter, queue) = VirtualQueue::enable(device, config(level, &mut rng)).unwrap();
        for value in 0..20 {
            submitter.submit_blocking(cells.append(value, rng.random_range(0..50))).unwrap();
        }
        doze(&mut rng, 300);
        if rng.random() {
            queue.preempt(rng.random()).unwrap();
        }
        drop(queue);
        let prefixes: Vec<u64> = (0..=20).map(|n| appended(0..n)).collect();
        let done = |cell: &u64| prefixes.iter().rposition(|prefix| prefix == cell);
        let done: Vec<_> = cells.read().iter().map(|c| done(c).expect("a prefix")).collect();
        let (least, most) = (done.iter().min().unwrap(), done.iter().max().unwrap());
        assert!(most - least <= 1, "level {level}: {done:?}");
        assert_eq!(submitter.wait(reef_core::Seq(19)).is_ok(), *least == 20);
    }
}

pub fn wrong_states_are_errors<D: Device>(device: &D, level: PreemptLevel) {
    let config = Config { level, ..Config::default() };
    let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
    assert!(matches!(queue.restore(), Err(Error::State(_))), "restoring what runs");
    queue.preempt(true).unwrap();
    assert!(matches!(queue.preempt(true), Err(Error::State(_))), "preempting twice");
    let cells = Cells::new(device, 2);
    submitter.submit(cells.append(1, 0)).unwrap();
    let (error, queue) = queue.disable().unwrap_err();
    assert!(matches!(error, Error::State(_)), "disabling while preempted: {error}");
    queue.restore().unwrap();
    let last = submitter.submit(cells.append(2, 20_000)).unwrap();
    let (error, queue) = queue.disable().unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "disabling with work left: {error}");
    submitter.wait(last).unwrap();
    queue.disable().map_err(|(error, _)| error).unwrap();
    assert!(matches!(submitter.wait(reef_core::Seq(2)), Err(Error::Invalid(_))), "never submitted");

    let group = Group::open(device, level).unwrap();
    let (_a, first) = group.enable(config).unwrap();
    let (_b, _second) = group.enable(config).unwrap();
    assert!(matches!(first.preempt(true), Err(Error::State(_))), "one of several");
}
