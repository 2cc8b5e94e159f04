//! What happens to the queue. Each must fail with the rule broken that it is about.

use super::{Queue, Rule, Worker};
use crate::sync::primitives::thread;
use std::sync::Arc;

/// Runs `group` beside a worker; then `all` commands complete.
fn model(
    queue: impl Fn() -> Queue + Send + Sync + 'static,
    all: u64,
    group: impl Fn(&Arc<Queue>, &Arc<Worker>) + Send + Sync + 'static,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2); // more take minutes
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

/// An idle queue is preempted, taken back on the group's thread, and restored; then there is a command.
fn an_idle_queue(broken: Rule) {
    model(
        move || Queue::new(broken, 1, 0, 0),
        1,
        |queue, worker| {
            queue.stop();
            queue.try_quiesce(worker);
            queue.restore(worker);
            queue.submit(worker);
        },
    );
}

/// A queue with a command is preempted twice in a row, by itself or with one that has work on the device.
fn twice(broken: Rule, beside_a_busy_queue: bool) {
    model(
        move || Queue::new(broken, 1, 1, 0),
        1,
        move |queue, worker| {
            for _ in 0..2 {
                queue.stop_beside(beside_a_busy_queue);
                queue.try_quiesce(worker);
                queue.restore(worker);
            }
        },
    );
}

/// A command runs while its queue is preempted, and another is submitted at any time.
fn a_busy_queue(window: u64) {
    model(
        move || Queue::new(Rule::Kept, window, 1, 1),
        2,
        |queue, worker| {
            let submitter = thread::spawn({
                let (queue, worker) = (queue.clone(), worker.clone());
                move || queue.submit(&worker)
            });
            queue.stop();
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
        move || Queue::new(broken, 1, 2, 2),
        3,
        |queue, worker| {
            queue.stop();
            queue.device.reset(worker);
            queue.try_quiesce(worker);
            queue.waiters.wait_until(|| queue.is_quiesced());
            queue.pad_all(worker);
            queue.restore(worker);
            queue.submit(worker);
        },
    );
}

#[test]
fn a_worker_that_is_late_finds_what_comes_next() {
    an_idle_queue(Rule::Kept);
}

#[test]
#[should_panic = "deadlock"]
fn a_late_worker_that_waits_for_the_device_sleeps_for_ever() {
    an_idle_queue(Rule::LateWorkersLookAgain);
}

#[test]
fn nothing_of_an_empty_queue_is_launched_beside_real_time_work() {
    twice(Rule::Kept, false);
}

#[test]
#[should_panic = "launched beside real-time work"]
fn an_empty_queue_that_is_held_late_launches_beside_real_time_work() {
    twice(Rule::EmptyQueuesAreHeldUnderTheLock, false);
}

#[test]
fn nothing_is_launched_behind_a_drain() {
    twice(Rule::Kept, true);
}

#[test]
fn a_running_command_and_a_submission_wake_a_worker_with_a_full_window() {
    a_busy_queue(1);
}

#[test]
fn a_running_command_and_a_submission_wake_a_worker_with_room() {
    a_busy_queue(2);
}

#[test]
fn a_queue_that_was_padded_away_goes_on() {
    padded_away(Rule::Kept);
}

#[test]
#[should_panic = "deadlock"]
fn a_worker_that_padding_does_not_wake_sleeps_for_ever() {
    padded_away(Rule::PaddingWakes);
}
