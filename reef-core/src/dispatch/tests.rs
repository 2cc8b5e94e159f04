//! Clients of a device that is slow, refuses or panics.

use crate::backend::command::Command;
use crate::backend::error::{Error, Result};
use crate::backend::info::{Caps, Priority, Seq};
use crate::dispatch::be_client::BeClient;
use crate::dispatch::dispatcher::Dispatcher;
use crate::dispatch::padding_plan::Profile;
use crate::dispatch::queues::task::{Task, Timing};
use crate::dispatch::state::PassState;
use crate::dispatch::ticket::Ticket;
use crate::limits::ClientConfig;
use crate::scheduler::{Plan, Reef, RtShare, Scheduler, View, Width};
use crate::testing::fake::{AtLast, Fake, Script, eventually, kernel, launch, until_polled};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::task::{Context, Wake};
use std::thread;
use std::time::{Duration, Instant};

/// Time after which an immediate event would have happened.
const SETTLE_TIME: Duration = Duration::from_millis(50);
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn dispatcher(device: &Fake) -> Dispatcher<Fake> {
    Dispatcher::start(device, Reef::default()).expect("a dispatcher")
}

fn started() -> (Fake, Dispatcher<Fake>) {
    let device = Fake::default();
    let dispatcher = dispatcher(&device);
    (device, dispatcher)
}

fn script(device: &Fake) -> &Script {
    &device.0
}

fn task(commands: Vec<Command<Fake>>) -> Task<Fake> {
    Task::new(commands).expect("launches alone")
}

fn one_kernel() -> Task<Fake> {
    task(vec![kernel()])
}

/// Ends a ticket on a thread of its own, so that a test can stop waiting.
fn wait(ticket: Ticket<Fake>) -> Receiver<Result<Timing>> {
    on_a_thread(move || ticket.wait())
}

fn on_a_thread<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (done, result) = channel();
    thread::spawn(move || done.send(f()));
    result
}

/// A best-effort client with a kernel that the device has and doesn't finish.
fn busy_client(dispatcher: &Dispatcher<Fake>, device: &Fake) -> BeClient<Fake> {
    let client = busy_client_of(kernel(), dispatcher, device);
    eventually("launched", || in_flight(dispatcher) == 1);
    client
}

/// Number of commands that the device has of the first best-effort client.
fn in_flight(dispatcher: &Dispatcher<Fake>) -> u64 {
    let first = |state: &mut PassState<Fake>| {
        state.queues[0].queue.shared().launcher().commands.in_flight()
    };
    dispatcher.dispatch.with(first).expect("nothing hangs")
}

fn busy_client_of(
    command: Command<Fake>,
    dispatcher: &Dispatcher<Fake>,
    device: &Fake,
) -> BeClient<Fake> {
    script(device).be_hangs.store(true, Ordering::SeqCst);
    let mut client = dispatcher.best_effort(ClientConfig::default()).expect("a client");
    client.submit(&[command]).expect("room");
    client
}

/// Kind of a stop of the device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Call,
    Room,
    Words,
}

/// A launch comes before the device is told to evict and to reset, or after. It is told to
/// reactivate between two.
#[test]
fn stop_precedes_or_follows_a_launch_by_their_kinds() {
    let two = || task(vec![kernel(), kernel()]);
    let cases = [
        (one_kernel(), Stop::Call, [2, 3]),
        (one_kernel(), Stop::Room, [2, 5]),
        (two(), Stop::Call, [2, 5]),
        // A first launch may wait for what was stopped, and nothing would let that go on.
        (one_kernel(), Stop::Words, [0, 5]),
        (two(), Stop::Words, [0, 5]),
    ];
    for (task, stop, told) in cases {
        let device = Fake::default();
        script(&device).needs_room.store(stop == Stop::Room, Ordering::SeqCst);
        script(&device).stops_by_words.store(stop == Stop::Words, Ordering::SeqCst);
        let dispatcher = dispatcher(&device);
        let _be = busy_client(&dispatcher, &device);
        let _at_last = AtLast(device.clone());
        let mut client = dispatcher.real_time().expect("a client");
        for _ in 0..2 {
            client.run(&task).expect("it runs");
            eventually("restored", || script(&device).told.lock().last() == Some(&"reactivate"));
            eventually("launched again", || in_flight(&dispatcher) == 1);
        }
        assert!(script(&device).told.lock().starts_with(&["evict", "reset", "reactivate"]));
        let after = script(&device).rt_launched_after.lock().clone();
        assert_eq!([after[0], after[after.len() / 2]], told, "the first of each run");
    }
}

