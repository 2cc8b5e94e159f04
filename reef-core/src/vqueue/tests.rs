//! Queues and groups on a device that does what the test says.

use crate::backend::error::Error;
use crate::backend::fake::{Fake, eventually, kernel};
use crate::backend::info::{PreemptLevel, Seq};
use crate::vqueue::config::Config;
use crate::vqueue::group::Group;
use crate::vqueue::submitter::Submitter;
use crate::vqueue::virtual_queue::VirtualQueue;
use std::sync::atomic::Ordering;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn queue(device: &Fake, config: Config) -> (Submitter<Fake>, VirtualQueue<Fake>) {
    VirtualQueue::enable(device, config.level(PreemptLevel::All)).expect("a queue")
}

/// A queue of a device that finishes nothing, with so many commands: four are launched.
fn hanging(device: &Fake, commands: u64) -> (Submitter<Fake>, VirtualQueue<Fake>) {
    device.0.be_hangs.store(true, Ordering::SeqCst);
    let (mut submitter, queue) = queue(device, Config::default().window(4));
    (0..commands).for_each(|_| assert!(submitter.submit(kernel()).is_ok(), "room"));
    let launched = || queue.shared().launcher().commands.in_flight();
    eventually("launched", || launched() == commands.min(4));
    (submitter, queue)
}

#[test]
fn a_group_counts_its_queues() {
    let device = Fake::default();
    let group = Group::open(&device, PreemptLevel::All).expect("a group");
    assert_eq!(group.len(), 0);
    let [first, second] = [(); 2].map(|()| group.enable(Config::default()).expect("a queue"));
    assert_eq!(group.len(), 2);
    let error = first.1.preempt(false).unwrap_err();
    assert!(matches!(error, Error::State(_)), "{error}");
    drop(second);
    assert_eq!(group.len(), 1);
    first.1.preempt(true).expect("it is alone");
    assert!(first.1.shared().is_held());
}

#[test]
fn a_group_is_quiesced_only_while_it_is_preempted() {
    let group = Group::open(&Fake::default(), PreemptLevel::All).expect("a group");
    assert!(!group.is_preempted() && !group.is_quiesced() && !group.try_quiesce());
    group.preempt(false).expect("nothing fails");
    assert!(group.is_preempted() && group.is_quiesced() && group.try_quiesce(), "it has no queues");
    assert!(group.try_restore().expect("it is preempted"));
    assert!(!group.is_preempted() && !group.is_quiesced());
}

#[test]
fn a_device_that_has_nothing_of_a_group_is_not_told_of_a_preemption() {
    let device = Fake::default();
    let (mut submitter, queue) = queue(&device, Config::default());
    let told = || device.0.told.lock().clone();
    queue.preempt(true).expect("nothing fails");
    assert!(submitter.submit(kernel()).is_ok(), "room");
    assert_eq!((told(), queue.shared().cursors()), (vec![], (0, 1)), "and nothing is launched");
    queue.restore().expect("nothing fails");
    submitter.wait(Seq(0)).expect("it runs");
    let hanging = hanging(&device, 1);
    hanging.1.preempt(false).expect("nothing fails");
    assert!(told().ends_with(&["evict", "reset"]), "{:?}", told());
    device.0.be_hangs.store(false, Ordering::SeqCst);
}

#[test]
fn a_preemption_that_the_device_refuses_is_made_up_for() {
    let device = Fake::default();
    let group = Group::open(&device, PreemptLevel::All).expect("a group");
    let [(_idle, idle), (mut submitter, busy)] =
        [(); 2].map(|()| group.enable(Config::default()).expect("a queue"));
    device.0.be_hangs.store(true, Ordering::SeqCst);
    assert!(submitter.submit(kernel()).is_ok(), "room");
    eventually("launched", || busy.shared().launcher().commands.in_flight() == 1);
    let held = || [group.is_preempted(), idle.shared().is_held(), busy.shared().is_held()];
    for fails in [&device.0.evict_fails, &device.0.reset_fails] {
        fails.store(1, Ordering::SeqCst);
        assert!(group.preempt(false).is_err());
        assert!(group.is_half_stopped() && held() == [true; 3], "nothing more is launched");
    }
    group.preempt(false).expect("it has refused each once");
    assert_eq!(*device.0.told.lock(), ["evict", "reset"]);
    assert!(matches!(group.preempt(false), Err(Error::State(_))), "that is all");
    device.0.be_hangs.store(false, Ordering::SeqCst);
}

