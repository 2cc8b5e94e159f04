//! Units with clients that hold the lock, that come in between, or that stop them.

mod lag;

use crate::options::Options;
use crate::{Cpu, Kernel, Outcome};
use reef_core::{Args, Device, Launch, PreemptLevel, Preemptor, Priority, Queue, Seq};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

fn launch(blocks: u32, kernel: Kernel) -> Launch<Cpu> {
    // SAFETY: the kernels here take no arguments and touch no memory but what they own.
    unsafe { Launch::new(kernel, [blocks, 1, 1], [1; 3], Args::new(&[])) }
}

/// A launch whose blocks say their numbers.
fn reporting(blocks: u32) -> (Launch<Cpu>, Receiver<u32>) {
    let (sender, receiver) = mpsc::channel();
    let kernel = Kernel::new("told", move |block, _| {
        let _ = sender.send(block.index);
        Outcome::Done
    });
    (launch(blocks, kernel), receiver)
}

/// A launch whose blocks write `name` into `order`, of which the first says that it runs and waits
/// to go on.
fn noted(
    name: char,
    blocks: u32,
    order: &Arc<Mutex<String>>,
    waits: bool,
) -> (Launch<Cpu>, Receiver<()>, Sender<()>) {
    let ((runs, first), (go_on, gate)) = (mpsc::channel(), mpsc::channel());
    let (order, gate) = (order.clone(), Mutex::new(gate));
    let kernel = Kernel::new("noted", move |block, _| {
        order.lock().unwrap().push(name);
        if waits && block.index == 0 {
            let _ = runs.send(());
            let _ = gate.lock().unwrap().recv_timeout(LONG);
        }
        Outcome::Done
    });
    (launch(blocks, kernel), first, go_on)
}

fn finish(queue: &mut impl Queue<Backend = Cpu>, commands: u64) {
    let begin = Instant::now();
    while queue.completed().unwrap() < Seq(commands) {
        assert!(begin.elapsed() < LONG, "it has not completed {commands}");
        std::thread::yield_now();
    }
}

/// The test would wait for itself if `launch` waited for the lock.
#[test]
fn submit_does_not_wait_for_the_lock() {
    let device = Cpu::open(0, "units=1").unwrap();
    let mut queue = device.queue(Priority::RealTime, None).unwrap();
    let (launch, ran) = reporting(1);
    device.shared().change(|_| queue.launch(Seq(0), &launch, None).unwrap());
    ran.recv_timeout(LONG).unwrap();
}

/// Units sleep at once here, so each round is lost if a wake-up is.
#[test]
fn units_that_sleep_are_woken_for_each_kernel() {
    let options = Options { units: 3, spin: Duration::ZERO, ..Options::default() };
    let device = Cpu::open_with(0, options).unwrap();
    let mut queue = device.queue(Priority::RealTime, None).unwrap();
    let (launch, ran) = reporting(1);
    for seq in 0..if cfg!(miri) { 10 } else { 2000 } {
        queue.launch(Seq(seq), &launch, None).unwrap();
        ran.recv_timeout(LONG).unwrap();
    }
}

#[test]
fn blocks_of_a_kernel_are_taken_while_others_have_the_hardware() {
    let device = Cpu::open(0, "units=1").unwrap();
    let mut queue = device.queue(Priority::BestEffort, None).unwrap();
    let order = Arc::default();
    let (first, runs, go_on) = noted('a', 20, &order, true);
    queue.launch(Seq(0), &first, None).unwrap();
    runs.recv_timeout(LONG).unwrap();
    device.shared().change(|_| {
        go_on.send(()).unwrap();
        let begin = std::time::Instant::now();
        while order.lock().unwrap().len() < 20 && begin.elapsed() < LONG {
            std::thread::yield_now();
        }
        assert_eq!(order.lock().unwrap().len(), 20, "blocks wait for the lock");
    });
    finish(&mut queue, 1);
}