#[test]
fn transient_refusal_to_evict_is_retried() {
    let (device, dispatcher) = started();
    let _be = busy_client(&dispatcher, &device);
    let _at_last = AtLast(device.clone());
    script(&device).evict_fails.store(1, Ordering::SeqCst);
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let mut rt = dispatcher.real_time().expect("a client");
    let first = wait(rt.submit(&one_kernel()).expect("room"));
    eventually("evicted at the second try", || script(&device).told.lock().contains(&"evict"));
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    first.recv_timeout(TEST_TIMEOUT).expect("it ends").expect("it ran, preempted or not");
    rt.run(&one_kernel()).expect("real-time work goes on");
    assert_eq!(dispatcher.stats().retries, 1);
    assert!(dispatcher.stats().preemptions >= 1);
}

#[test]
fn transient_refusal_to_reset_is_retried() {
    let (device, dispatcher) = started();
    let _be = busy_client(&dispatcher, &device);
    let _at_last = AtLast(device.clone());
    script(&device).reset_fails.store(1, Ordering::SeqCst);
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let mut rt = dispatcher.real_time().expect("a client");
    let first = wait(rt.submit(&one_kernel()).expect("room"));
    eventually("reset at the second try", || script(&device).told.lock().contains(&"reset"));
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    first.recv_timeout(TEST_TIMEOUT).expect("it ends").expect("it ran");
    let evictions = script(&device).told.lock().iter().filter(|call| **call == "evict").count();
    assert_eq!((evictions, dispatcher.stats().preemptions), (1, 1), "one preemption, one retry");
}

#[test]
fn transient_refusal_to_reactivate_only_delays() {
    let (device, dispatcher) = started();
    let be = busy_client(&dispatcher, &device);
    let _at_last = AtLast(device.clone());
    // Once: a second refusal would be of a lost device if a thread had no processor in between.
    script(&device).reactivate_fails.store(1, Ordering::SeqCst);
    let mut rt = dispatcher.real_time().expect("a client");
    rt.run(&one_kernel()).expect("it runs");
    script(&device).be_hangs.store(false, Ordering::SeqCst);
    assert_eq!(be.wait_timeout(Seq(0), TEST_TIMEOUT), Some(Ok(())), "best-effort work goes on");
    rt.run(&one_kernel()).expect("so does real-time work");
    eventually("asked again", || dispatcher.stats().retries >= 1);
}

#[test]
fn panic_of_the_device_fails_only_its_task() {
    let (device, dispatcher) = started();
    script(&device).rt_launch_panics.store(1, Ordering::SeqCst);
    let mut rt = dispatcher.real_time().expect("a client");
    let ticket = wait(rt.submit(&one_kernel()).expect("room"));
    let outcome = ticket.recv_timeout(TEST_TIMEOUT).expect("its ticket completes");
    assert_eq!(outcome, Err(Error::state("a real-time queue of the device", "it panicked")));
    rt.run(&one_kernel()).expect("the next one has a fresh queue");
}

/// The old queue stays, and what the device has of it may still write memory.
#[test]
fn task_of_a_queue_that_cannot_be_replaced_is_lost() {
    let (device, dispatcher) = started();
    script(&device).rt_launch_panics.store(1, Ordering::SeqCst);
    script(&device).open_fails.store(1, Ordering::SeqCst);
    let mut rt = dispatcher.real_time().expect("a client");
    let ticket = wait(rt.submit(&one_kernel()).expect("room"));
    let outcome = ticket.recv_timeout(TEST_TIMEOUT).expect("its ticket completes");
    let is_lost = |why: &str| why.contains("it panicked") && why.contains("cannot be opened");
    let lost = matches!(&outcome, Err(Error::DeviceLost { why, .. }) if is_lost(why));
    assert!(lost, "{outcome:?}");
}

#[test]
fn real_time_work_starts_during_a_blocked_best_effort_launch() {
    let (device, dispatcher) = started();
    script(&device).be_launch_blocks.store(true, Ordering::SeqCst);
    let mut be = dispatcher.best_effort(ClientConfig::default()).expect("a client");
    be.submit(&[kernel()]).expect("room");
    let _at_last = AtLast(device.clone());
    eventually("inside of the launch", || {
        script(&device).be_launches_blocked.load(Ordering::SeqCst) > 0
    });
    let mut rt = dispatcher.real_time().expect("a client");
    let outcome = on_a_thread(move || rt.run(&one_kernel())).recv_timeout(TEST_TIMEOUT);
    script(&device).be_launch_blocks.store(false, Ordering::SeqCst);
    outcome.expect("no lock of the launch is in its way").expect("no error");
}

