//! Steps of a launcher, on a queue that records its calls.

use super::*;
use crate::backend::error::Error;
use crate::sync::ring::{Producer, ring};
use crate::testing::fake::{Fake, FakeEvent, FakeQueue, kernel};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const OPEN: fn() -> Allowance = || Allowance::until(u64::MAX);

fn launcher(window: u64) -> (Producer<Command<Fake>>, Launcher<Fake>) {
    let (producer, consumer) = ring(64);
    (producer, Launcher::new(FakeQueue::default(), consumer, window))
}

fn push(producer: &mut Producer<Command<Fake>>, commands: impl IntoIterator<Item = Command<Fake>>) {
    for command in commands {
        producer.push(command).expect("room");
    }
}

/// A wait for an event that is reached already.
fn reached() -> Command<Fake> {
    let event = FakeEvent::default();
    event.0.store(true, Ordering::Relaxed);
    Command::Wait(event)
}

/// Positions that were launched since the last call.
fn launched(launcher: &mut Launcher<Fake>) -> Vec<u64> {
    std::mem::take(&mut launcher.queue.launched).into_iter().map(|(at, _)| at).collect()
}

fn step(launcher: &mut Launcher<Fake>) -> (Vec<u64>, Waits) {
    let step = launcher.step(OPEN).expect("the fake has no errors");
    (launched(launcher), step.waits)
}

#[test]
fn window_is_filled_as_soon_as_it_has_room() {
    let (mut producer, mut launcher) = launcher(4);
    push(&mut producer, (0..9).map(|_| kernel()));
    assert_eq!(step(&mut launcher), (vec![0, 1, 2, 3], Waits::Device));
    assert_eq!(launcher.queue.wake_at, Some(1), "when there is room for one");
    launcher.queue.done = 1;
    assert_eq!(step(&mut launcher), (vec![4], Waits::Device));
    assert_eq!(launcher.queue.wake_at, Some(2));
    launcher.queue.done = 3;
    assert_eq!(step(&mut launcher), (vec![5, 6], Waits::Device));
}

#[test]
fn limit_bounds_launches() {
    let (mut producer, mut launcher) = launcher(4);
    push(&mut producer, (0..4).map(|_| kernel()));
    launcher.step(|| Allowance::until(2)).unwrap();
    assert_eq!(launched(&mut launcher), [0, 1]);
}

#[test]
fn barrier_runs_alone() {
    let (mut producer, mut launcher) = launcher(8);
    let event = FakeEvent::default();
    push(&mut producer, [kernel(), Command::Record(event), kernel(), kernel()]);
    assert_eq!(step(&mut launcher), (vec![0], Waits::Device));
    launcher.queue.done = 1;
    assert_eq!(step(&mut launcher), (vec![1], Waits::Device));
    assert_eq!(step(&mut launcher), (vec![], Waits::Device), "nothing runs with it");
    launcher.queue.done = 2;
    assert_eq!(step(&mut launcher).0, [2, 3]);
}

#[test]
fn wait_command_needs_its_event() {
    let (mut producer, mut launcher) = launcher(8);
    let event = FakeEvent::default();
    push(&mut producer, [Command::Wait(event.clone()), kernel()]);
    assert_eq!(step(&mut launcher), (vec![], Waits::Event));
    event.0.store(true, Ordering::Relaxed);
    assert_eq!(step(&mut launcher).0, [1]);
}

#[test]
fn barrier_waits_for_the_last_command_before_it() {
    let (mut producer, mut launcher) = launcher(8);
    let barrier = Command::Record(FakeEvent::default());
    push(&mut producer, [kernel(), kernel(), kernel(), barrier]);
    assert_eq!(step(&mut launcher), (vec![0, 1, 2], Waits::Device));
    assert_eq!(launcher.queue.wake_at, Some(3), "there is room, but not for a barrier");
}

