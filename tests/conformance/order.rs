//! Copies, fills, events and host code among kernels.

use crate::subject::{Cells, appended, cycles, doze, read, rng};
use rand::RngExt;
use reef::{Command, Config, Copy, Device, Fill, PreemptLevel, VirtualQueue};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// After each kernel, one of: a copy to the host, a host function that notes it, a copy within the
/// device, a fill of another buffer, an event.
pub(crate) fn copies_fills_and_host_code_keep_their_order<D: Device>(
    device: &D,
    level: PreemptLevel,
) {
    let mut rng = rng();
    let rounds = (cycles() / 20).max(1) as usize;
    let cells = Cells::new(device, 4);
    let snapshots = device.alloc_host(rounds * 8).unwrap();
    let scratch = device.alloc(32).unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let event = device.event().unwrap();
    let (mut submitter, queue) =
        VirtualQueue::enable(device, Config { level, ..Config::default() }).unwrap();

    let mut noted = Vec::new();
    for round in 0..rounds {
        submitter.submit_blocking(cells.append(round as u64, rng.random_range(0..40))).unwrap();
        let copy = |from: &D::Buffer, to: &D::Buffer, to_offset, to_host| {
            let (from, to) = (from.clone(), to.clone());
            Command::Copy(Copy { from, from_offset: 8, to, to_offset, bytes: 8, to_host })
        };
        submitter.submit_blocking(copy(cells.buffer(), &snapshots, round * 8, true)).unwrap();
        let extra = match rng.random_range(0..4) {
            0 => copy(cells.buffer(), &scratch, 0, false),
            1 => Command::Fill(Fill { buffer: scratch.clone(), offset: 0, bytes: 32, word: 7 }),
            2 => Command::Record(event.clone()),
            _ => {
                noted.push(round as u64);
                let (log, round) = (log.clone(), round as u64);
                Command::Host(Arc::new(move || log.lock().unwrap().push(round)))
            }
        };
        submitter.submit_blocking(extra).unwrap();
        if rng.random_ratio(1, 2) {
            doze(&mut rng, 200);
            queue.preempt(rng.random()).unwrap();
            doze(&mut rng, 40);
            queue.restore().unwrap();
        }
    }
    queue.finish().unwrap();
    cells.expect(0..rounds as u64);
    let want: Vec<u64> = (1..=rounds as u64).map(|n| appended(0..n)).collect();
    assert_eq!(
        read(device, &snapshots, rounds),
        want,
        "each copy saw all kernels before it, no later one"
    );
    assert_eq!(*log.lock().unwrap(), noted);
}

pub(crate) fn a_queue_waits_for_an_event_of_another<D: Device>(device: &D, level: PreemptLevel) {
    let config = Config { level, ..Config::default() };
    let [(mut first, a), (mut second, b)] =
        [0, 1].map(|_| VirtualQueue::enable(device, config).unwrap());
    let cells = Cells::new(device, 2);
    let event = device.event().unwrap();
    second.submit(Command::Wait(event.clone())).unwrap();
    let last = second.submit(cells.append(2, 0)).unwrap();
    std::thread::sleep(Duration::from_millis(2));
    assert!(second.completed() < last, "the event has not been reached");

    // Preempting the queue that waits, while it waits, must not lose the wait.
    b.preempt(true).unwrap();
    b.restore().unwrap();
    first.submit(cells.append(1, 1000)).unwrap();
    first.submit(Command::Record(event.clone())).unwrap();
    second.wait(last).unwrap();
    cells.expect([1, 2]);
    a.finish().unwrap();
    b.finish().unwrap();

    // A queue that waits for what never comes can be dropped.
    let (mut third, c) = VirtualQueue::enable(device, config).unwrap();
    third.submit(Command::Wait(device.event().unwrap())).unwrap();
    drop(c);
    assert!(third.wait(reef::Seq(0)).is_err());
}

pub(crate) fn empty_work_completes<D: Device>(device: &D, level: PreemptLevel) {
    let (mut submitter, queue) =
        VirtualQueue::enable(device, Config { level, ..Config::default() }).unwrap();
    let none = Cells::new(device, 0);
    submitter.submit(none.append(1, 0)).unwrap();
    let (from, to) = (none.buffer().clone(), none.buffer().clone());
    let copy = Copy { from, from_offset: 0, to, to_offset: 0, bytes: 0, to_host: true };
    let last = submitter.submit(Command::Copy(copy)).unwrap();
    submitter.wait(last).unwrap();
    queue.disable().map_err(|(error, _)| error).unwrap();
}

pub(crate) fn a_queue_counts_as_idle_after_its_timeout<D: Device>(device: &D, level: PreemptLevel) {
    let idle_timeout = Some(Duration::from_millis(5));
    let config = Config { level, idle_timeout, ..Config::default() };
    let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
    let cells = Cells::new(device, 2);
    let last = submitter.submit(cells.append(1, 0)).unwrap();
    submitter.wait(last).unwrap();
    let start = std::time::Instant::now();
    while !queue.is_idle() {
        assert!(start.elapsed() < Duration::from_secs(5), "never idle");
        std::thread::sleep(Duration::from_millis(1));
    }
    let last = submitter.submit(cells.append(1, 100)).unwrap();
    submitter.wait(last).unwrap();
    cells.expect([1, 1]);
}
