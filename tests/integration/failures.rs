//! Failures stay local: clients that are not concerned go on, and the others get an answer in time.

mod cluster;

use reef::cpu::{Cpu, Kernel, Outcome};
use reef::dkp::{Padding, Profile, Resources};
use reef::scheduler::{self, EarliestDeadline, Reef, WaitBased};
use reef::{
    Args, ClientConfig, Command, Device, Dispatcher, Error, Launch, Priority, Queue, Seq, Task,
    VirtualQueue, command::Copy, queue::Config,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Runs `body` on a thread of its own and fails if it takes more than a minute: that is for ever.
fn in_time(body: impl FnOnce() + Send + 'static) {
    within(Duration::from_secs(60), body);
}

fn within(limit: Duration, body: impl FnOnce() + Send + 'static) {
    let (done, over) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    match over.recv_timeout(limit) {
        Ok(()) => {}
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs"),
        Err(_) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}

fn cpu(options: &str) -> Cpu {
    Cpu::open(0, options).unwrap()
}

fn launch(
    blocks: u32,
    body: impl Fn(&mut reef::cpu::Block<'_>) -> Outcome + Send + Sync + 'static,
) -> Launch<Cpu> {
    let kernel = Kernel::new("test", move |block, _| body(block));
    // SAFETY: the kernel takes no arguments and touches no memory of the device.
    unsafe { Launch::new(kernel, [blocks, 1, 1], [1, 1, 1], Args::new(&[])) }
}

fn busy(time: Duration) -> Launch<Cpu> {
    launch(1, move |_| {
        std::thread::sleep(time); // sleep: length of a kernel
        Outcome::Done
    })
}

/// A real-time task of one kernel.
fn task_of(launch: Launch<Cpu>) -> Task<Cpu> {
    Task::new(vec![Command::Launch(launch)]).unwrap()
}

/// A real-time task with a copy that doesn't fit its buffer.
fn bad_copy(device: &Cpu) -> Task<Cpu> {
    let buffer = device.alloc(8).unwrap();
    let (from, to) = (buffer.clone(), buffer);
    let copy = Copy { from, from_offset: 8, to, to_offset: 0, bytes: 9, to_host: false };
    Task::new(vec![Command::Copy(copy)]).unwrap()
}

/// A kernel that runs until its gate opens.
#[derive(Default)]
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn launch(&self) -> Launch<Cpu> {
        let is_open = self.0.clone();
        launch(1, move |_| {
            while !is_open.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            Outcome::Done
        })
    }

    fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn panicking() -> Launch<Cpu> {
    launch(1, |_| panic!("on purpose"))
}

/// As many host functions as the window holds, one after the other, and one more.
#[test]
fn host_functions_in_a_row() {
    in_time(|| {
        let device = cpu("units=1");
        let (mut submitter, queue) = VirtualQueue::enable(&device, Config::default()).unwrap();
        queue.preempt(true).unwrap(); // so that the worker sees all of them at once
        let count = Arc::new(AtomicU32::new(0));
        for _ in 0..20 {
            let count = count.clone();
            let f = move || {
                count.fetch_add(1, Ordering::SeqCst);
            };
            submitter.submit(Command::Host(Arc::new(f))).unwrap();
        }
        queue.restore().unwrap();
        let outcome = submitter.wait_timeout(Seq(19), Duration::from_secs(30));
        assert_eq!(outcome, Some(Ok(())), "{} of 20 ran", count.load(Ordering::SeqCst));
    });
}

/// A real-time task with a copy that doesn't fit: its client gets the error, others go on.
#[test]
fn invalid_copy_fails_its_real_time_task() {
    in_time(|| {
        let device = cpu("units=1");
        let dispatcher = Dispatcher::start(&device, Reef::default()).unwrap();
        let bad = bad_copy(&device);
        let ticket = dispatcher.real_time().unwrap().submit(&bad).unwrap();
        let how = loop {
            match ticket.try_wait() {
                Some(how) => break how,
                None => std::thread::yield_now(),
            }
        };
        assert!(matches!(how, Err(Error::Invalid(_))), "{how:?}");
    });
}

/// A failure, seen by another client.
#[test]
fn invalid_copy_in_a_real_time_task_fails_no_other_client() {
    in_time(|| {
        let device = cpu("units=1");
        let dispatcher = Dispatcher::start(&device, Reef::default()).unwrap();
        let bad = bad_copy(&device);
        let _ = dispatcher.real_time().unwrap().submit(&bad);
        dispatcher.real_time().unwrap().run(&task_of(busy(Duration::ZERO))).unwrap();
    });
}

/// A real-time kernel panics while the rest of its task is being launched.
#[test]
fn panic_during_the_launch_fails_the_task() {
    in_time(|| {
        let device = cpu("units=1");
        let dispatcher = Dispatcher::start(&device, Reef::default()).unwrap();
        let mut commands = vec![Command::Launch(panicking())];
        commands.extend((0..20_000).map(|_| Command::Launch(busy(Duration::ZERO))));
        let task = Task::new(commands).unwrap();
        let mut rt = dispatcher.real_time().unwrap();
        assert!(matches!(rt.run(&task), Err(Error::DeviceLost { .. })));
        rt.run(&task_of(busy(Duration::ZERO))).unwrap();
    });
}

/// A real-time kernel that panics fails its task only.
#[test]
fn panic_in_a_real_time_kernel_fails_its_task() {
    in_time(|| {
        let device = cpu("units=1");
        let dispatcher = Dispatcher::start(&device, Reef::default()).unwrap();
        let mut rt = dispatcher.real_time().unwrap();
        for _ in 0..20 {
            let task = task_of(panicking());
            assert!(matches!(rt.run(&task), Err(Error::DeviceLost { .. })));
            rt.run(&task_of(busy(Duration::ZERO))).unwrap();
        }
    });
}

/// A task whose client polls starts although no other thread makes a pass.
#[test]
fn wait_based_starts_by_itself() {
    in_time(|| {
        let device = cpu("units=1");
        let dispatcher = Dispatcher::start(&device, WaitBased::default()).unwrap();
        let _idle = dispatcher.best_effort(ClientConfig::default()).unwrap();
        // sleep: the dispatcher rests; one that does not yet starts the task as well
        std::thread::sleep(Duration::from_millis(20));
        let task = Task::new(vec![Command::Launch(busy(Duration::ZERO))]).unwrap();
        let ticket = dispatcher.real_time().unwrap().submit(&task).unwrap();
        let start = Instant::now();
        while ticket.try_wait().is_none() {
            assert!(start.elapsed() < Duration::from_secs(30), "never started");
            std::thread::yield_now();
        }
    });
}

/// A best-effort queue that failed in the middle of a task keeps no other from running.
#[test]
fn sequential_goes_on_after_a_failure() {
    in_time(|| {
        let device = cpu("units=1");
        let sequential = scheduler::by_name("sequential").unwrap();
        let dispatcher = Dispatcher::start(&device, sequential).unwrap();
        let mut be = dispatcher.best_effort(ClientConfig::default()).unwrap();
        let bad = Command::Host(Arc::new(|| panic!("on purpose")));
        assert!(be.run(&[bad, Command::Launch(busy(Duration::ZERO))]).is_err());
        let task = Task::new(vec![Command::Launch(busy(Duration::ZERO))]).unwrap();
        dispatcher.real_time().unwrap().run(&task).unwrap();
    });
}

/// A block that panics as padding after its kernel was put on its own queue again.
#[test]
fn late_panic_in_padding_ends_the_best_effort_queue() {
    in_time(|| {
        let device = cpu("units=2");
        let go = Arc::new(AtomicBool::new(false));
        let started = Arc::new(AtomicBool::new(false));
        let best_effort = launch(1, {
            let (go, started) = (go.clone(), started.clone());
            move |_| {
                started.store(true, Ordering::SeqCst);
                while !go.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                panic!("on purpose")
            }
        });
        let real_time = launch(1, move |_| {
            while !started.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            Outcome::Done
        });
        let record = device.checkpoint(&best_effort).unwrap();
        let mut rt = device.queue(Priority::RealTime, None).unwrap();
        let mut be = device.queue(Priority::BestEffort, None).unwrap();
        let padding = Padding { rt_units: 1, be_per_unit: 1, be_blocks: 1 };
        rt.launch_padded(Seq(0), &real_time, &padding, &best_effort, &record).unwrap();
        while rt.completed().unwrap() < Seq(1) {}
        be.launch(Seq(0), &best_effort, Some(&record)).unwrap();
        go.store(true, Ordering::SeqCst);
        let start = Instant::now();
        while matches!(be.completed(), Ok(Seq(0))) {
            assert!(start.elapsed() < Duration::from_secs(30), "neither done nor failed");
        }
        assert!(be.completed().is_err());
    });
}

/// Padding stops when the kernel that it rides with fails.
#[test]
fn padding_of_a_failed_kernel_stops() {
    in_time(|| {
        let device = cpu("units=2");
        let started = Arc::new(AtomicBool::new(false));
        let best_effort = launch(1, {
            let started = started.clone();
            move |block| {
                started.store(true, Ordering::SeqCst);
                while !block.stopped() {
                    std::thread::yield_now();
                }
                Outcome::Stopped
            }
        });
        let real_time = launch(1, move |_| {
            while !started.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            panic!("on purpose")
        });
        let record = device.checkpoint(&best_effort).unwrap();
        let mut rt = device.queue(Priority::RealTime, None).unwrap();
        let padding = Padding { rt_units: 1, be_per_unit: 1, be_blocks: 1 };
        rt.launch_padded(Seq(0), &real_time, &padding, &best_effort, &record).unwrap();
        while rt.completed().is_ok() {}
        drop(rt); // waits for the padding, which never ends by itself
    });
}

/// Nothing of a queue that failed runs as padding, and waiting for it stays an error.
#[test]
fn failed_queue_gives_no_padding() {
    in_time(|| {
        let device = cpu("units=2&nice=0&pin=0");
        let dispatcher = Dispatcher::start(&device, Reef::default()).unwrap();
        let profile = |micros| {
            let resources = Resources { threads: 1, ..Resources::default() };
            Arc::new(Profile { blocks: 1, resources, micros, round_micros: vec![1] })
        };
        let ran = Arc::new(AtomicU32::new(0));
        let after = launch(1, {
            let ran = ran.clone();
            move |_| {
                ran.fetch_add(1, Ordering::SeqCst);
                Outcome::Done
            }
        });
        let queue = Config::default().window(1);
        let mut be = dispatcher.best_effort(ClientConfig::default().queue(queue)).unwrap();
        let after = Command::Launch(after.with_profile(profile(1)));
        let bad = Command::Launch(panicking().with_profile(profile(1)));
        let last = be.submit(&[bad, after.clone(), after.clone(), after]).unwrap();
        assert!(be.wait(last).is_err());
        let kernel = busy(Duration::from_millis(1)).with_profile(profile(1000));
        let task = Task::new(vec![Command::Launch(kernel); 12]).unwrap();
        let mut rt = dispatcher.real_time().unwrap();
        for _ in 0..3 {
            rt.run(&task).unwrap();
        }
        assert_eq!(ran.load(Ordering::SeqCst), 0, "it ran after the queue had ended");
        assert!(be.wait(Seq(0)).is_err(), "the kernel that panicked counts as finished");
    });
}

/// A scheduler's times may be as long as can be.
#[test]
fn endless_times() {
    in_time(|| {
        let device = cpu("units=1");
        let reef = Reef::default().hysteresis(Duration::MAX);
        let dispatcher = Dispatcher::start(&device, reef).unwrap();
        let task = Task::new(vec![Command::Launch(busy(Duration::ZERO))]).unwrap();
        let mut rt = dispatcher.real_time().unwrap();
        let first = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rt.run(&task)));
        assert!(first.is_ok(), "the turn panicked");
        rt.run(&task).unwrap();
    });
}

/// A turn that panics doesn't make all other clients wait for ever.
#[test]
fn panicking_scheduler_fails_real_time_work() {
    #[derive(Debug)]
    struct Bad;
    impl scheduler::Scheduler for Bad {
        fn name(&self) -> &'static str {
            "bad"
        }
        fn decide(&mut self, _: Duration, view: &scheduler::View<'_>, _: &mut scheduler::Plan) {
            assert!(view.rt() == 0, "on purpose");
        }
    }
    in_time(|| {
        let device = cpu("units=1");
        let dispatcher = Dispatcher::start(&device, Bad).unwrap();
        let task = Task::new(vec![Command::Launch(busy(Duration::ZERO))]).unwrap();
        let mut rt = dispatcher.real_time().unwrap();
        let panicked = Err(Error::state("the scheduler", "it panicked"));
        assert_eq!(rt.submit(&task).unwrap().wait(), panicked);
        assert_eq!(rt.run(&task), panicked);
    });
}

