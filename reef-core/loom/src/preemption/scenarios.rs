//! Scenarios of the queue. Each must fail with the rule broken that it is about.

use super::device::Device;
use super::{Queue, Rule, Stop, Worker};
use crate::sync::primitives::thread;
use std::sync::Arc;

/// Runs `group` while a worker runs; then `all` commands complete.
fn model(
    broken: Rule,
    queue: impl Fn() -> Queue + Send + Sync + 'static,
    all: u64,
    group: impl Fn(&Arc<Queue>, &Arc<Worker>) + Send + Sync + 'static,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(if broken == Rule::None { 2 } else { 3 }); // more take minutes
    model.check(move || {
        let (queue, worker) = (Arc::new(queue()), Arc::new(Worker::default()));
        let working = thread::spawn({
            let (queue, worker) = (queue.clone(), worker.clone());
            move || queue.work(&worker)
        });
        group(&queue, &worker);
        queue.close(all, &worker); // a deadlock if the worker sleeps for ever
        working.join().unwrap();
    });
}

/// An idle queue is preempted, taken back on the group's thread, and restored; then there is a
/// command.
fn an_idle_queue(broken: Rule) {
    model(
        broken,
        move || Queue::new(broken, 1, 0, 0),
        1,
        |queue, worker| {
            queue.stop(worker);
            queue.try_quiesce(worker);
            queue.restore(worker);
            queue.submit(worker);
        },
    );
}

/// A queue with a command is preempted twice in a row, by itself or with one that has work on the
/// device.
fn preempted_twice(broken: Rule, stop: Stop) {
    model(
        broken,
        move || Queue::new(broken, 1, 1, 0),
        1,
        move |queue, worker| {
            for _ in 0..2 {
                queue.stop_in_group(stop, worker);
                queue.try_quiesce(worker);
                queue.restore(worker);
            }
        },
    );
}

/// A command runs while its queue is preempted, and another is submitted at any time.
fn a_busy_queue(window: u64) {
    model(
        Rule::None,
        move || Queue::new(Rule::None, window, 1, 1),
        2,
        |queue, worker| {
            let submitter = thread::spawn({
                let (queue, worker) = (queue.clone(), worker.clone());
                move || queue.submit(&worker)
            });
            queue.stop(worker);
            queue.try_quiesce(worker);
            queue.device.finish(worker);
            queue.restore(worker);
            submitter.join().unwrap();
        },
    );
}

/// More commands than the window takes are stopped, and all run as padding; then there is another.
fn padded_away(broken: Rule) {
    model(
        broken,
        move || Queue::new(broken, 1, 2, 2),
        3,
        |queue, worker| {
            queue.stop(worker);
            queue.device.reset(worker);
            queue.try_quiesce(worker);
            queue.waiters.wait_until(|| queue.is_quiesced());
            queue.pad_all(worker);
            queue.restore(worker);
            queue.submit(worker);
        },
    );
}

/// A queue is preempted and restored `times` times while a command runs that doesn't stop, before
/// that ends. The command after it runs in any case.
fn laggard(broken: Rule, times: usize, stop: Stop) {
    model(
        broken,
        move || Queue::new(broken, 2, 2, 1),
        2,
        move |queue, worker| {
            for _ in 0..times {
                queue.stop_in_group(stop, worker);
                queue.restore(worker);
            }
            queue.device.finish(worker);
        },
    );
}

/// A queue is to end while it is preempted, between real-time work and the stop: its worker may ask
/// a device that has not been told.
fn ended_while_held(broken: Rule) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let (queue, worker) = (Arc::new(Queue::new(broken, 1, 1, 0)), Arc::new(Worker::default()));
        let working = thread::spawn({
            let (queue, worker) = (queue.clone(), worker.clone());
            move || queue.work(&worker)
        });
        queue.begin_hold();
        queue.device.take();
        queue.end(&worker);
        queue.device.evict();
        queue.wake_asker(&worker);
        working.join().unwrap(); // it ends before the group is restored
    });
}