#[test]
fn step_returns_whether_something_completed() {
    let (mut producer, mut launcher) = launcher(4);
    push(&mut producer, [reached(), kernel()]);
    assert!(launcher.step(OPEN).unwrap().completed, "the wait was over at once");
    push(&mut producer, [kernel()]);
    assert!(!launcher.step(OPEN).unwrap().completed, "two are launched, none has ended");
    launcher.queue.done = 2;
    push(&mut producer, [kernel()]);
    assert!(launcher.step(OPEN).unwrap().completed, "one has ended, whatever was launched");
}

/// With nothing on the device there is nothing that could wake the worker.
#[test]
fn more_finished_waits_than_the_window_leave_work() {
    let (mut producer, mut launcher) = launcher(2);
    push(&mut producer, [reached(), reached(), reached()]);
    assert_eq!(launcher.step(OPEN).unwrap().waits, Waits::Nothing);
    assert_eq!(launcher.step(OPEN).unwrap().waits, Waits::Commands);
}

#[test]
fn host_code_runs_alone_and_without_the_lock() {
    let (mut producer, mut launcher) = launcher(4);
    let host = || Command::Host(Arc::new(|| ()));
    push(&mut producer, [kernel(), host(), host(), kernel()]);
    assert_eq!(step(&mut launcher), (vec![0], Waits::Device));
    assert!(launcher.host(u64::MAX).is_none(), "a kernel runs");
    launcher.queue.done = 1;
    for at in [1, 2] {
        assert_eq!(step(&mut launcher), (vec![], Waits::Host));
        assert!(launcher.host(at).is_none(), "beyond the limit");
        assert_eq!(launcher.host(u64::MAX).expect("it is next").0, at);
        launcher.host_done(at);
    }
    assert_eq!(step(&mut launcher), (vec![3], Waits::Either));
}

#[test]
fn cap_is_set_before_the_next_launch() {
    let (mut producer, mut launcher) = launcher(4);
    push(&mut producer, [kernel(), kernel()]);
    launcher.step(|| Allowance::until(1)).unwrap();
    assert!(launcher.queue.caps.is_empty(), "nothing new");
    launcher.step(|| Allowance { cap: 7, ..Allowance::until(1) }).unwrap();
    assert!(launcher.queue.caps.is_empty(), "nothing is launched");
    launcher.step(|| Allowance { cap: 7, ..Allowance::until(2) }).unwrap();
    assert_eq!(launcher.queue.caps, [Some(7)]);
    push(&mut producer, [kernel()]);
    launcher.step(OPEN).unwrap();
    assert_eq!(launcher.queue.caps, [Some(7), None], "all blocks at once again");
}

/// Else blocks that padding has run would run again.
#[test]
fn padding_record_is_kept_when_nothing_is_taken_back() {
    let (mut producer, mut launcher) = launcher(4);
    push(&mut producer, [kernel()]);
    launcher.head(&Fake::default()).unwrap().expect("a kernel is next");
    launcher.queue.drain = Some((0, None));
    assert_eq!(launcher.try_reclaim().unwrap(), Some(0), "nothing was launched");
    launcher.step(OPEN).unwrap();
    assert_eq!(launcher.queue.launched, [(0, Some(8))], "with the record that padding used");
}

#[test]
fn drained_launch_resumes_where_it_stopped() {
    let (mut producer, mut launcher) = launcher(4);
    push(&mut producer, [kernel(), kernel(), Command::Record(FakeEvent::default())]);
    step(&mut launcher);
    assert_eq!(launcher.try_reclaim().unwrap(), None, "the device is not done");
    launcher.queue.drain = Some((1, Some(3)));
    assert_eq!(launcher.try_reclaim().unwrap(), Some(1), "one of two finished");
    launcher.step(OPEN).unwrap();
    assert_eq!(launcher.queue.launched, [(1, Some(3))]);
}

