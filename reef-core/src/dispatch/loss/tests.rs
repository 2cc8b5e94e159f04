//! Devices that refuse, are marked lost, or hang.

use super::REFUSAL_TIMEOUT;
use crate::backend::error::{Error, Result};
use crate::backend::info::{Priority, Seq};
use crate::dispatch::be_client::BeClient;
use crate::dispatch::dispatcher::Dispatcher;
use crate::dispatch::queues::task::Task;
use crate::dispatch::rt_client::RtClient;
use crate::dispatch::watch::{HANG_TIMEOUT, watch};
use crate::limits::ClientConfig;
use crate::scheduler::Reef;
use crate::testing::fake::{AtLast, By, Call, Fake, eventually, kernel};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake};
use std::thread;
use std::time::{Duration, Instant};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn lost() -> Error {
    Error::DeviceLost { backend: "fake", why: "reactivate".into() }
}

/// A best-effort client whose kernel was taken back for a task, on a device that refuses to restore
/// it; and the real-time client of the task.
fn never_restored(
    dispatcher: &Dispatcher<Fake>,
    device: &Fake,
) -> (BeClient<Fake>, RtClient<Fake>, Task<Fake>) {
    let mut be = dispatcher.best_effort(ClientConfig::default()).expect("a client");
    let at_last = AtLast(device.clone());
    device.0.be_hangs.store(true, Ordering::SeqCst);
    be.submit(&[kernel()]).expect("room");
    device.0.reactivate_fails.store(u32::MAX, Ordering::SeqCst);
    let mut rt = dispatcher.real_time().expect("a client");
    let task = Task::new(vec![kernel()]).expect("a kernel");
    rt.run(&task).expect("its queue works");
    // Else the kernel ends before it is taken back.
    eventually("taken back", || device.0.drains.load(Ordering::SeqCst) > 0);
    drop(at_last);
    (be, rt, task)
}

#[test]
fn best_effort_work_of_a_device_never_restored_ends() {
    let device = Fake::default();
    let dispatcher = Dispatcher::start(&device, Reef::default()).expect("it starts");
    let (be, mut rt, task) = never_restored(&dispatcher, &device);
    assert_eq!(be.wait_timeout(Seq(0), TEST_TIMEOUT), Some(Err(lost())));
    eventually("abandoned", || dispatcher.best_effort(ClientConfig::default()).is_err());
    assert_eq!(rt.run(&task), Err(lost()), "so are later tasks");
    let retries = dispatcher.stats().retries;
    (0..100).for_each(|_| dispatcher.run_pass());
    assert_eq!(dispatcher.stats().retries, retries, "it is not asked any more");
}

/// Passes of real-time work don't ask the device to restore; that they succeed is not an answer
/// of the device.
#[test]
fn device_never_restoring_is_lost_between_real_time_tasks() {
    let device = Fake::default();
    let dispatcher = Dispatcher::start(&device, Reef::default()).expect("it starts");
    let (be, mut rt, task) = never_restored(&dispatcher, &device);
    let begin = Instant::now();
    while rt.run(&task).is_ok() {
        assert!(begin.elapsed() < TEST_TIMEOUT, "each task is taken for an answer");
        thread::sleep(REFUSAL_TIMEOUT / 20); // sleep: time for passes between the tasks
    }
    assert_eq!(be.wait_timeout(Seq(0), TEST_TIMEOUT), Some(Err(lost())));
}

#[test]
fn client_of_lost_device_gets_the_reason() {
    let device = Fake::default();
    let dispatcher = Dispatcher::start(&device, Reef::default()).expect("it starts");
    device.0.be_hangs.store(true, Ordering::SeqCst);
    let mut be = dispatcher.best_effort(ClientConfig::default()).expect("a client");
    let _at_last = AtLast(device.clone());
    be.submit(&[kernel(), kernel()]).expect("room");
    dispatcher.mark_lost(&lost());
    assert_eq!(be.wait_timeout(Seq(1), TEST_TIMEOUT), Some(Err(lost())), "it would wait for ever");
    assert_eq!(be.submit(&[kernel()]), Err(lost()));
    device.0.be_hangs.store(false, Ordering::SeqCst); // dropping waits for what the device has
}

/// A call that hangs is found after this time, in tests that wait for that. Others may take as long
/// on a busy machine.
const SHORT: Duration = Duration::from_millis(1000);

