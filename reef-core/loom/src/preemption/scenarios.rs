//! Scenarios of the queue.

use super::device::Device;
use super::{Fault, Queue, Stop};
use crate::backend::error::Error;
use crate::backend::preemptor::Preemptor as _;
use crate::sync::primitives::Mutex;
use crate::sync::primitives::thread::{self, Thread};
use crate::vqueue::shared::Shutdown;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

/// Beginning of a model.
#[derive(Clone, Copy)]
struct Begin {
    fault: Fault,
    stop: Stop,
    window: u64,
    submitted: u64,
    /// Commands before this one run until they are ended.
    long: u64,
}

impl Begin {
    fn with(fault: Fault, stop: Stop, window: u64, submitted: u64, long: u64) -> Self {
        Self { fault, stop, window, submitted, long }
    }

    /// The queue is to be dropped by [`end`]: loom's objects can't be while a failure unwinds.
    fn queue(self, device: Device) -> ManuallyDrop<Arc<Queue>> {
        let queue = Queue::new(device, self.window);
        queue.join_group(self.stop);
        (0..self.submitted).for_each(|_| queue.submit());
        ManuallyDrop::new(Arc::new(queue))
    }
}

fn end(queue: ManuallyDrop<Arc<Queue>>) {
    drop(ManuallyDrop::into_inner(queue));
}

/// Tries what `model` does, with up to this many preemptions: more take minutes.
fn check(fault: Fault, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(if fault == Fault::None { 2 } else { 3 });
    builder.check(model);
}

/// Runs `group` while a worker runs; then `all` commands complete.
fn model(begin: Begin, all: u64, group: impl Fn(&Arc<Queue>) + Send + Sync + 'static) {
    on_device(begin, move || Device::new(begin.fault, begin.long), all, group);
}

/// As [`model`], on this device.
fn on_device(
    begin: Begin,
    device: impl Fn() -> Device + Send + Sync + 'static,
    all: u64,
    group: impl Fn(&Arc<Queue>) + Send + Sync + 'static,
) {
    check(begin.fault, move || {
        Thread::default().begin();
        let queue = begin.queue(device());
        let working = queue.start_worker();
        group(&queue);
        queue.close(all); // a deadlock if the worker sleeps for ever
        working.join().unwrap();
        end(queue);
    });
}

/// A queue that nothing stops has commands of which the first takes long.
fn left_alone(window: u64, submitted: u64) {
    let begin = Begin::with(Fault::None, Stop::ALONE, window, submitted, 1);
    model(begin, submitted, |queue| queue.device.finish());
}

/// An idle queue is preempted, taken back on the group's thread, and restored; then there is a
/// command.
fn an_idle_queue() {
    let begin = Begin::with(Fault::None, Stop::ALONE, 1, 0, 0);
    model(begin, 1, move |queue| {
        queue.stop(begin.stop);
        queue.group.try_quiesce();
        queue.restore();
        queue.submit();
    });
}

/// A queue with a command is preempted twice in a row, by itself or with one that counts as busy.
fn preempted_twice(fault: Fault, stop: Stop) {
    let begin = Begin::with(fault, stop, 1, 1, 0);
    model(begin, 1, move |queue| {
        for _ in 0..2 {
            queue.stop(stop);
            queue.group.try_quiesce();
            queue.restore();
        }
    });
}

/// A queue with a command is preempted, and its group waits until the device has nothing of it.
fn preempted_and_waited_for(stop: Stop) {
    let begin = Begin::with(Fault::None, stop, 1, 1, 0);
    model(begin, 1, move |queue| {
        queue.stop(stop);
        queue.group.try_quiesce();
        queue.shared.wait_quiesced();
        queue.restore();
    });
}

/// A command runs while its queue is preempted, and another is submitted at any time.
fn a_busy_queue(window: u64) {
    let begin = Begin::with(Fault::None, Stop::ALONE, window, 1, 1);
    model(begin, 2, move |queue| {
        let submitting = thread::spawn({
            let queue = queue.clone();
            move || queue.submit()
        });
        queue.stop(begin.stop);
        queue.group.try_quiesce();
        queue.device.finish();
        queue.restore();
        submitting.join().unwrap();
    });
}

/// More commands than the window takes are stopped, and all run as padding; then there is another.
fn padded_away(fault: Fault) {
    let begin = Begin::with(fault, Stop::ALONE, 1, 2, 2);
    model(begin, 3, move |queue| {
        queue.stop(begin.stop);
        queue.device.reset();
        queue.group.try_quiesce();
        queue.shared.wait_quiesced();
        queue.pad_all(fault);
        queue.restore();
        queue.submit();
    });
}

/// A queue is preempted and restored `times` times while a command runs that doesn't stop, before
/// that ends. The command after it runs in any case.
fn laggard(times: usize, stop: Stop) {
    model(Begin::with(Fault::None, stop, 2, 2, 1), 2, move |queue| {
        for _ in 0..times {
            queue.stop(stop);
            queue.restore();
        }
        queue.device.finish();
    });
}