#[test]
fn a_kernel_that_was_alone_makes_way_for_real_time_work() {
    let device = Cpu::open(0, "units=1").unwrap();
    let mut be = device.queue(Priority::BestEffort, None).unwrap();
    let mut rt = device.queue(Priority::RealTime, None).unwrap();
    let order = Arc::default();
    let (long, runs, go_on) = noted('b', 5, &order, true);
    be.launch(Seq(0), &long, None).unwrap();
    runs.recv_timeout(LONG).unwrap();
    rt.launch(Seq(0), &noted('r', 2, &order, false).0, None).unwrap();
    go_on.send(()).unwrap();
    finish(&mut be, 1);
    assert_eq!(*order.lock().unwrap(), "brrbbbb");
}

#[test]
fn a_kernel_that_was_alone_takes_turns_with_another() {
    let device = Cpu::open(0, "units=1").unwrap();
    let [mut one, mut other] = [(); 2].map(|()| device.queue(Priority::BestEffort, None).unwrap());
    let order = Arc::default();
    let (long, runs, go_on) = noted('a', 4, &order, true);
    one.launch(Seq(0), &long, None).unwrap();
    runs.recv_timeout(LONG).unwrap();
    other.launch(Seq(0), &noted('b', 2, &order, false).0, None).unwrap();
    go_on.send(()).unwrap();
    finish(&mut one, 1);
    assert_eq!(*order.lock().unwrap(), "ababaa");
}

#[test]
fn a_kernel_that_is_alone_stops_when_its_queue_does() {
    let device = Cpu::open(0, "units=1").unwrap();
    let preemptor = device.preemptor(PreemptLevel::DeviceQueue).unwrap();
    let mut queue = device.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    let order = Arc::default();
    let (long, runs, go_on) = noted('a', 9, &order, true);
    queue.launch(Seq(0), &long, None).unwrap();
    runs.recv_timeout(LONG).unwrap();
    preemptor.evict().unwrap();
    go_on.send(()).unwrap();
    let drained = loop {
        if let Some(drained) = queue.try_drain().unwrap() {
            break drained;
        }
        std::thread::yield_now();
    };
    assert_eq!(*order.lock().unwrap(), "a", "it ran on");
    preemptor.reactivate().unwrap();
    queue.launch(Seq(0), &long, drained.partial.as_ref()).unwrap();
    finish(&mut queue, 1);
    assert_eq!(*order.lock().unwrap(), "aaaaaaaaa");
}

#[test]
fn dropped_queue_forgets_blocks_of_a_lone_kernel() {
    let device = Cpu::open(0, "units=1").unwrap();
    let mut queue = device.queue(Priority::BestEffort, None).unwrap();
    let order = Arc::default();
    let (long, runs, go_on) = noted('a', 9, &order, true);
    queue.launch(Seq(0), &long, None).unwrap();
    runs.recv_timeout(LONG).unwrap();
    assert!(!device.shared().change(|hardware| hardware.abandon(queue.handle.id)), "a block runs");
    go_on.send(()).unwrap();
    drop(queue);
    assert_eq!(*order.lock().unwrap(), "a");
}