fn started(device: &Fake, timeout: Duration) -> Dispatcher<Fake> {
    Dispatcher::start_within(device, Box::new(Reef::default()), timeout).expect("it starts")
}

/// Returns what `f` does, which must not take long.
fn soon<T: Send + 'static>(what: &str, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    thread::spawn(move || done.send(f()));
    result.recv_timeout(TEST_TIMEOUT).unwrap_or_else(|_| panic!("{what}: it never returns"))
}

fn is_hang(error: &Error) -> bool {
    matches!(error, Error::DeviceLost { why, .. } if why.contains("has not returned for"))
}

/// An executor's task.
#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A best-effort client with a kernel that the device has.
fn busy(dispatcher: &Dispatcher<Fake>, device: &Fake) -> BeClient<Fake> {
    device.0.be_hangs.store(true, Ordering::SeqCst);
    let mut be = dispatcher.best_effort(ClientConfig::default()).expect("a client");
    let submitted = be.submit(&[kernel()]);
    eventually("launched", || submitted.is_ok() && is_launched(dispatcher));
    be
}

fn is_launched(dispatcher: &Dispatcher<Fake>) -> bool {
    let in_flight = dispatcher
        .dispatch
        .with(|state| state.queues[0].queue.shared().launcher().commands.in_flight());
    in_flight == Some(1)
}

/// A real-time client on a thread of its own, which `call` may keep; whether it does or another
/// thread's pass, one hangs when this returns. Returns the outcome of its task when that is over.
fn hang(
    call: Call,
    dispatcher: &Dispatcher<Fake>,
    device: &Fake,
) -> thread::JoinHandle<Result<()>> {
    if call == Call::Close || call == Call::Open {
        device.0.rt_launch_panics.store(1, Ordering::SeqCst); // its queue is replaced
    }
    device.0.hang.set(Some(call));
    let mut rt = dispatcher.real_time().expect("a client");
    let task = Task::new(vec![kernel(), kernel()]).expect("kernels");
    let client = thread::spawn({
        let device = device.clone();
        move || {
            // More than once if a worker drains its queue before a pass does.
            loop {
                let outcome = rt.run(&task).map(drop);
                if outcome.is_err() || device.0.hang.has_hung() {
                    return outcome;
                }
            }
        }
    });
    eventually("it hangs", || device.0.hang.is_inside());
    client
}

/// All calls that a pass makes.
const CALLS: [Call; 8] = [
    Call::Evict,
    Call::Reset,
    Call::Reactivate,
    Call::Open,
    Call::Close,
    Call::Launch(Priority::RealTime),
    Call::Completed(Priority::RealTime),
    Call::Drain(By::Pass),
];