/// Eight of the kernel's blocks leave no unit free, two do.
fn profiled(blocks: u32) -> Command<Fake> {
    let profile = Profile { blocks, micros: 100, round_micros: vec![10], ..Profile::default() };
    Command::Launch(launch(blocks).with_profile(Arc::new(profile)))
}

/// Ends the kernels of a task of 30, one after the other, until one that follows is padded: a
/// worker that is just at its queue keeps one from that, and is waited for before the next ends.
fn end_kernels_until_one_is_padded(dispatcher: &Dispatcher<Fake>, device: &Fake) {
    let launched = || script(device).rt_launched_after.lock().len();
    let wait_for_workers = |state: &mut PassState<Fake>| {
        state.queues.iter().for_each(|queue| drop(queue.queue.shared().launcher()));
    };
    for hangs_at in 2..30 {
        if script(device).padded.load(Ordering::SeqCst) > 0 {
            return;
        }
        dispatcher.dispatch.with(wait_for_workers).expect("nothing hangs");
        let before = launched();
        script(device).rt_hangs_at.store(hangs_at, Ordering::SeqCst);
        eventually("the next is launched", || launched() > before);
    }
    panic!("none was padded");
}

#[test]
fn dropped_client_waits_for_its_blocks_used_as_padding() {
    let (device, dispatcher) = started();
    let be = busy_client_of(profiled(64), &dispatcher, &device);
    let _at_last = AtLast(device.clone());
    // Position 0 is an event. Kernels 1 and 2 run unpadded, as best-effort work is only being
    // stopped; each later one waits until the one before the last has ended, and is padded.
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let mut rt = dispatcher.real_time().expect("a client");
    let ticket = rt.submit(&task((0..30).map(|_| profiled(2)).collect())).expect("room");
    eventually("quiesced", || dispatcher.dispatch.group.is_quiesced());
    end_kernels_until_one_is_padded(&dispatcher, &device);
    let dropped = on_a_thread(move || drop(be));
    // A busy machine needs time to start a thread.
    let early = dropped.recv_timeout(10 * SETTLE_TIME);
    assert_eq!(early, Err(RecvTimeoutError::Timeout), "its blocks run");
    script(&device).be_hangs.store(false, Ordering::SeqCst);
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    dropped.recv_timeout(TEST_TIMEOUT).expect("it returns when they have ended");
    ticket.wait().expect("no error");
}

#[test]
fn unlaunched_rest_of_a_task_can_be_cancelled() {
    let (device, dispatcher) = started();
    let _be = busy_client_of(profiled(64), &dispatcher, &device);
    let _at_last = AtLast(device.clone());
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let mut rt = dispatcher.real_time().expect("a client");
    // Two of the kernels are launched; the others wait until they can be padded.
    let ticket = rt.submit(&task((0..30).map(|_| profiled(2)).collect())).expect("room");
    assert!(ticket.cancel(), "not all of it is launched");
    assert!(!ticket.cancel(), "what is left runs");
    assert_eq!(ticket.wait_timeout(SETTLE_TIME), None, "its memory is in use");
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    assert_eq!(ticket.wait(), Err(Error::Cancelled));
    assert_eq!(rt.account().usage().tasks, 1, "it is charged");
    rt.run(&one_kernel()).expect("the next one starts");
}

/// Schedulers let tasks age, and order them by their times.
#[test]
fn parked_commands_are_a_task_of_their_new_client() {
    let (device, dispatcher) = started();
    let be = busy_client(&dispatcher, &device);
    let parked = be.park().map_err(|(error, _)| error).expect("it stops");
    let before = dispatcher.dispatch.now();
    let _be = dispatcher.best_effort_parked(ClientConfig::default(), parked).expect("a client");
    let _at_last = AtLast(device.clone());
    let task = || dispatcher.dispatch.with(|state| state.queues[0].view().task).flatten();
    eventually("it has a task", || {
        task().is_some_and(|task| task.since >= before && task.end == Seq(1))
    });
}

#[test]
fn task_longer_than_the_queue_is_submitted() {
    let (_device, dispatcher) = started();
    let mut config = ClientConfig::default();
    (config.queue.capacity, config.queue.window) = (1, 1);
    let mut be = dispatcher.best_effort(config).expect("a client");
    for _ in 0..if cfg!(miri) { 5 } else { 500 } {
        be.submit(&[kernel(), kernel(), kernel()]).expect("the queue waits for room");
    }
    be.run(&[kernel()]).expect("no error");
}