#[test]
fn park_takes_what_is_left_and_its_blocks() {
    let (mut producer, mut launcher) = launcher(4);
    push(&mut producer, [kernel(), kernel(), kernel()]);
    step(&mut launcher);
    let device = Fake::default();
    let kept = launcher.park(&device).unwrap_err();
    assert_eq!(kept, Error::state("parking a queue", "the device keeps its launches"));
    launcher.queue.drain = Some((1, Some(3)));
    launcher.try_reclaim().unwrap();
    let parked = launcher.park(&device).unwrap();
    assert_eq!((parked.completed(), parked.commands().len()), (Seq(1), 2));
    let left = parked.partial().unwrap().ranges().iter().cloned().flatten();
    assert_eq!(left.collect::<Vec<_>>(), [5, 6, 7]);
    assert_eq!(step(&mut launcher), (vec![], Waits::Commands), "nothing is left behind");
}

/// The queue goes on as if nothing had been asked.
#[test]
fn refused_park_takes_nothing() {
    let (mut producer, mut launcher) = launcher(4);
    push(&mut producer, [kernel(), kernel(), Command::Record(FakeEvent::default())]);
    step(&mut launcher);
    launcher.queue.drain = Some((1, Some(3)));
    launcher.try_reclaim().unwrap();
    let refused = launcher.park(&Fake::default()).unwrap_err().to_string();
    assert!(refused.starts_with("command 2: an event can't be parked"), "{refused}");
    launcher.step(OPEN).unwrap();
    assert_eq!(launcher.queue.launched, [(1, Some(3))]);
}

#[test]
fn padded_kernel_is_parked_with_what_padding_left() {
    let (mut producer, mut launcher) = launcher(4);
    push(&mut producer, [kernel(), kernel()]);
    let device = Fake::default();
    launcher.head(&device).unwrap().expect("a kernel is next");
    let parked = launcher.park(&device).unwrap();
    assert_eq!((parked.completed(), parked.partial()), (Seq(0), None), "padding ran nothing");
}

#[test]
fn release_of_held_launches_waits_for_the_last() {
    let (mut producer, mut launcher) = launcher(4);
    push(&mut producer, [kernel(), kernel()]);
    step(&mut launcher);
    assert_eq!(launcher.release_held(), Ok(false));
    assert_eq!(launcher.queue.wake_at, Some(2));
    launcher.queue.done = 2;
    assert_eq!(launcher.release_held(), Ok(true));
}

#[test]
fn barrier_taken_back_blocks_nothing() {
    let (mut producer, mut launcher) = launcher(4);
    push(&mut producer, [Command::Record(FakeEvent::default()), kernel()]);
    assert_eq!(step(&mut launcher).0, [0]);
    launcher.queue.drain = Some((0, None));
    launcher.try_reclaim().unwrap();
    assert_eq!(step(&mut launcher).0, [0], "it is launched again");
    launcher.queue.done = 1;
    assert_eq!(step(&mut launcher).0, [1]);
}

#[test]
fn padding_draws_from_the_next_kernel_and_completes_it() {
    let (mut producer, mut launcher) = launcher(4);
    push(&mut producer, [kernel(), kernel()]);
    launcher.queue.drain = Some((0, None));
    step(&mut launcher);
    launcher.queue.drain = Some((0, Some(0)));
    launcher.try_reclaim().unwrap();
    let (_, left) = launcher.head(&Fake::default()).unwrap().expect("a kernel is next");
    assert_eq!(left.remaining(), 0, "the record that was taken back, not a fresh one");
    assert!(launcher.finish_padded());
    let (_, left) = launcher.head(&Fake::default()).unwrap().expect("a kernel is next");
    assert_eq!(left.remaining(), 8, "a fresh one for the second kernel");
    assert!(!launcher.finish_padded());
    launcher.step(OPEN).unwrap();
    assert_eq!(launcher.queue.launched.last(), Some(&(1, Some(8))));
}