#[test]
fn call_that_hangs_in_a_pass_keeps_its_own_client_alone() {
    for call in CALLS {
        let device = Fake::default();
        let dispatcher = started(&device, TEST_TIMEOUT);
        let mut be = busy(&dispatcher, &device);
        let _at_last = AtLast(device.clone());
        let mut rt = dispatcher.real_time().expect("a client");
        let hung = hang(call, &dispatcher, &device);
        let (_watches, unwatched) = channel();
        let watched = dispatcher.dispatch.clone();
        thread::spawn(move || watch(&watched, SHORT, &unwatched)); // not before a call hangs
        let task = Task::new(vec![kernel()]).expect("a kernel");
        let (mut polled, waited, [later, unwaited]) = soon("submit", {
            let (mut rt, task) = (rt.clone(), task.clone());
            move || {
                let mut submit = || rt.submit(&task).expect("room");
                (submit(), submit(), [submit(), submit()])
            }
        });
        let wakes = Arc::new(Wakes::default());
        let waker = wakes.clone().into();
        let mut context = Context::from_waker(&waker);
        let pending = Pin::new(&mut polled).poll(&mut context).is_pending();
        assert!(pending || dispatcher.lost().is_some(), "{call:?}");
        let error = soon("wait", move || waited.wait()).expect_err("it never ran");
        assert!(is_hang(&error), "{call:?}: {error}");
        assert_eq!(dispatcher.lost(), Some(error.clone()), "{call:?}");
        let ended = soon("timed wait", move || later.wait_timeout(Duration::from_secs(3600)));
        assert_eq!(ended, Some(Err(error.clone())), "{call:?}");
        assert_eq!(unwaited.try_wait(), Some(Err(error.clone())), "{call:?}");
        assert!(!unwaited.cancel(), "{call:?}: it has ended");
        eventually("woken", || !pending || wakes.0.load(Ordering::SeqCst) > 0);
        let outcome = Pin::new(&mut polled).poll(&mut context);
        assert_eq!(outcome, Poll::Ready(Err(error.clone())), "{call:?}");
        // Best-effort work.
        let be_error = soon("best-effort wait", {
            let (error, sent) = (be.wait(Seq(0)), be.submit(&[kernel()]));
            move || [error.expect_err("lost"), sent.expect_err("lost")]
        });
        assert_eq!(be_error, [error.clone(), error.clone()], "{call:?}");
        assert_eq!(be.served(), Duration::ZERO);
        let (error_of_park, be) = soon("park", move || be.park().expect_err("it is lost"));
        assert_eq!(error_of_park, error, "{call:?}");
        soon("drop", move || drop(be));
        let (dispatcher, outcome) = soon("later calls", move || {
            dispatcher.mark_lost(&lost());
            let (_, client) = (dispatcher.stats(), dispatcher.best_effort(ClientConfig::default()));
            assert!(dispatcher.take_trace().is_empty());
            (dispatcher, (client.map(drop), rt.run(&task).map(drop)))
        });
        assert_eq!(outcome, (Err(error.clone()), Err(error.clone())), "{call:?}");
        assert!(device.0.hang.is_inside(), "{call:?}: it hangs still");
        soon("drop of the dispatcher", move || drop(dispatcher));
        device.0.hang.set(None);
        // Its task may have ended before the call.
        let own = hung.join().expect("no panic");
        let panicked = Err(Error::state("a real-time queue of the device", "it panicked"));
        assert!(own == Err(error) || own == Ok(()) || own == panicked, "{call:?}: {own:?}");
        drop((polled, unwaited));
        device.0.be_hangs.store(false, Ordering::SeqCst);
        let left = || Arc::strong_count(&device.0) - 2;
        eventually(&format!("{call:?}: nothing is left"), || left() == 0);
    }
}

#[test]
fn waits_end_in_their_time_while_a_call_lasts() {
    for call in CALLS {
        let device = Fake::default();
        let dispatcher = Arc::new(started(&device, TEST_TIMEOUT));
        let be = busy(&dispatcher, &device);
        let _at_last = AtLast(device.clone());
        let mut rt = dispatcher.real_time().expect("a client");
        let hung = hang(call, &dispatcher, &device);
        let task = Task::new(vec![kernel()]).expect("a kernel");
        let begin = Instant::now();
        let ticket = soon("submit", move || rt.submit(&task).expect("room"));
        let ticket = soon("timed wait", move || {
            assert_eq!(ticket.wait_timeout(Duration::from_millis(30)), None);
            ticket
        });
        let asked = dispatcher.clone();
        soon("counts", move || (asked.stats(), asked.is_preempted(), asked.lost()));
        let lost_by = dispatcher.clone();
        soon("marked lost", move || lost_by.mark_lost(&lost()));
        assert!(begin.elapsed() < TEST_TIMEOUT / 2, "{call:?}: {:?}", begin.elapsed());
        assert_eq!(soon("wait", move || ticket.wait()), Err(lost()), "{call:?}");
        assert_eq!(soon("best-effort wait", move || be.wait(Seq(0))), Err(lost()), "{call:?}");
        device.0.hang.set(None);
        let _ = hung.join().expect("no panic");
    }
}

