//! Copies, fills, events and host code among kernels.

use crate::run::skip;
use crate::subject::{Cells, appended, cycles, doze, read, rng, rounds_for};
use rand::RngExt;
use reef_core::{
    Command, Config, Copy, Device, Error, Event, Fill, HostMemory, PreemptLevel, Seq, Submitter,
    VirtualQueue,
};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// After each kernel, one of: a copy to the host, a host function that notes it, a copy within the
/// device, a fill of another buffer, an event.
pub fn copies_fills_and_host_code_keep_their_order<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    let rounds = (cycles() / 20).max(1) as usize;
    let cells = Cells::new(device, 4);
    let snapshots = device.alloc_host(rounds * 8).unwrap();
    let scratch = device.alloc(32).unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let event = device.event().unwrap();
    let (mut submitter, queue) =
        VirtualQueue::enable(device, Config::default().level(level)).unwrap();

    let (mut noted, mut recorded, mut want_scratch) = (Vec::new(), false, [0; 4]);
    let spin = rounds_for(device, Duration::from_micros(100));
    for round in 0..rounds {
        submitter.submit_blocking(cells.append(round as u64, rng.random_range(0..spin))).unwrap();
        let copy = |from: &D::Buffer, to: &D::Buffer, to_offset, to_host| {
            let (from, to) = (from.clone(), to.clone());
            Command::Copy(Copy { from, from_offset: 8, to, to_offset, bytes: 8, to_host })
        };
        submitter.submit_blocking(copy(cells.buffer(), &snapshots, round * 8, true)).unwrap();
        let extra = match rng.random_range(0..4) {
            0 => {
                want_scratch[0] = appended(0..=round as u64);
                copy(cells.buffer(), &scratch, 0, false)
            }
            1 => {
                want_scratch = [7 << 32 | 7; 4];
                Command::Fill(Fill { buffer: scratch.clone(), offset: 0, bytes: 32, word: 7 })
            }
            2 => {
                recorded = true;
                Command::Record(event.clone())
            }
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
    assert_eq!(read(device, &scratch, 4), want_scratch, "the last copy and the last fill");
    assert_eq!(event.reached().is_some(), recorded);
    let want: Vec<u64> = (1..=rounds as u64).map(|n| appended(0..n)).collect();
    assert_eq!(
        read(device, &snapshots, rounds),
        want,
        "each copy saw all kernels before it, no later one"
    );
    assert_eq!(*log.lock().unwrap(), noted);
}

/// A device copies from and to memory that it didn't allocate, and releases it with the buffer.
pub fn adopted_host_memory_is_copied_from_and_to<D: Device>(device: &D, level: PreemptLevel) {
    const WORDS: usize = 512;
    let mut rng = rng();
    let theirs: Arc<[AtomicU64]> = (0..2 * WORDS).map(|_| AtomicU64::new(0)).collect();
    let buffer = match adopt(device, &theirs) {
        Err(Error::Unsupported { what, .. }) => return skip(&format!("{}: {what}", D::NAME)),
        buffer => buffer.unwrap(),
    };
    let cells = Cells::new(device, WORDS as u32);
    let (mut submitter, queue) =
        VirtualQueue::enable(device, Config::default().level(level)).unwrap();
    let copy = |from: &D::Buffer, to: &D::Buffer, to_offset, to_host| {
        let (from, to, bytes) = (from.clone(), to.clone(), WORDS * 8);
        Command::Copy(Copy { from, from_offset: 0, to, to_offset, bytes, to_host })
    };
    for round in 0..(cycles() / 20).max(1) {
        theirs[..WORDS].iter().zip(round..).for_each(|(word, i)| word.store(i, Relaxed));
        submitter.submit_blocking(copy(&buffer, cells.buffer(), 0, false)).unwrap();
        submitter.submit_blocking(cells.append(round, rng.random_range(0..40))).unwrap();
        let last =
            submitter.submit_blocking(copy(cells.buffer(), &buffer, WORDS * 8, true)).unwrap();
        doze(&mut rng, 50);
        queue.preempt(rng.random()).unwrap();
        doze(&mut rng, 40);
        queue.restore().unwrap();
        submitter.wait(last).unwrap();
        let got = theirs[WORDS..].iter().map(|word| word.load(Relaxed));
        assert!(got.eq((round..).take(WORDS).map(|i| i * 3 + round)), "round {round}");
    }
    drop((buffer, submitter, queue));
    let until = Instant::now() + Duration::from_secs(60);
    while Arc::strong_count(&theirs) > 1 && Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!(Arc::strong_count(&theirs), 1, "the device has released it");
}

fn adopt<D: Device>(device: &D, words: &Arc<[AtomicU64]>) -> reef_core::Result<D::Buffer> {
    let start = NonNull::from(&words[0]).cast();
    // SAFETY: the atomics live as long as the third argument keeps them.
    device.adopt_host(unsafe { HostMemory::new(start, words.len() * 8, Arc::new(words.clone())) })
}

/// A thread that is told that a command has completed sees all of its effects.
pub fn completed_work_has_taken_effect<D: Device>(device: &D, level: PreemptLevel) {
    let spin = rounds_for(device, Duration::from_millis(1));
    let cells = Cells::new(device, 4);
    let config = Config::default().level(level);
    let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
    for value in 0..(cycles() / 20).clamp(1, 100) {
        let last = submitter.submit_blocking(cells.append(value, spin)).unwrap();
        submitter.wait(last).unwrap();
        cells.expect(0..=value);
    }
    queue.finish().unwrap();
}

/// A client may drop its buffers right after it has submitted work on them: they live until the
/// work has run, and the next owner of the memory finds nothing of it.
pub fn operands_live_until_their_work_has_run<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    let spin = rounds_for(device, Duration::from_micros(200));
    for round in 0..(cycles() / 20).max(1) {
        let config = Config::default().level(level);
        let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
        let result = device.alloc_host(8).unwrap();
        let last = submit_and_drop(device, &mut submitter, &result, spin);
        let next: Vec<_> = (0..6).map(|_| Cells::new(device, 4)).collect();
        doze(&mut rng, 300);
        queue.preempt(rng.random()).unwrap();
        queue.restore().unwrap();
        if round % 2 == 0 {
            submitter.wait(last).unwrap();
            let want = appended([1, 2, 3]);
            assert_eq!(read(device, &result, 1), [want], "what was copied of dropped buffers");
        }
        drop((submitter, queue)); // every other time with work in flight
        next.iter().for_each(|cells| cells.expect([]));
    }
}

