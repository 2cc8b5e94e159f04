//! Queues and groups on a device that does what the test says.

use crate::backend::command::Command;
use crate::backend::error::Error;
use crate::backend::info::Priority::BestEffort;
use crate::backend::info::{Caps, PreemptLevel, Seq};
use crate::testing::fake::{AtLast, By, Call, Fake, eventually, kernel, until_polled};
use crate::vqueue::config::Config;
use crate::vqueue::group::Group;
use crate::vqueue::submitter::Submitter;
use crate::vqueue::virtual_queue::VirtualQueue;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn queue(device: &Fake, config: Config) -> (Submitter<Fake>, VirtualQueue<Fake>) {
    VirtualQueue::enable(device, config.level(PreemptLevel::All)).expect("a queue")
}

/// A queue of a device that finishes nothing, with this number of commands: four are launched.
fn hanging(device: &Fake, commands: u64) -> (Submitter<Fake>, VirtualQueue<Fake>) {
    device.0.be_hangs.store(true, Ordering::SeqCst);
    let (mut submitter, queue) = queue(device, Config::default().window(4));
    (0..commands).for_each(|_| assert!(submitter.submit(kernel()).is_ok(), "room"));
    let launched = || queue.shared().launcher().commands.in_flight();
    eventually("launched", || launched() == commands.min(4));
    (submitter, queue)
}

#[test]
fn group_counts_its_queues() {
    let device = Fake::default();
    let group = Group::open(&device, PreemptLevel::All).expect("a group");
    assert_eq!(group.len(), 0);
    let [first, second] = [(); 2].map(|()| group.enable(Config::default()).expect("a queue"));
    assert_eq!(group.len(), 2);
    let error = first.1.preempt(false).unwrap_err();
    assert!(matches!(error, Error::State { .. }), "{error}");
    drop(second);
    assert_eq!(group.len(), 1);
    first.1.preempt(true).expect("it is alone");
    assert!(first.1.shared().is_held());
}

#[test]
fn group_is_quiesced_only_while_preempted() {
    let group = Group::open(&Fake::default(), PreemptLevel::All).expect("a group");
    assert!(!group.is_preempted() && !group.is_quiesced() && !group.try_quiesce());
    group.preempt(false).expect("nothing fails");
    assert!(group.is_preempted() && group.is_quiesced() && group.try_quiesce(), "it has no queues");
    assert!(group.try_restore_as(None).expect("it is preempted"));
    assert!(!group.is_preempted() && !group.is_quiesced());
}