/// A queue is to end while it is preempted, between real-time work and the stop: its worker may ask
/// a device that has not been told.
fn ended_while_held(fault: Fault) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let begin = Begin::with(fault, Stop::BUSY, 1, 1, 0);
        let queue = begin.queue(Device::new(fault, begin.long));
        let working = queue.start_worker();
        queue.group.hold();
        queue.device.take();
        queue.shared.shut_down(Shutdown::Cancel);
        match fault {
            Fault::StopWakesNone => queue.group.preemptor().evict().unwrap(),
            _ => queue.group.stop().unwrap(),
        }
        working.join().unwrap(); // it ends before the group is restored
        end(queue);
    });
}

/// The owner of a queue waits for its worker, which hangs, while the device is lost. It checks
/// whether the queue has failed before it checks for the loss, or after that.
fn lost_while_waited_for(checks_error_first: bool) {
    check(Fault::None, move || {
        let begin = Begin::with(Fault::None, Stop::ALONE, 1, 0, 0);
        let queue = begin.queue(Device::new(begin.fault, begin.long));
        let is_lost = Arc::new(Mutex::new(false));
        let seen = ManuallyDrop::new(is_lost.clone());
        let shared = queue.shared.clone();
        let losing = thread::spawn(move || {
            *is_lost.lock() = true;
            shared.end(Error::Cancelled);
        });
        let has_failed = || queue.shared.failed().is_some();
        let had_failed = has_failed();
        let was_lost = *seen.lock();
        if !was_lost {
            let failed = if checks_error_first {
                had_failed
            } else {
                thread::yield_now();
                has_failed()
            };
            // Models have no time: a deadlock if the error is missed.
            queue.shared.wait_for_worker(Duration::from_secs(3600), failed);
        }
        losing.join().unwrap();
        drop(ManuallyDrop::into_inner(seen));
        end(queue);
    });
}

#[test]
fn loss_ends_the_wait_for_a_hung_worker() {
    lost_while_waited_for(true);
}

#[test]
#[should_panic = "deadlock"]
fn loss_noted_before_its_error_is_missed() {
    lost_while_waited_for(false);
}

#[test]
fn command_end_wakes_a_worker_with_full_window() {
    left_alone(1, 2);
}

#[test]
fn command_end_wakes_a_worker_with_room() {
    left_alone(2, 1);
}

#[test]
fn late_worker_finds_the_next_command() {
    an_idle_queue();
}

#[test]
fn empty_queue_launches_nothing_next_to_real_time_work() {
    preempted_twice(Fault::None, Stop::ALONE);
}

#[test]
fn queue_that_is_waited_for_launches_nothing_when_stopped() {
    preempted_and_waited_for(Stop::ALONE);
}

#[test]
fn queue_that_is_waited_for_quiesces_next_to_a_busy_one() {
    preempted_and_waited_for(Stop::BUSY);
}

#[test]
fn nothing_is_launched_after_a_drain() {
    preempted_twice(Fault::None, Stop::BUSY);
}

#[test]
fn nothing_is_launched_after_a_drain_when_stopping_first() {
    preempted_twice(Fault::None, Stop::BUSY.stops_first());
}

#[test]
#[should_panic = "launched next to real-time work"]
fn late_launch_not_void_starts_next_to_real_time_work() {
    preempted_twice(Fault::LateLaunchesStart, Stop::BUSY.stops_first());
}

#[test]
#[should_panic = "deadlock"]
fn idle_queue_kept_void_when_stopping_first_never_goes_on() {
    preempted_twice(Fault::IdleQueuesStayStopped, Stop::BUSY.stops_first());
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
    padded_away(Fault::None);
}

#[test]
#[should_panic = "deadlock"]
fn worker_not_woken_by_padding_sleeps_for_ever() {
    padded_away(Fault::PaddingWakesNone);
}

#[test]
fn lagging_queue_goes_on_when_drained() {
    laggard(1, Stop::BUSY);
}

#[test]
fn lagging_queue_may_be_preempted_again() {
    laggard(2, Stop::BUSY);
}

#[test]
fn lagging_queue_may_be_preempted_again_when_stopping_first() {
    laggard(2, Stop::BUSY.stops_first());
}

#[test]
fn lagging_queue_on_a_holding_device_goes_on() {
    let begin = Begin::with(Fault::None, Stop::BUSY, 2, 2, 1);
    on_device(
        begin,
        || Device::holding(1),
        2,
        move |queue| {
            queue.stop(begin.stop);
            queue.restore();
            queue.device.finish();
        },
    );
}

#[test]
#[should_panic = "deadlock"]
fn idle_queue_kept_void_never_goes_on() {
    preempted_twice(Fault::IdleQueuesStayStopped, Stop::BUSY);
}

#[test]
fn queue_ended_between_hold_and_stop_is_drained() {
    ended_while_held(Fault::None);
}

#[test]
#[should_panic = "deadlock"]
fn early_asking_worker_not_woken_sleeps_for_ever() {
    ended_while_held(Fault::StopWakesNone);
}