/// Appends to cells, copies them on within the device and to `result`, and keeps none of the
/// buffers.
fn submit_and_drop<D: Device>(
    device: &D,
    submitter: &mut Submitter<D>,
    result: &D::Buffer,
    spin: u64,
) -> Seq {
    let (cells, scratch) = (Cells::new(device, 4), device.alloc(32).unwrap());
    let copy = |from: &D::Buffer, to: &D::Buffer, to_host| {
        let (from, to) = (from.clone(), to.clone());
        Command::Copy(Copy { from, from_offset: 0, to, to_offset: 0, bytes: 8, to_host })
    };
    let fill = Fill { buffer: scratch.clone(), offset: 0, bytes: 32, word: 9 };
    submitter.submit(Command::Fill(fill)).unwrap();
    for value in [1, 2, 3] {
        submitter.submit(cells.append(value, spin)).unwrap();
    }
    submitter.submit(copy(cells.buffer(), &scratch, false)).unwrap();
    submitter.submit(copy(&scratch, result, true)).unwrap()
}

pub fn a_queue_waits_for_an_event_of_another<D: Device>(device: &D, level: PreemptLevel) {
    let config = Config::default().level(level);
    let [(mut first, a), (mut second, b)] =
        [0, 1].map(|_| VirtualQueue::enable(device, config).unwrap());
    let cells = Cells::new(device, 2);
    let event = device.event().unwrap();
    second.submit(Command::Wait(event.clone())).unwrap();
    let last = second.submit(cells.append(2, 0)).unwrap();
    // sleep: time in which a fault would show; none fails a right device
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
    assert!(third.wait(reef_core::Seq(0)).is_err());
}

pub fn empty_work_completes<D: Device>(device: &D, level: PreemptLevel) {
    let (mut submitter, queue) =
        VirtualQueue::enable(device, Config::default().level(level)).unwrap();
    let none = Cells::new(device, 0);
    submitter.submit(none.append(1, 0)).unwrap();
    let (from, to) = (none.buffer().clone(), none.buffer().clone());
    let copy = Copy { from, from_offset: 0, to, to_offset: 0, bytes: 0, to_host: true };
    let last = submitter.submit(Command::Copy(copy)).unwrap();
    submitter.wait(last).unwrap();
    queue.disable().map_err(|(error, _)| error).unwrap();
}