#[test]
fn dropped_dispatcher_finishes_running_and_cancels_waiting() {
    let (device, dispatcher) = started();
    let _be = busy_client_of(profiled(64), &dispatcher, &device);
    let _at_last = AtLast(device.clone());
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let rt = dispatcher.real_time().expect("a client");
    let runs = rt.clone().submit(&task(vec![kernel(), kernel()])).expect("room");
    // Its last kernels wait until they can be padded, so it is fed in part, and the next waits for
    // it.
    let fed = rt.clone().submit(&task((0..30).map(|_| profiled(2)).collect())).expect("room");
    let waits = rt.clone().submit(&one_kernel()).expect("room");
    let dispatch = dispatcher.dispatch.clone();
    let dropped = on_a_thread(move || drop(dispatcher));
    let is_closed = || dispatch.with(|state| state.closed.is_some()).expect("nothing hangs");
    eventually("nothing more is fed", is_closed);
    assert!(dropped.recv_timeout(SETTLE_TIME).is_err(), "the device still has work");
    assert_eq!(runs.wait_timeout(Duration::ZERO), None);
    script(&device).be_hangs.store(false, Ordering::SeqCst);
    assert!(dropped.recv_timeout(SETTLE_TIME).is_err(), "real-time work is still there");
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    dropped.recv_timeout(TEST_TIMEOUT).expect("it returns");
    assert!(runs.wait().is_ok(), "it was on the device");
    assert_eq!(fed.wait(), Err(Error::Cancelled));
    assert_eq!(waits.wait(), Err(Error::Cancelled));
}

/// Value that a task owns.
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        assert!(thread::panicking(), "on purpose");
    }
}

#[test]
fn task_whose_drop_panics_in_a_pass_ends_no_other() {
    let (device, dispatcher) = started();
    let _at_last = AtLast(device.clone());
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let owned = PanicsWhenDropped;
    // Real-time tasks have no host code: here it is what a kernel may own.
    let owner = Command::Host(Arc::new(move || {
        let _owned = &owned;
    }));
    let owns = Task { commands: vec![kernel(), owner].into(), ..one_kernel() };
    let mut rt = dispatcher.real_time().expect("a client");
    let ticket = rt.submit(&owns).expect("room");
    drop(owns); // the pass that notes the end of the task has the last of it
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    ticket.wait().expect("it ends");
    rt.run(&one_kernel()).expect("the dispatcher goes on");
}

/// A device that wakes no thread is polled, whether or not a client waits.
#[test]
fn task_ends_without_a_waiting_client() {
    let (device, dispatcher) = started();
    let _at_last = AtLast(device.clone());
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let ticket = dispatcher.real_time().expect("a client").submit(&one_kernel()).expect("room");
    until_polled(&device, 100); // later than any pass that the task itself has caused
    assert_eq!(ticket.try_wait(), None, "the device has not ended it");
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    eventually("ended", || ticket.try_wait().is_some());
    eventually("counted", || dispatcher.stats().rt_finished == 1);
}

/// Nothing reports the end of a pause: the dispatcher wakes by itself.
#[test]
fn capped_queues_widen_after_a_pause_of_real_time_work() {
    let device = Fake::default();
    script(&device).capped.store(2, Ordering::SeqCst);
    let dispatcher = dispatcher(&device);
    let _be = busy_client(&dispatcher, &device);
    let _at_last = AtLast(device.clone());
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let ticket = dispatcher.real_time().expect("a client").submit(&one_kernel()).expect("room");
    eventually("real-time work lasts", || dispatcher.stats().padded_launches == 1);
    eventually("launched next to it", || in_flight(&dispatcher) == 1);
    let before = script(&device).told.lock().len();
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    ticket.wait().expect("it ends");
    let since = || script(&device).told.lock()[before..].to_vec();
    eventually("stopped once more, and restored", || since() == ["evict", "reset", "reactivate"]);
    assert_eq!(dispatcher.stats().preemptions, 1, "widening does not count as a preemption");
}

/// REEF with a width that a test changes: a part of the units in percent; without padding at 0.
#[derive(Debug)]
struct Narrow(Reef, Arc<AtomicU32>);

impl Scheduler for Narrow {
    fn name(&self) -> &'static str {
        "narrow"
    }

    fn decide(&mut self, now: Duration, view: &View<'_>, plan: &mut Plan) {
        self.0.decide(now, view, plan);
        let percent = self.1.load(Ordering::SeqCst);
        (plan.pad, plan.width) = (percent > 0, Width::Units { percent });
    }
}