#[test]
fn a_group_is_capped_until_it_is_restored_in_full() {
    let device = Fake::default();
    let (_submitter, queue) = queue(&device, Config::default());
    let (group, cap) = (queue.group(), || queue.shared().allowance().cap);
    assert_eq!(group.capped_blocks(), None, "it pads kernel by kernel");
    device.0.capped.store(2, Ordering::SeqCst);
    assert_eq!(group.capped_blocks(), Some(2));
    let shallow = Group::open(&device, PreemptLevel::HostQueue).expect("a group");
    assert_eq!(shallow.capped_blocks(), None, "it could not be stopped again");
    for width in [Some(2), None] {
        queue.preempt(true).expect("it runs");
        assert!(group.try_restore_as(width).expect("it is preempted"));
        assert_eq!((group.is_capped(), cap()), (width.is_some(), width.unwrap_or(0)));
    }
}

#[test]
fn a_preemption_that_waits_has_taken_back_what_was_launched() {
    let device = Fake::default();
    let (submitter, queue) = hanging(&device, 2);
    queue.preempt(true).expect("it runs");
    assert_eq!(queue.rerun(), 2);
    assert!(queue.group().is_quiesced());
    device.0.be_hangs.store(false, Ordering::SeqCst);
    queue.restore().expect("it is preempted");
    assert_eq!(submitter.wait_for(Seq(1), LONG), Ok(true));
}

#[test]
fn a_queue_with_work_is_not_disabled() {
    let device = Fake::default();
    let (submitter, queue) = hanging(&device, 6);
    let (error, queue) = queue.disable().unwrap_err();
    assert!(matches!(error, Error::Busy { waiting: 2, in_flight: 4 }), "{error}");
    device.0.be_hangs.store(false, Ordering::SeqCst);
    queue.finish().expect("all of it ends");
    assert_eq!(submitter.completed(), Seq(6));
}

#[test]
fn a_preempted_queue_is_neither_disabled_nor_finished() {
    let (_submitter, queue) = queue(&Fake::default(), Config::default());
    queue.preempt(true).expect("it runs");
    let (error, queue) = queue.disable().unwrap_err();
    assert!(matches!(error, Error::State(_)), "{error}");
    let error = queue.finish().unwrap_err();
    assert!(matches!(error, Error::State(_)), "{error}");
}

#[test]
fn a_queue_is_idle_after_its_timeout_and_until_it_has_work() {
    let device = Fake::default();
    let config = Config { idle_timeout: Some(Duration::from_millis(1)), ..Config::default() };
    let (mut submitter, queue) = queue(&device, config);
    eventually("idle", || queue.is_idle());
    device.0.be_hangs.store(true, Ordering::SeqCst);
    submitter.submit(kernel()).expect("room");
    eventually("at work", || !queue.is_idle());
    device.0.be_hangs.store(false, Ordering::SeqCst);
    assert_eq!(submitter.wait_for(Seq(0), LONG), Ok(true));
}

#[test]
fn the_end_of_a_full_window_is_found_though_the_device_wakes_no_thread() {
    let device = Fake::default();
    let (submitter, _queue) = hanging(&device, 5);
    std::thread::sleep(Duration::from_millis(5)); // the worker has seen that the window is full
    device.0.be_hangs.store(false, Ordering::SeqCst);
    assert_eq!(submitter.wait_for(Seq(4), LONG), Ok(true));
}