#[test]
fn preemption_of_an_idle_group_does_not_call_the_device() {
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
fn preemption_refused_by_the_device_can_be_repeated() {
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
    assert!(matches!(group.preempt(false), Err(Error::State { .. })), "that is all");
    device.0.be_hangs.store(false, Ordering::SeqCst);
}

#[test]
fn group_is_capped_until_restored_in_full() {
    let device = Fake::default();
    let (_submitter, queue) = queue(&device, Config::default());
    let (group, cap) = (queue.group(), || queue.shared().allowance().cap);
    assert_eq!(group.caps(), None, "it pads kernel by kernel");
    device.0.capped.store(2, Ordering::SeqCst);
    assert_eq!(group.caps(), Some(Caps::all(2)));
    let shallow = Group::open(&device, PreemptLevel::HostQueue).expect("a group");
    assert_eq!(shallow.caps(), None, "it could not be stopped again");
    for width in [Some(2), None] {
        queue.preempt(true).expect("it runs");
        assert!(group.try_restore_as(width.map(Caps::all)).expect("it is preempted"));
        assert_eq!((group.is_capped(), cap()), (width.is_some(), width.unwrap_or(0)));
    }
}

#[test]
fn queue_of_long_blocks_has_the_smaller_cap() {
    let device = Fake::default();
    let [(_stuck, late), (_submitter, other)] = with_a_hung_queue(&device, Config::default());
    let _at_last = AtLast(device.clone());
    late.group().preempt(false).expect("it runs");
    thread::sleep(Duration::from_millis(2)); // sleep: length of its block; a longer one is long too
    device.0.hung.store(0, Ordering::SeqCst);
    eventually("drained", || late.shared().is_quiesced() && other.shared().is_quiesced());
    let caps = Caps { short: 9, long: 3, percent: 100 };
    assert!(late.group().try_restore_as(Some(caps)).expect("it is preempted"));
    // The time of a stop is a busy host's too, so the other queue is one that was never stopped.
    let (_submitter, fresh) = late.group().enable(Config::default()).expect("a queue");
    assert_eq!([&late, &fresh].map(|queue| queue.shared().allowance().cap), [3, 9]);
}

#[test]
fn synchronous_preemption_takes_launches_back() {
    let device = Fake::default();
    let (submitter, queue) = hanging(&device, 2);
    queue.preempt(true).expect("it runs");
    assert_eq!(queue.rerun(), 2);
    assert!(queue.group().is_quiesced());
    device.0.be_hangs.store(false, Ordering::SeqCst);
    queue.restore().expect("it is preempted");
    assert_eq!(submitter.wait_timeout(Seq(1), TEST_TIMEOUT), Some(Ok(())));
}

#[test]
fn queue_with_work_is_not_disabled() {
    let device = Fake::default();
    let (submitter, queue) = hanging(&device, 6);
    let begin = Instant::now();
    let (mut error, mut queue) = queue.disable().unwrap_err();
    // A worker that has the launcher, and no processor, may be in a call: all counts as in flight.
    while error == (Error::Busy { waiting: 0, in_flight: 6 }) && begin.elapsed() < TEST_TIMEOUT {
        (error, queue) = queue.disable().unwrap_err();
    }
    assert!(matches!(error, Error::Busy { waiting: 2, in_flight: 4 }), "{error}");
    device.0.be_hangs.store(false, Ordering::SeqCst);
    queue.finish().expect("all of it ends");
    assert_eq!(submitter.completed(), Seq(6));
}

#[test]
fn preempted_queue_is_neither_disabled_nor_finished() {
    let (_submitter, queue) = queue(&Fake::default(), Config::default());
    queue.preempt(true).expect("it runs");
    let (error, queue) = queue.disable().unwrap_err();
    assert!(matches!(error, Error::State { .. }), "{error}");
    let error = queue.finish().unwrap_err();
    assert!(matches!(error, Error::State { .. }), "{error}");
}

#[test]
fn end_of_a_full_window_is_polled_without_wake_ups() {
    let device = Fake::default();
    let (submitter, _queue) = hanging(&device, 5);
    until_polled(&device, 10); // the worker has seen that the window is full
    device.0.be_hangs.store(false, Ordering::SeqCst);
    assert_eq!(submitter.wait_timeout(Seq(4), TEST_TIMEOUT), Some(Ok(())));
}

/// Two queues of a group, each with a command that the device has; the kernel of the first never
/// ends. The second has the ten seconds of the default: it stops late if a thread that tells it has
/// no processor.
fn with_a_hung_queue(device: &Fake, config: Config) -> [(Submitter<Fake>, VirtualQueue<Fake>); 2] {
    let group = Group::open(device, PreemptLevel::All).expect("a group");
    device.0.be_hangs.store(true, Ordering::SeqCst);
    device.0.hung.store(1, Ordering::SeqCst);
    let configs = [config, Config::default()];
    let mut both = configs.map(|config| group.enable(config).expect("a queue"));
    for (submitter, queue) in &mut both {
        assert!(submitter.submit(kernel()).is_ok(), "room");
        eventually("launched", || queue.shared().launcher().commands.in_flight() == 1);
    }
    both
}

#[test]
fn undrained_queue_delays_no_other() {
    let device = Fake::default();
    let [(stuck, hung), (submitter, other)] = with_a_hung_queue(&device, Config::default());
    let _at_last = AtLast(device.clone());
    for round in 0..3 {
        hung.group().preempt(false).expect("it runs");
        eventually("drained", || other.shared().is_quiesced());
        device.0.be_hangs.store(false, Ordering::SeqCst);
        let (done, restored) = channel();
        let group = hung.group().clone();
        thread::spawn(move || done.send(group.restore()));
        let restored = restored.recv_timeout(TEST_TIMEOUT).expect("the hung queue is waited for");
        restored.expect("it is preempted");
        assert_eq!(submitter.wait_timeout(Seq(0), TEST_TIMEOUT), Some(Ok(())), "round {round}");
        assert_eq!(stuck.completed(), Seq(0));
    }
    device.0.hung.store(0, Ordering::SeqCst);
    assert_eq!(
        stuck.wait_timeout(Seq(0), TEST_TIMEOUT),
        Some(Ok(())),
        "it goes on when it is drained"
    );
}

#[test]
fn undrained_queue_ends_after_its_timeout() {
    const TIMEOUT: Duration = Duration::from_millis(50);
    let device = Fake::default();
    let config = Config::default().drain_timeout(TIMEOUT);
    let [(stuck, hung), (submitter, _other)] = with_a_hung_queue(&device, config);
    let _at_last = AtLast(device.clone());
    thread::sleep(2 * TIMEOUT); // sleep: longer than a timeout that must not run yet
    assert_eq!(stuck.wait_timeout(Seq(0), Duration::ZERO), None, "a kernel may take its time");
    let begin = Instant::now();
    hung.group().preempt(true).expect("it runs");
    let took = begin.elapsed();
    assert!(took >= TIMEOUT && took < TEST_TIMEOUT, "{took:?}");
    let error = stuck.wait(Seq(0)).unwrap_err();
    assert!(matches!(&error, Error::DeviceLost { why, .. } if why.contains("50ms")), "{error}");
    assert_eq!(device.0.abandoned.load(Ordering::SeqCst), 1);
    device.0.be_hangs.store(false, Ordering::SeqCst);
    hung.group().restore().expect("it is preempted");
    assert_eq!(submitter.wait_timeout(Seq(0), TEST_TIMEOUT), Some(Ok(())), "the other goes on");
    assert_eq!(hung.finish(), Err(error), "and it is no longer waited for");
}

/// Commands that were launched before the error may still write memory.
#[test]
fn failed_queue_with_work_that_does_not_end_is_lost() {
    let device = Fake::default();
    device.0.be_hangs.store(true, Ordering::SeqCst);
    let config = Config::default().drain_timeout(Duration::from_millis(50));
    let (mut submitter, queue) = queue(&device, config);
    let _at_last = AtLast(device.clone());
    assert!(submitter.submit(kernel()).is_ok(), "room");
    eventually("launched", || queue.shared().launcher().commands.in_flight() == 1);
    device.0.be_launch_fails.store(1, Ordering::SeqCst);
    assert!(submitter.submit(kernel()).is_ok(), "room");
    let error = submitter.wait_timeout(Seq(0), TEST_TIMEOUT).expect("it ends").unwrap_err();
    let says = |why: &str| why.contains("as the script says") && why.contains("has not stopped");
    assert!(matches!(&error, Error::DeviceLost { why, .. } if says(why)), "{error}");
}

#[test]
fn drop_of_a_lagging_queue_takes_at_most_its_timeout() {
    const TIMEOUT: Duration = Duration::from_millis(50);
    let device = Fake::default();
    let config = Config::default().drain_timeout(TIMEOUT);
    for is_preempted in [false, true] {
        device.0.queues.store(0, Ordering::SeqCst);
        let [(_stuck, hung), (submitter, other)] = with_a_hung_queue(&device, config);
        let _at_last = AtLast(device.clone());
        if is_preempted {
            hung.group().preempt(false).expect("it runs");
            hung.group().restore().expect("it is preempted");
        }
        let (done, dropped) = channel();
        thread::spawn(move || {
            drop(hung);
            done.send(())
        });
        dropped.recv_timeout(TEST_TIMEOUT).expect("it returns");
        device.0.be_hangs.store(false, Ordering::SeqCst);
        assert_eq!(submitter.wait_timeout(Seq(0), TEST_TIMEOUT), Some(Ok(())));
        assert_eq!(other.group().len(), 1);
    }
}

#[test]
fn lagging_queue_is_drained_once_for_several_preemptions() {
    let device = Fake::default();
    let [(stuck, hung), (mut submitter, other)] = with_a_hung_queue(&device, Config::default());
    let _at_last = AtLast(device.clone());
    device.0.be_hangs.store(false, Ordering::SeqCst);
    for round in 0..20 {
        hung.group().preempt(false).expect("it runs");
        assert!(!hung.shared().is_lagging(), "it is held with the others");
        hung.group().restore().expect("it is preempted");
        assert!(hung.shared().is_lagging());
        submitter.submit(kernel()).expect("room");
        assert_eq!(submitter.wait_timeout(Seq(round + 1), TEST_TIMEOUT), Some(Ok(())));
    }
    assert!(device.0.told.lock().ends_with(&["evict", "reset", "reactivate"]), "told each time");
    device.0.be_hangs.store(true, Ordering::SeqCst); // or it would end before it is drained
    device.0.hung.store(0, Ordering::SeqCst);
    eventually("drained", || !hung.shared().is_held());
    assert_eq!(hung.rerun(), 1, "what it had is launched again");
    assert!(!other.shared().is_held());
    device.0.be_hangs.store(false, Ordering::SeqCst);
    assert_eq!(stuck.wait_timeout(Seq(0), TEST_TIMEOUT), Some(Ok(())));
}

#[test]
fn group_stays_preempted_until_one_queue_is_drained() {
    let device = Fake::default();
    let [(_stuck, hung), (submitter, other)] = with_a_hung_queue(&device, Config::default());
    let _at_last = AtLast(device.clone());
    let group = hung.group().clone();
    drop((submitter, other));
    group.preempt(false).expect("it runs");
    assert_eq!(group.try_restore_as(None), Ok(false), "it would only have to be stopped again");
    assert!(group.is_preempted() && !device.0.told.lock().contains(&"reactivate"));
    let (_submitter, late) = group.enable(Config::default()).expect("a queue");
    eventually("drained", || late.shared().is_quiesced());
    assert_eq!(group.try_restore_as(None), Ok(true));
    assert_eq!((late.shared().is_held(), hung.shared().is_lagging()), (false, true));
}

/// A queue whose worker hangs in a call of the driver.
fn with_a_hung_worker(device: &Fake, call: Call) -> (Submitter<Fake>, VirtualQueue<Fake>) {
    const TIMEOUT: Duration = Duration::from_millis(50);
    device.0.be_hangs.store(true, Ordering::SeqCst);
    let config = Config::default().level(PreemptLevel::All).drain_timeout(TIMEOUT);
    let (mut submitter, queue) = VirtualQueue::enable(device, config).expect("a queue");
    if call == Call::Drain(By::Worker) {
        submitter.submit(kernel()).expect("room");
        eventually("launched", || queue.shared().launcher().commands.in_flight() == 1);
    }
    device.0.hang.set(Some(call));
    if call == Call::Drain(By::Worker) {
        queue.preempt(false).expect("it runs");
    } else {
        submitter.submit(kernel()).expect("room");
    }
    eventually("it hangs", || device.0.hang.is_inside());
    (submitter, queue)
}

#[test]
fn drop_returns_while_the_worker_hangs_in_the_device() {
    let calls = [Call::Launch(BestEffort), Call::Completed(BestEffort), Call::Drain(By::Worker)];
    for (call, finishes) in calls.map(|call| [(call, false), (call, true)]).concat() {
        let device = Fake::default();
        let (submitter, queue) = with_a_hung_worker(&device, call);
        let _at_last = AtLast(device.clone());
        let group = queue.group().clone();
        let (done, ended) = channel();
        thread::spawn(move || {
            let finished = if finishes {
                queue.finish()
            } else {
                drop(queue);
                Ok(())
            };
            done.send(finished)
        });
        let finished = ended.recv_timeout(TEST_TIMEOUT).expect("it returns");
        assert_eq!(finished.is_err(), finishes, "{call:?}: {finished:?}");
        let error = submitter.wait(Seq(0)).unwrap_err();
        let is_hang = matches!(&error, Error::DeviceLost { why, .. } if why.contains("left alone"));
        assert!(is_hang, "{call:?}: {error}");
        assert!(device.0.hang.is_inside(), "{call:?}: it hangs still");
        assert_eq!(group.len(), 0, "no step is made with it");
        drop(group);
        device.0.hang.set(None);
        device.0.be_hangs.store(false, Ordering::SeqCst);
        drop(submitter);
        eventually("the worker ends", || Arc::strong_count(&device.0) == 2);
    }
}

/// Host code is not a call of the driver: it may take as long as it likes.
#[test]
fn drop_waits_for_host_code_beyond_the_drain_timeout() {
    const TIMEOUT: Duration = Duration::from_millis(20);
    let config = Config::default().drain_timeout(TIMEOUT);
    let (mut submitter, queue) = queue(&Fake::default(), config);
    let (begun, has_begun) = channel();
    let has_ended = Arc::new(AtomicBool::new(false));
    let ended = has_ended.clone();
    let code = move || {
        begun.send(()).expect("the test waits");
        thread::sleep(10 * TIMEOUT); // sleep: length of the code
        ended.store(true, Ordering::SeqCst);
    };
    submitter.submit(Command::Host(Arc::new(code))).expect("room");
    has_begun.recv_timeout(TEST_TIMEOUT).expect("it runs");
    drop(queue);
    assert!(has_ended.load(Ordering::SeqCst), "the code runs");
}

/// It is on the worker's thread, which completes nothing meanwhile.
#[test]
fn host_code_cannot_wait_for_its_own_queue() {
    let (mut submitter, _queue) = queue(&Fake::default(), Config::default().capacity(2));
    let place = Arc::new(Mutex::new(None::<Submitter<Fake>>));
    let ((said, says), own) = (channel(), place.clone());
    let code = move || {
        let mut guard = own.lock();
        let own = guard.as_mut().expect("it is in its place");
        let waits = [own.wait(Seq(1)), own.submit_blocking(kernel()).map(drop)];
        said.send(waits).expect("the test waits");
    };
    let mut held = place.lock();
    for command in [Command::Host(Arc::new(code)), kernel()] {
        assert!(submitter.submit(command).is_ok(), "room");
    }
    *held = Some(submitter);
    drop(held);
    let why = Error::state("waiting for a command", "host code of its own queue waits");
    let waits = says.recv_timeout(TEST_TIMEOUT).expect("it returns");
    assert_eq!(waits, [Err(why.clone()), Err(why)]);
    let submitter = place.lock().take().expect("it is in its place");
    assert_eq!(submitter.wait_timeout(Seq(1), TEST_TIMEOUT), Some(Ok(())), "and it goes on");
}