/// While the reserve is paid back, tasks wait and best-effort work has the device: it isn't capped
/// then, or the debt stays and they wait for ever.
#[test]
fn reserve_is_paid_back_to_queues_that_ran_capped() {
    let device = Fake::default();
    script(&device).capped.store(2, Ordering::SeqCst);
    let percent = Arc::new(AtomicU32::new(0)); // no padding
    let share = RtShare::new(Box::new(Narrow(Reef::default(), percent.clone())), 0.3);
    let dispatcher = Dispatcher::start(&device, share).expect("a dispatcher");
    let _be = busy_client(&dispatcher, &device);
    let _at_last = AtLast(device.clone());
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let mut clients = [(); 2].map(|()| dispatcher.real_time().expect("a client"));
    let [first, second] = clients.each_mut().map(|rt| rt.submit(&one_kernel()).expect("room"));
    // sleep: length of the task, of which best-effort work is owed 30 %; a longer one is owed more
    thread::sleep(10 * SETTLE_TIME);
    percent.store(100, Ordering::SeqCst);
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    let first = first.wait().expect("it ends");
    let second = second.wait_timeout(TEST_TIMEOUT).expect("it waits for ever").expect("it ends");
    let [first, second] = [first, second].map(|timing| timing.submitted + timing.total);
    assert!(second >= first + 2 * SETTLE_TIME, "the reserve is paid back first");
}

#[test]
fn width_of_a_plan_bounds_the_caps() {
    let device = Fake::default(); // of four units
    script(&device).capped.store(9, Ordering::SeqCst);
    let percent = Arc::new(AtomicU32::new(50));
    let narrow = Box::new(Narrow(Reef::default(), percent.clone()));
    let dispatcher = Dispatcher::start(&device, narrow).expect("a dispatcher");
    let _at_last = AtLast(device.clone());
    let _be = busy_client(&dispatcher, &device);
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let ticket = dispatcher.real_time().expect("a client").submit(&one_kernel()).expect("room");
    for (part, blocks) in [(50, 2), (1, 1), (75, 3), (1000, 9)] {
        percent.store(part, Ordering::SeqCst);
        let caps = || dispatcher.dispatch.group.current_caps();
        eventually("as wide as planned", || {
            dispatcher.run_pass();
            caps() == Some(Caps::all(blocks)) && !dispatcher.is_preempted()
        });
    }
    assert_eq!(dispatcher.stats().preemptions, 1, "another width does not count as a preemption");
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    ticket.wait().expect("it ends");
}

/// REEF, and best-effort work neither preempted nor capped while a test says so.
#[derive(Debug)]
struct Uncapped(Reef, Arc<AtomicBool>);

impl Scheduler for Uncapped {
    fn name(&self) -> &'static str {
        "uncapped"
    }

    fn decide(&mut self, now: Duration, view: &View<'_>, plan: &mut Plan) {
        self.0.decide(now, view, plan);
        assert_eq!(view.caps, Some(Caps::all(9)), "of a device that caps");
        if self.1.load(Ordering::SeqCst) {
            (plan.preempt, plan.pad) = (false, false);
        }
    }
}

#[test]
fn queues_run_uncapped_and_capped_again_next_to_a_task() {
    let device = Fake::default();
    script(&device).capped.store(9, Ordering::SeqCst);
    let is_uncapped = Arc::new(AtomicBool::new(false));
    let scheduler = Uncapped(Reef::default(), is_uncapped.clone());
    let dispatcher = Dispatcher::start(&device, scheduler).expect("a dispatcher");
    let _at_last = AtLast(device.clone());
    let _be = busy_client(&dispatcher, &device);
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let ticket = dispatcher.real_time().expect("a client").submit(&one_kernel()).expect("room");
    let caps = || dispatcher.dispatch.group.current_caps();
    for uncapped in [false, true, false] {
        is_uncapped.store(uncapped, Ordering::SeqCst);
        let wanted = (!uncapped).then_some(Caps::all(9));
        eventually("as planned", || {
            dispatcher.run_pass();
            caps() == wanted && !dispatcher.is_preempted()
        });
    }
    assert_eq!(dispatcher.stats().preemptions, 2, "that of the task, and that of the fall");
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    ticket.wait().expect("it ends");
}

/// REEF with parts of the units next to real-time work.
#[derive(Debug)]
struct InParts(Reef);

impl Scheduler for InParts {
    fn name(&self) -> &'static str {
        "in-parts"
    }

    fn decide(&mut self, now: Duration, view: &View<'_>, plan: &mut Plan) {
        self.0.decide(now, view, plan);
        plan.width = Width::Parts { real_time: 85, best_effort: 40 };
    }
}