/// Deadlines and waits may be as long as can be.
#[test]
fn endless_deadlines() {
    in_time(|| {
        let device = cpu("units=1");
        let edf = Box::new(EarliestDeadline::default());
        let dispatcher = Dispatcher::start(&device, edf).unwrap();
        let mut be = dispatcher.best_effort(ClientConfig::default()).unwrap();
        let kernel = Command::Launch(busy(Duration::ZERO));
        let last = be.submit_before(std::slice::from_ref(&kernel), Some(Duration::MAX)).unwrap();
        assert_eq!(be.wait_timeout(last, Duration::MAX), Some(Ok(())));
        let task = Task::new(vec![kernel]).unwrap();
        let mut rt = dispatcher.real_time().unwrap();
        rt.submit_before(&task, Some(Duration::MAX)).unwrap().wait().unwrap();
    });
}

/// A dropped queue has nothing on the device, also if a command ended it.
#[test]
fn nothing_of_a_failed_queue_runs_after_its_drop() {
    in_time(|| {
        let device = cpu("units=1");
        let (mut submitter, queue) = VirtualQueue::enable(&device, Config::default()).unwrap();
        let ran = Arc::new(AtomicU32::new(0));
        let slow = launch(1, {
            let ran = ran.clone();
            move |_| {
                std::thread::sleep(Duration::from_millis(100)); // sleep: length of a kernel
                ran.fetch_add(1, Ordering::SeqCst);
                Outcome::Done
            }
        });
        let buffer = device.alloc(8).unwrap();
        let (from, to) = (buffer.clone(), buffer);
        let copy = Copy { from, from_offset: 8, to, to_offset: 0, bytes: 9, to_host: false };
        submitter.submit(Command::Launch(slow)).unwrap();
        let bad = submitter.submit(Command::Copy(copy)).unwrap();
        assert!(submitter.wait(bad).is_err());
        queue.preempt(true).ok();
        drop(queue);
        let at_drop = ran.load(Ordering::SeqCst);
        let (mut submitter, _queue) = VirtualQueue::enable(&device, Config::default()).unwrap();
        let next = submitter.submit(Command::Launch(busy(Duration::ZERO))).unwrap();
        submitter.wait(next).unwrap(); // the only unit is not in the kernel any more
        assert_eq!(ran.load(Ordering::SeqCst), at_drop, "it ran on after the drop");
    });
}