/// More units than cores, each block of some length, and stops at moments that the clock chooses:
/// no block is lost or runs twice.
#[test]
fn each_block_runs_once_on_many_units_that_are_stopped() {
    const BLOCKS: u32 = 40;
    let device = Cpu::open(0, "units=8&pin=0").unwrap();
    let preemptor = device.preemptor(PreemptLevel::All).unwrap();
    let mut queues =
        [(); 2].map(|()| device.queue(Priority::BestEffort, Some(&preemptor)).unwrap());
    let ran: Arc<Vec<AtomicU32>> = Arc::new((0..2 * BLOCKS).map(|_| AtomicU32::new(0)).collect());
    let launches = [0, BLOCKS].map(|from| {
        let ran = ran.clone();
        let kernel = Kernel::new("counts", move |block, _| {
            for _ in 0..block.index % 7 * 100 {
                if block.stopped() {
                    return Outcome::Stopped;
                }
                std::hint::spin_loop();
            }
            ran[(from + block.index) as usize].fetch_add(1, Ordering::Relaxed);
            Outcome::Done
        });
        launch(BLOCKS, kernel)
    });
    for round in 0..if cfg!(miri) { 2 } else { 300 } {
        for (queue, launch) in queues.iter_mut().zip(&launches) {
            queue.launch(Seq(round), launch, None).unwrap();
        }
        for stop in 0..round % 4 {
            (0..(round * 37 + stop * 11) % 400).for_each(|_| std::hint::spin_loop());
            preemptor.evict().unwrap();
            preemptor.reset().unwrap();
            let drained = queues.each_mut().map(|queue| {
                loop {
                    if let Some(drained) = queue.try_drain().unwrap() {
                        return drained;
                    }
                    std::thread::yield_now();
                }
            });
            preemptor.reactivate().unwrap();
            for ((queue, launch), drained) in queues.iter_mut().zip(&launches).zip(drained) {
                if drained.resume_at == Seq(round) {
                    queue.launch(Seq(round), launch, drained.partial.as_ref()).unwrap();
                }
            }
        }
        queues.iter_mut().for_each(|queue| finish(queue, round + 1));
        let want = round as u32 + 1;
        let wrong = ran.iter().position(|ran| ran.load(Ordering::Relaxed) != want);
        assert_eq!(wrong, None, "round {round}");
    }
}

/// Units that sleep end all the same, however many: each finds nothing, so none wakes the next.
#[test]
fn a_device_whose_many_units_sleep_is_closed() {
    let (closed, end) = mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..5 {
            let device = Cpu::open(0, "units=7").unwrap();
            let mut queue = device.queue(Priority::BestEffort, None).unwrap();
            let (launch, _ran) = reporting(7);
            queue.launch(Seq(0), &launch, None).unwrap();
            finish(&mut queue, 1);
            // sleep: units look for 0.3 ms, and sleep then; one that still looks ends as well
            std::thread::sleep(Duration::from_millis(10));
            drop((queue, device));
        }
        let _ = closed.send(());
    });
    end.recv_timeout(LONG).expect("the device is closed");
}

/// Units that are alone with a kernel hear that it has failed: what it has left doesn't run.
#[test]
fn a_kernel_that_fails_ends_on_all_units() {
    const BLOCKS: u32 = 1_000_000;
    let device = Cpu::open(0, "units=3").unwrap();
    let mut queue = device.queue(Priority::BestEffort, None).unwrap();
    let ran = Arc::new(AtomicU32::new(0));
    let kernel = Kernel::new("fails", {
        let ran = ran.clone();
        move |block, _| {
            assert_ne!(block.index, 20, "this block fails");
            ran.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_micros(100)); // sleep: length of a block
            Outcome::Done
        }
    });
    queue.launch(Seq(0), &launch(BLOCKS, kernel), None).unwrap();
    let begin = std::time::Instant::now();
    while queue.completed().is_ok() && begin.elapsed() < LONG {
        std::thread::yield_now();
    }
    assert!(queue.completed().is_err(), "the failure is told");
    assert!(ran.load(Ordering::Relaxed) < BLOCKS / 2, "the others went on");
}

/// Value that a kernel owns.
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "on purpose");
    }
}

#[test]
fn kernel_whose_drop_panics_ends_no_unit() {
    let device = Cpu::open(0, "units=1").unwrap();
    let mut queue = device.queue(Priority::BestEffort, None).unwrap();
    let owned = PanicsWhenDropped;
    let owner = Kernel::new("owns", move |_, _| {
        let _owned = &owned;
        Outcome::Done
    });
    let owner = launch(1, owner);
    device.shared().change(|_| {
        queue.launch(Seq(0), &owner, None).unwrap();
        drop(owner); // the device alone has it, and no unit before this returns
    });
    let (next, ran) = reporting(1);
    queue.launch(Seq(1), &next, None).unwrap();
    let outcome = ran.recv_timeout(LONG);
    queue.is_abandoned = outcome.is_err(); // a block that is lost would be waited for
    outcome.expect("the unit goes on");
    finish(&mut queue, 2);
}