/// Tells which parts the queues of a device were told, next to real-time work that lasts.
fn parts_told(has_parts: bool, has_be_work: bool) -> Vec<(Priority, u32)> {
    let device = Fake::default();
    script(&device).capped.store(9, Ordering::SeqCst);
    script(&device).has_parts.store(has_parts, Ordering::SeqCst);
    let dispatcher = Dispatcher::start(&device, InParts(Reef::default())).expect("a dispatcher");
    let _at_last = AtLast(device.clone());
    let _be = has_be_work.then(|| busy_client(&dispatcher, &device));
    let mut rt = dispatcher.real_time().expect("a client");
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let ticket = rt.submit(&one_kernel()).expect("room");
    let caps = || dispatcher.dispatch.group.current_caps();
    eventually("best-effort work goes on next to it", || {
        dispatcher.run_pass();
        caps().is_some() && !dispatcher.is_preempted()
    });
    (0..100).for_each(|_| dispatcher.run_pass());
    let percent = if has_parts { 40 } else { 100 };
    assert_eq!(caps().map(|caps| caps.percent), Some(percent));
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    ticket.wait().expect("it ends");
    script(&device).parts.lock().clone()
}

#[test]
fn graphs_of_both_classes_run_on_the_parts_of_the_plan() {
    let told = parts_told(true, true);
    assert!(told.contains(&(Priority::RealTime, 85)), "{told:?}");
    assert_eq!(parts_told(false, true), [], "a device without parts");
}

#[test]
fn real_time_graphs_have_all_units_while_alone() {
    let told = parts_told(true, false);
    assert!(!told.contains(&(Priority::RealTime, 85)), "{told:?}");
}

#[test]
fn capped_queue_is_stopped_again_to_measure_its_blocks() {
    let device = Fake::default();
    script(&device).capped.store(9, Ordering::SeqCst);
    script(&device).capped_long.store(3, Ordering::SeqCst);
    let dispatcher = dispatcher(&device);
    let _at_last = AtLast(device.clone());
    let _be = busy_client(&dispatcher, &device);
    let mut rt = dispatcher.real_time().expect("a client");
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let ticket = rt.submit(&one_kernel()).expect("room");
    eventually("capped, then capped again", || dispatcher.stats().padded_launches >= 3);
    assert_eq!(dispatcher.stats().preemptions, 1, "measuring does not count as a preemption");
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    ticket.wait().expect("it ends");
}

/// The device ends a silent queue by itself, as with a timeout of its own.
#[test]
fn queue_that_abandons_itself_counts_as_abandoned() {
    let (device, dispatcher) = started();
    script(&device).be_hangs.store(true, Ordering::SeqCst);
    let mut silent = dispatcher.best_effort(ClientConfig::default()).expect("a client");
    let _at_last = AtLast(device.clone());
    silent.submit(&[kernel()]).expect("room");
    eventually("launched", || in_flight(&dispatcher) == 1);
    assert_eq!(dispatcher.stats().abandoned, 0);
    script(&device).be_times_out.store(true, Ordering::SeqCst);
    let error = silent.wait(Seq(0)).unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert_eq!(dispatcher.stats().abandoned, 1);
    drop(silent);
    assert_eq!(dispatcher.stats().abandoned, 1, "it still is");
}

#[test]
fn best_effort_work_resumes_next_to_a_hung_kernel() {
    // A round may take longer than the first limit if a thread has no processor.
    let mut limits = [40 * SETTLE_TIME, TEST_TIMEOUT / 2].into_iter();
    assert!(limits.any(|limit| rounds_next_to_a_hung_kernel(limit) > 1), "it waits for the limit");
}

/// The first client's kernel never ends; the other has work. Returns how often that ran before the
/// first was abandoned, which has this time to stop.
fn rounds_next_to_a_hung_kernel(limit: Duration) -> u64 {
    let (device, dispatcher) = started();
    script(&device).hung.store(2, Ordering::SeqCst); // the first queue is the real-time one
    let mut config = ClientConfig::default();
    config.queue = config.queue.drain_timeout(limit);
    let mut stuck = dispatcher.best_effort(config).expect("a client");
    let _at_last = AtLast(device.clone());
    stuck.submit(&[kernel()]).expect("room");
    eventually("launched", || in_flight(&dispatcher) == 1);
    let mut other = dispatcher.best_effort(ClientConfig::default()).expect("a client");
    let mut rt = dispatcher.real_time().expect("a client");
    let (begin, mut rounds) = (Instant::now(), 0);
    while stuck.wait_timeout(Seq(0), Duration::ZERO).is_none() {
        rt.run(&one_kernel()).expect("real-time work runs");
        let last = other.submit(&[kernel()]).expect("room");
        assert_eq!(
            other.wait_timeout(last, TEST_TIMEOUT),
            Some(Ok(())),
            "it is not held by the other"
        );
        rounds += 1;
    }
    assert!(begin.elapsed() >= limit);
    let error = stuck.wait(Seq(0)).unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert_eq!(dispatcher.stats().abandoned, 1);
    assert_eq!(stuck.close(), Err(error), "its kernel may still run");
    assert_eq!(dispatcher.stats().abandoned, 1, "it still is");
    let preemptions = dispatcher.stats().preemptions; // one may serve two rounds
    assert!(preemptions >= rounds / 2, "{preemptions} in {rounds} rounds");
    other.run(&[kernel()]).expect("it goes on");
    assert_eq!(other.close(), Ok(()));
    rounds
}