/// A record of a larger launch gives no block that the launch doesn't have.
#[test]
fn checkpoint_of_another_launch_is_refused() {
    in_time(|| {
        let device = cpu("units=1");
        let [larger, one] = [100, 1].map(|blocks| launch(blocks, |_| Outcome::Done));
        let record = device.checkpoint(&larger).unwrap();
        let mut queue = device.queue(Priority::BestEffort, None).unwrap();
        let refused = queue.launch(Seq(0), &one, Some(&record));
        let why = "must be of a launch of 1 blocks, got 100";
        assert_eq!(refused, Err(Error::invalid("checkpoint", why)));
    });
}

/// A real-time task that is due takes precedence over best-effort tasks that are due later, also
/// over those of the queue that runs.
#[test]
fn deadlines_hold_within_a_queue() {
    in_time(|| {
        let device = cpu("units=1");
        let edf = Box::new(EarliestDeadline::default());
        let dispatcher = Dispatcher::start(&device, edf).unwrap();
        let mut be = dispatcher.best_effort(ClientConfig::default()).unwrap();
        let ms = Duration::from_millis;
        let (gate, ran) = (Gate::default(), Arc::new(AtomicU32::new(0)));
        be.submit_before(&[Command::Launch(gate.launch())], Some(ms(20))).unwrap();
        let count = ran.clone();
        let kernel = [Command::Launch(launch(1, move |_| {
            std::thread::sleep(ms(1)); // sleep: length of a kernel
            count.fetch_add(1, Ordering::SeqCst);
            Outcome::Done
        }))];
        for _ in 0..100 {
            be.submit_before(&kernel, Some(Duration::from_secs(1000))).unwrap();
        }
        let (count, before) = (ran.clone(), Arc::new(AtomicU32::new(u32::MAX)));
        let saw = before.clone();
        let task = task_of(launch(1, move |_| {
            saw.store(count.load(Ordering::SeqCst), Ordering::SeqCst);
            Outcome::Done
        }));
        let ticket = dispatcher.real_time().unwrap().submit_before(&task, Some(ms(50))).unwrap();
        gate.open();
        ticket.wait().unwrap();
        let before = before.load(Ordering::SeqCst);
        assert!(before < 50, "it ran after {before} of 100 kernels that are due later");
    });
}

/// Data of a command may panic when it is dropped: the queue ends, nothing hangs.
#[test]
fn command_panicking_in_its_drop_ends_its_queue() {
    struct Bad(Arc<AtomicU32>);
    impl Drop for Bad {
        fn drop(&mut self) {
            assert!(self.0.fetch_add(1, Ordering::SeqCst) > 0, "on purpose");
        }
    }
    in_time(|| {
        let device = cpu("units=1");
        let (mut submitter, queue) = VirtualQueue::enable(&device, Config::default()).unwrap();
        let count = Arc::new(AtomicU32::new(0));
        let bad = Bad(count.clone());
        let f = move || {
            let _ = &bad;
        };
        let seq = submitter.submit(Command::Host(Arc::new(f))).unwrap();
        let outcome = submitter.wait_timeout(seq, Duration::from_secs(30));
        drop(queue);
        drop(submitter);
        assert_eq!(count.load(Ordering::SeqCst), 1, "dropped more than once");
        assert!(outcome.is_some(), "neither done nor failed");
    });
}