#[test]
fn late_worker_finds_the_next_command() {
    an_idle_queue(Rule::None);
}

#[test]
#[should_panic = "deadlock"]
fn late_worker_waiting_for_the_device_sleeps_for_ever() {
    an_idle_queue(Rule::LateWorkersCheckAgain);
}

#[test]
fn empty_queue_launches_nothing_next_to_real_time_work() {
    preempted_twice(Rule::None, Stop::ALONE);
}

#[test]
#[should_panic = "launched next to real-time work"]
fn empty_queue_held_late_launches_next_to_real_time_work() {
    preempted_twice(Rule::EmptyQueuesAreHeldUnderTheLock, Stop::ALONE);
}

#[test]
fn nothing_is_launched_after_a_drain() {
    preempted_twice(Rule::None, Stop::BUSY);
}

#[test]
fn nothing_is_launched_after_a_drain_when_stopping_first() {
    preempted_twice(Rule::None, Stop::BUSY.stops_first());
}

#[test]
#[should_panic = "launched next to real-time work"]
fn late_launch_not_void_starts_next_to_real_time_work() {
    preempted_twice(Rule::LateLaunchesAreVoid, Stop::BUSY.stops_first());
}

#[test]
#[should_panic = "deadlock"]
fn idle_queue_kept_void_when_stopping_first_never_goes_on() {
    preempted_twice(Rule::IdleQueuesStartAfresh, Stop::BUSY.stops_first());
}

#[test]
fn command_end_and_submission_wake_a_worker_with_full_window() {
    a_busy_queue(1);
}

#[test]
fn command_end_and_submission_wake_a_worker_with_room() {
    a_busy_queue(2);
}

#[test]
fn queue_padded_away_goes_on() {
    padded_away(Rule::None);
}

#[test]
#[should_panic = "deadlock"]
fn worker_not_woken_by_padding_sleeps_for_ever() {
    padded_away(Rule::PaddingWakes);
}

#[test]
fn lagging_queue_goes_on_when_drained() {
    laggard(Rule::None, 1, Stop::BUSY);
}

#[test]
fn lagging_queue_may_be_preempted_again() {
    laggard(Rule::None, 2, Stop::BUSY);
}

#[test]
fn lagging_queue_may_be_preempted_again_when_stopping_first() {
    laggard(Rule::None, 2, Stop::BUSY.stops_first());
}

#[test]
#[should_panic = "deadlock"]
fn laggard_launching_when_stopping_first_loses_its_launches() {
    laggard(Rule::LaggardsLaunchNothing, 1, Stop::BUSY.stops_first());
}

#[test]
#[should_panic = "deadlock"]
fn laggard_loses_its_launches_if_it_launches() {
    laggard(Rule::LaggardsLaunchNothing, 1, Stop::BUSY);
}

#[test]
#[should_panic = "deadlock"]
fn laggard_whose_drain_settles_nothing_stays_held() {
    laggard(Rule::TakingBackSettles, 1, Stop::BUSY);
}

#[test]
#[should_panic = "deadlock"]
fn released_queue_stays_held_unless_settled() {
    laggard(Rule::ReleasingSettles, 1, Stop::BUSY);
}

#[test]
fn lagging_queue_on_a_holding_device_goes_on() {
    let queue = || Queue::on(Device::holding(1), Rule::None, 2, 2);
    model(Rule::None, queue, 2, |queue, worker| {
        queue.stop_in_group(Stop::BUSY, worker);
        queue.restore(worker);
        queue.device.finish(worker);
    });
}

#[test]
#[should_panic = "deadlock"]
fn idle_queue_kept_void_never_goes_on() {
    preempted_twice(Rule::IdleQueuesStartAfresh, Stop::BUSY);
}

#[test]
fn queue_ended_between_hold_and_stop_is_drained() {
    ended_while_held(Rule::None);
}

#[test]
#[should_panic = "deadlock"]
fn early_asking_worker_not_woken_sleeps_for_ever() {
    ended_while_held(Rule::AskersAreWoken);
}