#[test]
fn kernels_are_padded_with_blocks_of_drained_clients() {
    let (device, dispatcher) = started();
    script(&device).hung.store(2, Ordering::SeqCst);
    let mut stuck = dispatcher.best_effort(ClientConfig::default()).expect("a client");
    stuck.submit(&[kernel()]).expect("room");
    eventually("launched", || in_flight(&dispatcher) == 1);
    let mut other = busy_client_of(profiled(64), &dispatcher, &device);
    let _at_last = AtLast(device.clone());
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let mut rt = dispatcher.real_time().expect("a client");
    let ticket = rt.submit(&task((0..30).map(|_| profiled(2)).collect())).expect("room");
    end_kernels_until_one_is_padded(&dispatcher, &device);
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    script(&device).be_hangs.store(false, Ordering::SeqCst);
    ticket.wait().expect("it ends");
    other.run(&[kernel()]).expect("it goes on");
}

/// A queue that runs its kernel from the first block on needs no checkpoint of it.
#[test]
fn real_time_kernels_run_unpadded_without_a_checkpoint() {
    let (device, dispatcher) = started();
    script(&device).checkpoint_fails.store(u32::MAX, Ordering::SeqCst);
    let _be = busy_client_of(profiled(64), &dispatcher, &device);
    let _at_last = AtLast(device.clone());
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let mut rt = dispatcher.real_time().expect("a client");
    let ticket = rt.submit(&task((0..30).map(|_| profiled(2)).collect())).expect("room");
    eventually("quiesced", || dispatcher.dispatch.group.is_quiesced());
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    ticket.wait().expect("it runs unpadded");
    assert_eq!(dispatcher.stats().padded_launches, 0);
}

/// Padding takes calls of the driver, and its kernels wait for those ahead: short ones don't.
#[test]
fn kernels_shorter_than_the_device_pads_run_unpadded_at_once() {
    let device = Fake::default();
    script(&device).padded_micros.store(101, Ordering::SeqCst);
    let dispatcher = dispatcher(&device);
    let _be = busy_client_of(profiled(64), &dispatcher, &device);
    let _at_last = AtLast(device.clone());
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let mut rt = dispatcher.real_time().expect("a client");
    let ticket = rt.submit(&task((0..30).map(|_| profiled(2)).collect())).expect("room");
    eventually("all are launched", || script(&device).rt_launched_after.lock().len() >= 30);
    script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
    ticket.wait().expect("it ends");
    assert_eq!(dispatcher.stats().padded_launches, 0);
}

/// An executor's waker that asks the dispatcher for something.
struct Asks {
    dispatcher: Dispatcher<Fake>,
    /// Commands of real-time queues that had been launched when it woke its task.
    launched: Mutex<Option<usize>>,
}

impl Wake for Asks {
    fn wake(self: Arc<Self>) {
        self.dispatcher.stats();
        let launched = script(&self.dispatcher.dispatch.device).rt_launched_after.lock().len();
        *self.launched.lock() = Some(launched);
    }
}

#[test]
fn wakers_run_after_the_pass_launching_new_work() {
    let device = Fake::default();
    script(&device).claims_to_wake.store(true, Ordering::SeqCst); // passes are the client's alone
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let asks = Arc::new(Asks { dispatcher: dispatcher(&device), launched: Mutex::default() });
    let _at_last = AtLast(device.clone());
    let mut rt = asks.dispatcher.real_time().expect("a client");
    let mut first = rt.submit(&one_kernel()).expect("room");
    let waker = asks.clone().into();
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&waker)).is_pending());
    let launched = || script(&device).rt_launched_after.lock().len();
    let before = launched();
    let dispatch = &asks.dispatcher.dispatch;
    // No pass is made meanwhile, so the next one finds both: the end, and the second task.
    let second = dispatch.with(|_| {
        script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
        let second = on_a_thread(move || rt.submit(&one_kernel()).map(drop));
        eventually("asked for", || !dispatch.inbox.is_empty());
        second
    });
    let second = second.expect("nothing hangs");
    second.recv_timeout(TEST_TIMEOUT).expect("a waker may ask").expect("room");
    // The service thread may have been about to make a pass, and then makes this one.
    eventually("woken", || asks.launched.lock().is_some());
    assert!(first.try_wait().is_some(), "noted by the second's pass");
    assert_eq!((*asks.launched.lock(), launched() > before), (Some(launched()), true));
}