/// Its queue is told to stop for real-time work, which goes on, as other clients do.
#[test]
fn call_that_hangs_in_a_worker_costs_its_client_alone() {
    let completed = Call::Completed(Priority::BestEffort);
    for call in [Call::Launch(Priority::BestEffort), completed, Call::Drain(By::Worker)] {
        let device = Fake::default();
        let dispatcher = started(&device, HANG_TIMEOUT); // on a busy machine other calls take SHORT
        let config = ClientConfig::default();
        let config = config.queue(config.queue.drain_timeout(Some(3 * SHORT)));
        let mut hung = dispatcher.best_effort(config).expect("a client");
        let _at_last = AtLast(device.clone());
        device.0.hang.one.store(true, Ordering::SeqCst);
        device.0.be_hangs.store(true, Ordering::SeqCst);
        device.0.hang.set(Some(call));
        hung.submit(&[kernel(), kernel()]).expect("room");
        let mut rt = dispatcher.real_time().expect("a client");
        let task = Task::new(vec![kernel()]).expect("a kernel");
        let begin = Instant::now();
        while !device.0.hang.is_inside() {
            rt.run(&task).expect("it runs"); // it may be this thread that takes back
            assert!(begin.elapsed() < TEST_TIMEOUT, "{call:?}");
        }
        device.0.be_hangs.store(false, Ordering::SeqCst);
        rt.run(&task).expect("it runs next to the call");
        let mut other = dispatcher.best_effort(ClientConfig::default()).expect("a client");
        other.run(&[kernel()]).expect("so does other best-effort work");
        let (error, hung) = soon("wait", move || (hung.wait(Seq(1)).unwrap_err(), hung));
        let lost = matches!(&error, Error::DeviceLost { why, .. } if why.contains("left alone"));
        assert!(lost, "{call:?}: {error}");
        assert_eq!((dispatcher.stats().abandoned, dispatcher.lost()), (1, None), "{call:?}");
        rt.run(&task).expect("it runs still");
        other.run(&[kernel()]).expect("and the other work");
        soon("drop", move || drop(hung));
        assert!(device.0.hang.is_inside(), "{call:?}: it hangs still");
        device.0.hang.set(None);
        drop((other, rt, dispatcher));
        let left = || Arc::strong_count(&device.0) - 2;
        eventually(&format!("{call:?}: nothing is left"), || left() == 0);
    }
}

/// A call that lasts, and returns before it counts as one that hangs.
#[test]
fn call_that_returns_in_time_loses_nothing() {
    for call in CALLS {
        let device = Fake::default();
        let dispatcher = started(&device, TEST_TIMEOUT);
        let be = busy(&dispatcher, &device);
        let _at_last = AtLast(device.clone());
        let hung = hang(call, &dispatcher, &device);
        let mut rt = dispatcher.real_time().expect("a client");
        let task = Task::new(vec![kernel()]).expect("a kernel");
        let ticket = soon("submit", move || rt.submit(&task).expect("room"));
        assert_eq!(ticket.wait_timeout(Duration::from_millis(250)), None);
        device.0.hang.set(None);
        device.0.be_hangs.store(false, Ordering::SeqCst);
        soon("wait", move || ticket.wait()).expect("it runs");
        assert_eq!(soon("best-effort wait", move || be.wait(Seq(0))), Ok(()), "{call:?}");
        let own = hung.join().expect("no panic");
        assert_eq!(own.is_err(), [Call::Open, Call::Close].contains(&call), "{call:?}: {own:?}");
        assert_eq!(dispatcher.lost(), None);
    }
}

#[test]
fn marking_lost_reaches_queues_that_open_and_that_park() {
    let device = Fake::default();
    let dispatcher = Arc::new(started(&device, TEST_TIMEOUT));
    let config = ClientConfig::default();
    let config = config.queue(config.queue.drain_timeout(None));
    device.0.hung.store(2, Ordering::SeqCst); // the first queue is the real-time one
    let mut stuck = dispatcher.best_effort(config).expect("a client");
    let _at_last = AtLast(device.clone());
    stuck.submit(&[kernel()]).expect("room");
    eventually("launched", || is_launched(&dispatcher));
    let (parked, parks) = channel();
    thread::spawn(move || {
        let _ = parked.send(stuck.park().map(drop)); // a test that has failed doesn't wait
    });
    eventually("it parks", || dispatcher.is_preempted());
    device.0.hang.set(Some(Call::Open));
    let opens = thread::spawn({
        let dispatcher = dispatcher.clone();
        move || dispatcher.best_effort(config).map(drop)
    });
    eventually("it opens", || device.0.hang.is_inside());
    dispatcher.mark_lost(&lost());
    let (error, client) = parks.recv_timeout(TEST_TIMEOUT).expect("it returns").unwrap_err();
    assert_eq!(error, lost());
    device.0.hang.set(None);
    assert_eq!(soon("open", move || opens.join().expect("no panic")), Err(lost()));
    soon("drop", move || drop(client));
}