#[test]
fn task_is_prepared_once_before_its_first_pass() {
    let (device, dispatcher) = started();
    let prepared = || script(&device).prepared.load(Ordering::SeqCst);
    let mut rt = dispatcher.real_time().expect("a client");
    let (one, two) = (one_kernel(), task(vec![kernel(), kernel()]));
    for (task, count) in [(&one, 1), (&one, 1), (&two, 3), (&one, 3), (&two.clone(), 3)] {
        rt.run(task).expect("it runs");
        assert_eq!(prepared(), count, "tasks in turn are not new");
    }
    rt.clone().run(&two).expect("it runs");
    assert_eq!(prepared(), 3, "nor are they to another thread's client");
    dispatcher.dispatch.with(|_| ()); // a pass prepares nothing
    rt.prepare(&one).expect("nothing fails");
    assert_eq!(prepared(), 4);
}

#[test]
fn task_is_prepared_again_after_a_failure_and_elsewhere() {
    let device = Fake::default();
    let dispatchers = [(); 2].map(|()| dispatcher(&device));
    let prepared = || script(&device).prepared.load(Ordering::SeqCst);
    let [mut here, mut there] = dispatchers.each_ref().map(|d| d.real_time().expect("a client"));
    let task = one_kernel();
    here.run(&task).expect("it runs");
    script(&device).rt_launch_panics.store(1, Ordering::SeqCst);
    here.run(&task).expect_err("it fails");
    here.run(&task).expect("it runs");
    assert_eq!(prepared(), 2);
    there.run(&task).expect("it runs");
    assert_eq!(prepared(), 3, "another dispatcher's queue is of another class");
}

/// REEF that panics when a task has ended; the device ends the next one meanwhile.
#[derive(Debug)]
struct PanicsAtEnd(Reef, Fake);

impl Scheduler for PanicsAtEnd {
    fn name(&self) -> &'static str {
        "panics at an end"
    }

    fn decide(&mut self, now: Duration, view: &View<'_>, plan: &mut Plan) {
        if !view.rt_ended.is_empty() {
            script(&self.1).rt_hangs_at.store(0, Ordering::SeqCst);
            panic!("on purpose");
        }
        self.0.decide(now, view, plan);
    }
}

/// The device wakes no thread a second time for what it has told.
#[test]
fn scheduler_that_panics_leaves_no_ticket_and_no_hold() {
    let device = Fake::default();
    script(&device).claims_to_wake.store(true, Ordering::SeqCst); // passes are the test's alone
    let panics = PanicsAtEnd(Reef::default(), device.clone());
    let dispatcher = Dispatcher::start(&device, panics).expect("a dispatcher");
    let _at_last = AtLast(device.clone());
    script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
    let rt = dispatcher.real_time().expect("a client");
    // Four positions each: both events, the kernel, and one that is not used.
    let [first, second] = [(); 2].map(|()| rt.clone().submit(&one_kernel()).expect("room"));
    eventually("preempted", || dispatcher.is_preempted()); // by the service thread's first pass too
    assert_eq!(first.try_wait(), None);
    script(&device).rt_hangs_at.store(5, Ordering::SeqCst);
    dispatcher.run_pass();
    eventually("both end", || first.try_wait().is_some() && second.try_wait().is_some());
    eventually("best-effort work is released", || !dispatcher.is_preempted());
}

/// A waker on the service thread, and one on a client's.
#[test]
fn waker_that_panics_ends_no_thread_of_the_dispatcher() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let (device, dispatcher) = started();
    let _at_last = AtLast(device.clone());
    let mut rt = dispatcher.real_time().expect("a client");
    for _ in 0..3 {
        script(&device).rt_hangs_at.store(1, Ordering::SeqCst);
        let mut ticket = rt.submit(&one_kernel()).expect("room");
        let waker = Arc::new(Panics).into();
        assert!(Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)).is_pending());
        script(&device).rt_hangs_at.store(0, Ordering::SeqCst);
        eventually("ended by the service thread", || ticket.try_wait().is_some());
    }
    eventually("counted", || dispatcher.stats().rt_finished == 3);
}
